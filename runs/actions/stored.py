"""What is stored of a run, as far as going on or ending needs it."""

from typing import Any

from django.db.models import Max, Min, QuerySet

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
    """Those that may have begun: a worker said that it starts them, and not that it left them to another."""
    told = Event.objects.filter(run=run, type__in=(events.TOOL_STARTED, events.TOOL_POSTPONED)).order_by("seq")
    last = {events.payload_of(line)["tool_call_id"]: kind for kind, line in told.values_list("type", "line")}
    return frozenset(call_id for call_id, kind in last.items() if kind == events.TOOL_STARTED)


def first_own_position(run: Run) -> int:
    """Where what the run itself says begins: behind its input, which may be a conversation with answers and calls that
    were made elsewhere. Those are never this run's to count, to answer or to execute."""
    first: int = Message.objects.filter(run=run).aggregate(first=Min("position"))["first"] or 0
    return first + len(run.input)


def completed_calls(run: Run) -> dict[str, tuple[str, str]]:
    """By their ids, the calls that are answered: the name of each, and how it ended."""
    lines = Event.objects.filter(run=run, type=events.TOOL_COMPLETED).order_by("seq").values_list("line", flat=True)
    payloads = [events.payload_of(line) for line in lines]
    return {payload["tool_call_id"]: (payload["name"], payload["state"]) for payload in payloads}


def calls_of_last_step(run: Run) -> list[tuple[int, dict[str, Any]]]:
    """The calls of the run's last assistant message, each with the position that is kept for its answer."""
    own = Message.objects.filter(run=run, role="assistant", position__gte=first_own_position(run))
    last = own.order_by("-position").first()
    if last is None or not last.tool_calls:
        return []
    return [(last.position + number, call) for number, call in enumerate(last.tool_calls, start=1)]
