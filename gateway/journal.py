"""What the loop asks of whoever keeps its record.

All methods but `flush` only queue, in order, and never wait: so what was queued is kept also when the task that queued
it is cancelled in the next moment. Watchers see an event only after it is stored.
"""

from typing import Protocol

from gateway.errors import ProviderError
from gateway.messages import Message, ToolCall, ToolResult


class Journal(Protocol):
    def model_called(self, model: str) -> None:
        """It is being asked, for the first time in a step or again."""

    def add_text(self, text: str) -> None: ...

    def add_reasoning(self, text: str) -> None: ...

    def add_message(self, position: int, message: Message, *, is_shown: bool = True) -> None:
        """Store a message of the conversation; `is_shown` tells the watchers as well."""

    def tool_started(self, call: ToolCall) -> None: ...

    def tool_postponed(self, call: ToolCall) -> None:
        """It was announced by `tool_started` and never begun; it may be executed later."""

    def tool_progressed(self, call: ToolCall, text: str, fraction: float | None) -> None: ...

    def tool_completed(self, call: ToolCall, result: ToolResult, *, state: str, seconds: float | None) -> None: ...

    def retry_scheduled(self, number: int, seconds: float, error: ProviderError) -> None: ...

    def model_changed(self, first: str, second: str, error: ProviderError) -> None: ...

    @property
    def rest_seconds(self) -> float:
        """How long it is worth to let more text arrive before reading on: 0 on an idle system."""

    async def flush(self) -> None:
        """Return when everything that was queued before is stored."""
