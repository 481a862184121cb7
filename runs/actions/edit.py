"""Changing what a run was asked, or taking it back, for as long as it waits."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from runs import events
from runs.actions.ending import Ending, end_without_worker
from runs.actions.refusals import Refused
from runs.actions.stored import last_seq
from runs.actions.submit import question_in
from runs.database import writing
from runs.models import Run, Status, StopReason


def edit_run(run_pk: int, messages: Sequence[dict[str, Any]]) -> Run:
    """Replace a run's input."""
    with writing():
        run = _lock_waiting(run_pk, "so its input cannot be changed")
        run.input = list(messages)
        run.input_text = question_in(messages)
        run.edits += 1
        run.save(update_fields=["input", "input_text", "edits"])
        edited = events.write_event(
            run, last_seq(run) + 1, events.RUN_EDITED, timezone.now(), {"input": run.input_text}
        )
        edited.save(force_insert=True)
        transaction.on_commit(lambda: events.publish(run, [edited]))
    return run


def withdraw_run(run_pk: int, *, by: str, via: str) -> Run:
    """Take a run back that has not begun. It ends as stopped, and unlike one that was only stopped it leaves nothing
    behind in the conversation: whoever removes a message does not want the model to read it later."""
    with writing():
        run = _lock_waiting(run_pk, "so it can only be stopped")
        run.stop_requested_at = timezone.now()
        run.stop_requested_by = by
        run.stop_requested_via = via
        run.is_withdrawn = True
        run.is_input_placed = True  # nowhere
        run.save(update_fields=["is_withdrawn", "is_input_placed"])
        end_without_worker(run, Ending(Status.CANCELLED, StopReason.CANCELLED), run.stop_requested_at)
    return run


def _lock_waiting(run_pk: int, otherwise: str) -> Run:
    """The row's lock decides against a worker that takes the run at the same moment: what a worker has taken is never
    changed under its hands."""
    run = (
        Run.objects.select_for_update(of=("self",))
        .select_related("conversation", "agent", "owner")
        .filter(pk=run_pk)
        .first()
    )
    if run is None or not run.is_active:
        raise Refused(404, "run_not_active", "The run has ended already.")
    if run.status != Status.QUEUED or run.attempt:
        raise Refused(409, "run_started", f"The run has started already, {otherwise}.")
    return run
