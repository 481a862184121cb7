"""What holds after any death: of a run's log, of its conversation, of the marks that its tools left."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gateway.messages import Message, ToolCall
from tests.faults.calling import Caller, Frame, Started
from tests.scripted import find_malformed


def tokens(count: int) -> str:
    """What the demo model says to #tokens=count."""
    return "".join(f"tok{number} " for number in range(count))


def shown_text(frames: Sequence[Frame], type: str = "message.delta") -> str:
    return "".join(frame.event["text"] for frame in frames if frame.type == type)


def words_shown(count: int) -> Any:
    """For `Caller.see`: so many words."""
    return lambda seen: len(shown_text(seen).split()) >= count


def has_seen(type: str, times: int = 1) -> Any:
    return lambda seen: sum(frame.type == type for frame in seen) >= times


def check_log(events: Sequence[dict[str, Any]]) -> None:
    """R5, C2: whole, and with one end."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    ends = [event["type"] for event in events if event["type"] in ("run.completed", "run.failed", "run.cancelled")]
    assert len(ends) == 1
    assert events[-1]["type"] == ends[0]


def check_conversation(messages: Sequence[dict[str, Any]]) -> None:
    """T3, C8: in order, without holes, and a strict provider accepts it."""
    assert [message["position"] for message in messages] == list(range(1, len(messages) + 1))
    assert find_malformed([as_said(message) for message in messages]) is None


def as_said(message: dict[str, Any]) -> Message:
    calls = message.get("tool_calls") or []
    return Message(
        message["role"],
        message["content"],
        tool_calls=tuple(ToolCall(call["id"], call["function"]["name"], "{}") for call in calls),
        tool_call_id=message.get("tool_call_id"),
    )


def tool_results(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "tool"]


def read_effects(path: Path | str) -> list[str]:
    """The marks, in the order in which they were left. No call may leave two."""
    path = Path(path)
    lines = path.read_text().splitlines() if path.exists() else []
    assert len(lines) == len(set(lines)), f"an effect happened twice: {lines}"
    return [line.split()[0] for line in lines]


async def check_run(caller: Caller, run: Started, seen: Sequence[Frame] = ()) -> dict[str, Any]:
    """Everything about a run that has ended, or will by itself: R4, R5, T5, C2, C8. `seen` is what somebody saw of it
    before. Returns the run."""
    log = await caller.log(run)
    check_log([frame.event for frame in log])
    assert log[: len(seen)] == list(seen), "what somebody saw is not in the log"
    found = await caller.look(run)
    assert f"run.{found['status']}" == log[-1].type
    assert found["stop_reason"] == log[-1].event["stop_reason"]
    check_conversation(await caller.messages(run))
    return found


async def check_conversation_goes_on(caller: Caller, run: Started) -> None:
    """C8"""
    following = await caller.start("#tokens=2", conversation=run.conversation_id)
    found = await check_run(caller, following)
    assert (found["status"], found["output"]) == ("completed", tokens(2))
