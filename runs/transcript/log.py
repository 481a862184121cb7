"""Reading logs for a transcript, without what a later event repeats: the pieces of a message that is complete, the
progress of a tool that is done. So the cost of opening a conversation is by what was said, not by how it came."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db.models import Max, Q, QuerySet

from runs import events
from runs.models import TERMINAL, Event, Run
from runs.transcript.folding import PASSING, Fold

NOTED = (events.RETRY_SCHEDULED, events.MODEL_CHANGED)
ALL = 2**31 - 1


def fold_runs(runs: Sequence[Run]) -> dict[int, Fold]:
    """The whole of these runs, by primary key: two queries, and two or three more for each run that is not over."""
    ended = [run.pk for run in runs if run.status in TERMINAL]
    read = _read(Event.objects.filter(run_id__in=ended).exclude(type__in=PASSING)) if ended else {}
    folds = {}
    for run in runs:
        if run.status in TERMINAL:
            folds[run.pk] = Fold(run.public_id)
            folds[run.pk].take(read.get(run.pk, ()))
        else:
            folds[run.pk] = fold_run(run)
    return folds


def fold_run(run: Run, upto: int = ALL) -> Fold:
    """A run up to this event."""
    fold = Fold(run.public_id)
    log = Event.objects.filter(run=run, seq__lte=upto)
    since = log.filter(type=events.MESSAGE_COMPLETED).aggregate(last=Max("seq"))["last"] or 0
    fold.take(_read(log.filter(~Q(type__in=PASSING) | Q(seq__gt=since))).get(run.pk, ()))
    return fold


def _read(log: QuerySet[Event]) -> dict[int, list[dict[str, Any]]]:
    """The events of each run in order."""
    read: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for pk, line in log.order_by("run_id", "seq").values_list("run_id", "line").iterator():
        read[pk].append(events.payload_of(line))
    if wanted := _telling_pieces(read):
        for pk, line in Event.objects.filter(wanted).values_list("run_id", "line"):
            read[pk].append(events.payload_of(line))
            read[pk].sort(key=lambda event: event["seq"])
    return read


def _telling_pieces(read: dict[int, list[dict[str, Any]]]) -> Q:
    """A few pieces of complete messages tell more than their text: the one that ended a thought, how long the thought
    took; the one before a note, that the message had begun by then."""
    wanted = Q()
    for pk, told in read.items():
        after = {event["seq"] + 1 for event in told[:-1] if event["type"] == events.REASONING_DELTA}
        before = {event["seq"] - 1 for event in told if event["type"] in NOTED}
        if missing := (after | before) - {event["seq"] for event in told}:
            wanted |= Q(run_id=pk, seq__in=missing)
    return wanted
