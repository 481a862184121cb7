"""How a run that can be taken comes to a worker.

In one process: the bell rings. In a deployment of many: a job is stored in the transaction that makes the run takeable,
and procrastinate delivers it to one worker. Where a living worker has the conversation's agent in its pool, that one is
rung as well, and whoever gets the job leaves it a moment's advance.

Neither decides anything: the claim does, by compare-and-set. What gets lost here, every worker's once-a-second look
finds.
"""

from django.conf import settings
from django.db import transaction
from django.db.models import F

from runs import bell
from runs.models import Conversation, Run, Worker


def dispatch(run_pk: int, worker: str = "") -> None:
    """Have a run taken, by this worker for preference. Part of the transaction after which it can be taken."""
    if not settings.IS_SCALE_OUT:
        transaction.on_commit(lambda: bell.ring_for_work(run_pk))
        return
    from runs.jobs import take_run  # procrastinate is there only in this deployment

    take_run.defer(run=run_pk, worker=worker)
    if worker:
        transaction.on_commit(lambda: bell.ring_for_work(run_pk, worker))


def worker_for(conversation: Conversation) -> str:
    """The worker whose pool holds the conversation's agent, where it lives and takes runs."""
    if not settings.IS_SCALE_OUT:
        return ""
    runs = Run.objects.filter(conversation=conversation).exclude(last_worker="").order_by("-pk")
    last = runs.values_list("last_worker", flat=True).first()
    able = Worker.objects.alive().filter(name=last, is_draining=False, active_runs__lt=F("max_runs"))
    return last if last and able.exists() else ""
