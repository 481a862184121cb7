"""What the model sees and says: messages, tool calls, tool results and token usage."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
Content = str | list[dict[str, Any]]

UNANSWERED = "This call was never answered: its result is not known."
# Counted no further: what is stored has six digits before its point, and no run is worth more.
MOST_COST = Decimal("999999.99999999")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asks for. `arguments` is the model's JSON text, which may be rubbish."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    content: Content = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    partial: bool = False

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.get("text", "") for part in self.content if part.get("type") == "text")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back, in the words the model will read."""

    content: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and their price. `estimated` says that a provider sent no figures for a part of it."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: Decimal | None = None
    estimated: bool = False

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Usage") -> "Usage":
        known = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            min(sum(known, Decimal(0)), MOST_COST) if known else None,
            self.estimated or other.estimated,
        )


def make_well_formed(history: Iterable[Message]) -> list[Message]:
    """The history as a strict provider accepts it: each tool call answered exactly once, directly after its
    assistant message and in the order of the calls; nothing that answers no call; no empty assistant message."""
    formed: list[Message] = []
    waiting: dict[str, Message | None] = {}

    def close_step() -> None:
        for call_id, answer in waiting.items():
            formed.append(answer or Message("tool", UNANSWERED, tool_call_id=call_id))
        waiting.clear()

    for message in history:
        if message.role == "tool":
            call_id = message.tool_call_id or ""
            if call_id in waiting and waiting[call_id] is None:
                waiting[call_id] = message
            continue
        close_step()
        if message.role == "assistant" and not message.tool_calls and not message.content:
            continue
        formed.append(message)
        if message.role == "assistant":
            waiting.update(dict.fromkeys(call.id for call in message.tool_calls))
    close_step()
    return formed


def give_unique_ids(calls: Sequence[ToolCall], taken: Iterable[str]) -> tuple[ToolCall, ...]:
    """Some providers send empty or repeated call ids; results could not be told apart by them."""
    seen = set(taken)
    unique = []
    for number, call in enumerate(calls):
        call_id = call.id or f"call_{number}"
        suffix = 1
        while call_id in seen:
            suffix += 1
            call_id = f"{call.id or f'call_{number}'}_{suffix}"
        seen.add(call_id)
        unique.append(replace(call, id=call_id))
    return tuple(unique)
