"""A model that does exactly what a test says, at exactly the moment a test says."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from gateway.errors import ProviderError
from gateway.messages import Message, Usage
from gateway.providers.base import Chunk, Ended, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta, UsageReport

_numbers = itertools.count(1)


class Gate:
    """A place in a script where it waits: `reached` tells the test, `open` lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    def open(self) -> None:
        self.opened.set()

    async def wait(self) -> None:
        self.reached.set()
        await self.opened.wait()


def call(name: str, arguments: dict[str, Any] | str | None = None, id: str | None = None) -> ToolCallDelta:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return ToolCallDelta(0, id if id is not None else f"call_{next(_numbers)}", name, text)


def thought(text: str) -> ReasoningDelta:
    return ReasoningDelta(text)


def used(prompt: int, completion: int) -> UsageReport:
    return UsageReport(Usage(prompt, completion))


Item = str | Chunk | Gate | Exception
Answer = Sequence[Item] | str


class ScriptedProvider:
    """Gives one answer after another; when they are used up, says "done". Refuses malformed histories like a strict
    provider does."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[ModelRequest] = []
        self.open_streams = 0
        self.endings: list[str] = []
        self.is_closed = False

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Sequence[Chunk]]]:
        self.requests.append(request)
        if wrong := find_malformed(request.messages):
            raise ProviderError("llm_error", f"malformed: {wrong}")
        answer = self.answers.pop(0) if self.answers else "done"
        self.open_streams += 1
        how = "cut"
        try:
            yield self._play([answer] if isinstance(answer, str) else answer)
            how = "done"
        finally:
            self.open_streams -= 1
            self.endings.append(how)

    async def _play(self, answer: Sequence[Item]) -> AsyncIterator[Sequence[Chunk]]:
        index = 0
        for item in answer:
            if isinstance(item, Gate):
                await item.wait()
            elif isinstance(item, Exception):
                raise item
            elif isinstance(item, str):
                yield [TextDelta(item)]
            elif isinstance(item, ToolCallDelta):
                yield [ToolCallDelta(index, item.id, item.name, item.arguments)]
                index += 1
            else:
                yield [item]
            await asyncio.sleep(0)
        yield [Ended("tool_calls" if index else "stop")]

    async def close(self) -> None:
        self.is_closed = True


def find_malformed(messages: Sequence[Message]) -> str | None:
    """What a strict provider would refuse in this history."""
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in waiting:
                return f"{message.tool_call_id} answers no open call"
            waiting.remove(message.tool_call_id)
            continue
        if waiting:
            return f"calls without an answer: {waiting}"
        if message.role == "assistant":
            waiting = [made.id for made in message.tool_calls]
            if not waiting and not message.content:
                return "an empty assistant message"
    return f"calls without an answer: {waiting}" if waiting else None
