"""What is stored of a run, as far as going on or ending needs it."""

from typing import Any

from django.db.models import Max, QuerySet

from runs import events
from runs.models import Event, Message, Run


def last_seq(run: Run) -> int:
    return Event.objects.filter(run=run).aggregate(last=Max("seq"))["last"] or 0


def unfinished_text(run: Run) -> str:
    """What watchers were shown of a message that never became one: the deltas after the last completed message."""
    deltas = _since_last_message(run).filter(type=events.MESSAGE_DELTA).order_by("seq")
    return "".join(events.payload_of(line)["text"] for line in deltas.values_list("line", flat=True))


def is_reasoning_shown(run: Run) -> bool:
    """Whether watchers saw thoughts that led to no message yet."""
    return _since_last_message(run).filter(type=events.REASONING_DELTA).exists()


def _since_last_message(run: Run) -> QuerySet[Event]:
    told = Event.objects.filter(run=run)
    since = told.filter(type=events.MESSAGE_COMPLETED).aggregate(last=Max("seq"))["last"] or 0
    return told.filter(seq__gt=since)


def started_calls(run: Run) -> frozenset[str]:
    lines = Event.objects.filter(run=run, type=events.TOOL_STARTED).values_list("line", flat=True)
    return frozenset(events.payload_of(line)["tool_call_id"] for line in lines)


def calls_of_last_step(run: Run) -> list[tuple[int, dict[str, Any]]]:
    """The calls of the run's last assistant message, each with the position that is kept for its answer."""
    last = Message.objects.filter(run=run, role="assistant").order_by("-position").first()
    if last is None or not last.tool_calls:
        return []
    return [(last.position + number, call) for number, call in enumerate(last.tool_calls, start=1)]
