"""A journal that keeps its record in memory, for tests of the loop."""

import asyncio
from typing import Any

from gateway.errors import ProviderError
from gateway.messages import Message, ToolCall, ToolResult


class RecordingJournal:
    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self.messages: dict[int, Message] = {}
        self.models: list[str] = []
        self.before_flush: list[asyncio.Event] = []
        self.flushing = asyncio.Event()
        self.rest_seconds = 0.0

    @property
    def text(self) -> str:
        return "".join(value for kind, value in self.events if kind == "text")

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]

    def model_called(self, model: str) -> None:
        self.models.append(model)

    def add_text(self, text: str) -> None:
        self.events.append(("text", text))

    def add_reasoning(self, text: str) -> None:
        self.events.append(("reasoning", text))

    def add_message(self, position: int, message: Message, *, is_shown: bool = True) -> None:
        assert position not in self.messages, f"two messages at {position}"
        self.messages[position] = message
        if is_shown:
            self.events.append(("message", message))

    def tool_started(self, call: ToolCall) -> None:
        self.events.append(("started", call.id))

    def tool_postponed(self, call: ToolCall) -> None:
        self.events.append(("postponed", call.id))

    def tool_progressed(self, call: ToolCall, text: str, fraction: float | None) -> None:
        self.events.append(("progress", (call.id, text)))

    def tool_completed(self, call: ToolCall, result: ToolResult, *, state: str, seconds: float | None) -> None:
        self.events.append(("completed", (call.id, state)))

    def retry_scheduled(self, number: int, seconds: float, error: ProviderError) -> None:
        self.events.append(("retry", (number, seconds, error.error_type)))

    def model_changed(self, first: str, second: str, error: ProviderError) -> None:
        self.events.append(("model", (first, second, error.error_type)))

    async def flush(self) -> None:
        self.flushing.set()
        if self.before_flush:
            await self.before_flush.pop(0).wait()
        await asyncio.sleep(0)
