"""Where a run's input stands in its conversation.

Not where it came in, but where its turn came: an input that waits behind an active run must not land between that
run's messages. So an input becomes messages when its run starts, or, if the run ended before its turn, when nothing is
under way in the conversation.
"""

from collections.abc import Sequence
from itertools import takewhile

from django.db.models import Max, Q

from runs.dispatch import dispatch
from runs.models import ACTIVE, TERMINAL, UNDER_WAY, Message, Run, Status


def ended_before(starting: Sequence[Run]) -> list[Run]:
    """The earlier runs of the same conversations that ended while they waited, and whose input has no place yet. Not
    the later ones: a run that starts again may be in the middle of its messages."""
    turns = {run.conversation_id: run.pk for run in starting}
    waited = Run.objects.filter(conversation_id__in=turns, is_input_placed=False, status__in=TERMINAL)
    return [run for run in waited.order_by("pk") if run.pk < turns[run.conversation_id]]


def place_inputs(starting: Sequence[Run], ended: Sequence[Run], positions: dict[int, int]) -> list[Message]:
    """Turn inputs into messages after these positions: of runs that start now, and before them of those that ended."""
    return _make_messages([*ended, *(run for run in starting if not run.is_input_placed)], dict(positions))


def go_on_after(run: Run) -> None:
    """A run of the conversation has ended: inputs of runs that ended before their turn came take their places, and the
    next one that waits is announced."""
    open_ones = Q(status__in=ACTIVE) | Q(is_input_placed=False)
    # Mostly there are none, at every end of a run: so first no more than is needed to see that.
    others = Run.objects.filter(open_ones, conversation_id=run.conversation_id).order_by("pk")
    statuses = dict(others.values_list("pk", "status"))
    if any(status in UNDER_WAY for status in statuses.values()):
        return
    # Up to the first that waits: it may have been handed back in the middle of its messages.
    if ended := list(takewhile(lambda pk: statuses[pk] in TERMINAL, statuses)):
        _make_messages(list(others.filter(pk__in=ended)), last_positions([run.conversation_id]))
    if waiting := [pk for pk, status in statuses.items() if status == Status.QUEUED]:
        dispatch(waiting[0], run.last_worker)


def _make_messages(runs: Sequence[Run], positions: dict[int, int]) -> list[Message]:
    placed = []
    for run in runs:
        for message in run.input:
            position = positions.get(run.conversation_id, 0) + 1
            positions[run.conversation_id] = position
            placed.append(
                Message(
                    conversation_id=run.conversation_id,
                    run=run,
                    position=position,
                    role=message["role"],
                    content=message["content"],
                    tool_calls=message.get("tool_calls"),
                    tool_call_id=message.get("tool_call_id", ""),
                    name=message.get("name", ""),
                )
            )
    Message.objects.bulk_create(placed)
    if ended := [run.pk for run in runs if run.status in TERMINAL]:
        Run.objects.filter(pk__in=ended).update(is_input_placed=True)
    return placed


def last_positions(conversation_pks: Sequence[int]) -> dict[int, int]:
    rows = Message.objects.filter(conversation_id__in=conversation_pks).order_by().values_list("conversation_id")
    return dict(rows.annotate(last=Max("position")))
