"""What the demo model reads out of a request: the last thing the user said, and what has happened since."""

from dataclasses import dataclass
from typing import Any

CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Answered:
    """A tool call with its result."""

    name: str
    arguments: str
    result: str


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    model: str = "demo"
    tools: frozenset[str] = frozenset()
    answered: tuple[Answered, ...] = ()
    """The calls since the user spoke, in order."""
    tokens: int = 0
    wants_usage: bool = False

    @classmethod
    def read(cls, body: dict[str, Any]) -> "Question":
        messages: list[dict[str, Any]] = body.get("messages") or []
        last_user = max((at for at, message in enumerate(messages) if message.get("role") == "user"), default=-1)
        since = messages[last_user + 1 :]
        results = {message["tool_call_id"]: text_of(message) for message in since if message.get("role") == "tool"}
        calls = [call for message in since for call in message.get("tool_calls") or []]
        return cls(
            text=text_of(messages[last_user]) if last_user >= 0 else "",
            model=str(body.get("model") or "demo"),
            tools=frozenset(tool["function"]["name"] for tool in body.get("tools") or []),
            answered=tuple(
                Answered(call["function"]["name"], call["function"]["arguments"], results[call["id"]])
                for call in calls
                if call["id"] in results
            ),
            tokens=sum(len(text_of(message)) for message in messages) // CHARACTERS_A_TOKEN + 1,
            wants_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        )


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text") or "" for part in content if isinstance(part, dict))


def what_is_malformed(messages: list[dict[str, Any]]) -> str | None:
    """What a strict provider refuses: a tool call that is not answered exactly once, directly after the message that
    made it; a tool message that answers nothing; an assistant message with nothing in it."""
    open_calls: list[str] = []
    for message in messages:
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                return f"tool message {message.get('tool_call_id')} answers no open call"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"tool calls without an answer: {', '.join(open_calls)}"
        if role == "assistant":
            open_calls = [call["id"] for call in message.get("tool_calls") or []]
            if not open_calls and not text_of(message):
                return "an assistant message with neither content nor tool calls"
    return f"tool calls without an answer: {', '.join(open_calls)}" if open_calls else None
