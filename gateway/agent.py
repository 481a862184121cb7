"""A live agent: its model client, its frozen system prompt, its tools and the conversation's history.

It outlives its runs (the pool keeps it), holds at most one turn at a time, and can be interrupted at any moment. What a
single message may change (the reasoning effort) is set on it in place and touches neither client nor prompt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gateway.messages import Message, Usage
from gateway.outcomes import Cause, Outcome
from gateway.providers.base import ModelRequest, Provider
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
        if self.prompt is not None or self.completion is not None:
            cost = (prompt_tokens * (self.prompt or 0) + completion_tokens * (self.completion or 0)) / MILLION
        return Usage(prompt_tokens, completion_tokens, cost, is_estimated)


@dataclass(frozen=True)
class AgentSetup:
    """What an agent is made of, beside its client and its tools."""

    model: str
    instructions: str = ""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    has_parallel_tools: bool = False
    max_retries: int = 3
    prices: Prices = Prices()


class Agent:
    def __init__(self, setup: AgentSetup, provider: Provider, tools: Mapping[str, Tool]) -> None:
        self.setup = setup
        self.provider = provider
        self.tools = dict(tools)
        self.tool_specs = tuple(tool.spec for tool in tools.values())
        self.system_prompt = setup.instructions
        self.history: list[Message] = []
        self.last_position = 0
        self.reasoning_effort: str | None = None
        self._turn: Turn | None = None

    def load_history(self, messages: Sequence[Message], last_position: int) -> None:
        """Replace what it knows of the conversation; `last_position` is the place of the last message."""
        self.history = list(messages)
        self.last_position = last_position

    def extend_history(self, messages: Sequence[Message]) -> None:
        self.history += messages
        self.last_position += len(messages)

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

    def request(self, messages: Sequence[Message]) -> ModelRequest:
        return ModelRequest(
            model=self.setup.model,
            system_prompt=self.system_prompt,
            messages=messages,
            tools=self.tool_specs,
            sampling=self.setup.sampling,
            reasoning_effort=self.reasoning_effort,
        )

    async def release_clients(self) -> None:
        """Soft: let go of the connections to the model, and of nothing else."""
        await self.provider.close()

    async def close(self) -> None:
        """Hard: the conversation has ended."""
        await self.release_clients()
