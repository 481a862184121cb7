"""A live agent: its model client, its frozen system prompt, its tools and the conversation's history.

It outlives its runs (the pool keeps it), holds at most one turn at a time, and can be interrupted at any moment. What a
single message may change (the reasoning effort, the rules for approvals) is set on it in place and touches neither
client nor prompt.

It owns its clients. The conversation's task (`gateway/task.py`) it only works with: an agent that is let go leaves the
task alone, and the next one finds it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gateway.messages import Message, ToolCall, Usage
from gateway.outcomes import Ask, Cause, Outcome
from gateway.providers.base import ModelRequest, Provider
from gateway.task import Task
from gateway.tools.approval import find_ask
from gateway.tools.base import Rule
from gateway.tools.registry import Tool

if TYPE_CHECKING:
    from gateway.loop import Turn

MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Prices:
    """For a million tokens; None where nobody told."""

    prompt: Decimal | None = None
    completion: Decimal | None = None

    def of(self, prompt_tokens: int, completion_tokens: int, *, is_estimated: bool) -> Usage:
        cost = None
        if self.are_known:
            cost = (prompt_tokens * (self.prompt or 0) + completion_tokens * (self.completion or 0)) / MILLION
        return Usage(prompt_tokens, completion_tokens, cost, is_estimated)

    @property
    def are_known(self) -> bool:
        return self.prompt is not None or self.completion is not None


@dataclass(frozen=True)
class AgentSetup:
    """What an agent is made of, beside its client and its tools."""

    model: str
    instructions: str = ""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    has_parallel_tools: bool = False
    max_retries: int = 3
    prices: Prices = Prices()


@dataclass(frozen=True)
class Fallback:
    """The second model: for the rest of a run in which the first one failed for good."""

    model: str
    provider: Provider
    max_retries: int = 3
    prices: Prices = Prices()


class Agent:
    def __init__(
        self,
        setup: AgentSetup,
        provider: Provider,
        tools: Mapping[str, Tool],
        task: Task | None = None,
        fallback: Fallback | None = None,
    ) -> None:
        self.setup = setup
        self.provider = provider
        self.task = task
        self.fallback = fallback
        self.model = setup.model
        self.max_retries = setup.max_retries
        self.prices = setup.prices
        self.are_prices_assumed = False
        """The second model has no prices of its own: those of the first are taken, so that a cost limit still holds."""
        self.has_fallen_back = False
        self._first_provider = provider
        self.tools = dict(tools)
        self.tool_specs = tuple(tool.spec for tool in tools.values())
        self.system_prompt = setup.instructions
        self.history: list[Message] = []
        self.last_position = 0
        self.context_from = 0
        self.reasoning_effort: str | None = None
        self.approvals: Mapping[str, Rule] = {}
        self._turn: Turn | None = None

    def load_history(self, messages: Sequence[Message], last_position: int, context_from: int = 0) -> None:
        """Replace what it knows of the conversation; `last_position` is the place of the last message. Messages up to
        `context_from` are not among them: the conversation was reset there."""
        self.history = list(messages)
        self.last_position = last_position
        self.context_from = context_from

    def extend_history(self, messages: Sequence[Message]) -> None:
        self.history += messages
        self.last_position += len(messages)

    def find_ask(self, call: ToolCall) -> Ask | None:
        """What a person must be asked before this call may run, by the agent's rule or else by the tool's."""
        tool = self.tools.get(call.name)
        return None if tool is None else find_ask(call, tool, self.approvals.get(call.name, tool.approval))

    async def run(self, turn: "Turn") -> Outcome:
        assert self._turn is None, "an agent does one run at a time"
        self._turn = turn
        try:
            return await turn.run()
        finally:
            self._turn = None

    def interrupt(self, reason: str, cause: Cause = Cause.STOP) -> None:
        """End the run under way, now. Without one this does nothing."""
        if self._turn is not None:
            self._turn.interrupt(reason, cause)

    @property
    def can_fall_back(self) -> bool:
        return self.fallback is not None and not self.has_fallen_back

    def fall_back(self) -> None:
        """Go on with the second model.

        There is no way back: whoever keeps the agent lets it go after the run, and the next one begins with the first
        model again."""
        assert self.fallback is not None
        self.has_fallen_back = True
        self.model = self.fallback.model
        self.provider = self.fallback.provider
        self.max_retries = self.fallback.max_retries
        if self.fallback.prices.are_known:
            self.prices = self.fallback.prices
        else:
            self.are_prices_assumed = self.prices.are_known

    def request(self, messages: Sequence[Message]) -> ModelRequest:
        return ModelRequest(
            model=self.model,
            system_prompt=self.system_prompt,
            messages=messages,
            tools=self.tool_specs,
            sampling=self.setup.sampling,
            reasoning_effort=self.reasoning_effort,
        )

    async def release_clients(self) -> None:
        """Soft: let go of the connections to the model, and of nothing else."""
        await self._first_provider.close()
        if self.fallback is not None and self.fallback.provider is not self._first_provider:
            await self.fallback.provider.close()

    async def close(self) -> None:
        """Hard: the conversation has ended, and all that belongs to it ends."""
        try:
            await self.release_clients()
        finally:
            if self.task is not None:
                await self.task.end()
