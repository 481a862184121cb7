"""One turn of the agent loop at a time, without a database: with a model that says what a test tells it to."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from gateway.agent import Agent, AgentSetup, Prices
from gateway.loop import Limits, Resumption, Turn
from gateway.messages import Message
from gateway.outcomes import Cause
from gateway.tools.registry import Tool, ToolContext, tool
from tests.gateway.recording import RecordingJournal
from tests.scripted import Answer, Gate, ScriptedProvider, find_malformed


class NoNotes:
    async def remember(self, key: str, text: str) -> None:
        raise NotImplementedError

    async def recall(self) -> dict[str, str]:
        return {}


class Bench:
    """An agent with a script, a journal in memory and one turn."""

    def __init__(
        self,
        *answers: Answer,
        tools: Sequence[Tool] = (),
        parallel: bool = False,
        limits: Limits | None = None,
        streaming: bool = True,
        resumption: Resumption | None = None,
        history: Sequence[Message] = (Message("user", "hello"),),
        prices: Prices | None = None,
        max_retries: int = 3,
    ) -> None:
        self.provider = ScriptedProvider(*answers)
        setup = AgentSetup("model", has_parallel_tools=parallel, prices=prices or Prices(), max_retries=max_retries)
        self.agent = Agent(setup, self.provider, {each.name: each for each in tools})
        self.agent.load_history(history, len(history))
        self.journal = RecordingJournal()
        for position, message in enumerate(history, start=1):
            self.journal.messages[position] = message
        if resumption is not None and (step := resumption.open_step) is not None:
            for made in step.calls:
                if made.id in step.answers:
                    self.journal.messages[step.position_of(made)] = step.answers[made.id]
        self.turn = Turn(
            self.agent,
            self.journal,
            limits or Limits(10, 60),
            lambda made, report: ToolContext("conv_1", made.id, NoNotes(), report),
            has_token_streaming=streaming,
            resumption=resumption,
            grace_seconds=0.01,
        )

    async def run(self):
        outcome = await self.agent.run(self.turn)
        self.check()
        return outcome

    def start(self) -> asyncio.Task:
        return asyncio.create_task(self.run())

    def check(self) -> None:
        """Memory and record hold the same messages in the same order, and a provider would accept them (C8, C9)."""
        stored = [message for _, message in sorted(self.journal.messages.items())]
        assert sorted(self.journal.messages) == list(range(1, len(stored) + 1))
        if self.turn.cause is not Cause.SHUTDOWN:
            assert stored == self.agent.history
            assert find_malformed(stored) is None
        assert self.provider.open_streams == 0

    @property
    def new(self) -> list[Message]:
        return self.agent.history[1:]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


def gated_tool(name: str, gate: Gate, result: str = "result") -> Tool:
    @tool()
    async def gated() -> str:
        """Waits for the test."""
        await gate.wait()
        return result

    return replace(gated, name=name)


@tool()
async def ping() -> str:
    """Answers."""
    return "pong"
