"""Stop: recorded, durably, before anybody is told."""

from django.db import transaction
from django.utils import timezone

from runs import bell
from runs.actions.ending import STOP_FIELDS, Ending, end_without_worker
from runs.actions.refusals import Refused
from runs.database import writing
from runs.models import Run, Status, StopReason


def request_stop(run_pk: int, *, by: str, via: str) -> Run:
    """Record a stop, durably, before anybody is told. A run that nobody works on ends right here."""
    with writing():
        run = Run.objects.select_for_update(of=("self",)).select_related("conversation").filter(pk=run_pk).first()
        if run is None or not run.is_active:
            raise Refused(404, "run_not_active", "The run has ended already.")
        if run.stop_requested_at is not None:
            return run
        run.stop_requested_at = timezone.now()
        run.stop_requested_by = by
        run.stop_requested_via = via
        if run.status == Status.RUNNING:
            run.save(update_fields=STOP_FIELDS)
            transaction.on_commit(
                lambda: bell.ring(bell.WORKERS, {"type": "stop", "run": run.pk, "by": by, "via": via})
            )
        else:
            end_without_worker(run, Ending(Status.CANCELLED, StopReason.CANCELLED), run.stop_requested_at)
    return run


def stop_requests(worker: str) -> list[Run]:
    """The stops that this worker should have heard of."""
    return list(Run.objects.filter(worker=worker, status=Status.RUNNING, stop_requested_at__isnull=False))
