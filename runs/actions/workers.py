"""What workers tell of themselves: that they live, and how much they carry. By the database's clock, which is the only
one that all of them share."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from runs import bell
from runs.actions.claim import hand_back_rest, renew_leases
from runs.database import writing
from runs.models import Worker

# Rows of workers that ended without a word are shown for so long.
FORGET_AFTER = timedelta(days=1)


def check_in(name: str, active_runs: int = 0) -> None:
    with writing():
        Worker.objects.filter(seen_at__lt=Now() - FORGET_AFTER).delete()
        Worker.objects.create(
            name=name,
            started_at=Now(),
            seen_at=Now(),
            version=settings.VERSION,
            max_runs=settings.AGENTSITE["MAX_CONCURRENT_RUNS"],
            active_runs=active_runs,
        )


def report(name: str, run_pks: list[int]) -> bool:
    """Renew the worker's leases and its row. Whether somebody wants it to take no more runs."""
    renew_leases(name, run_pks)
    with writing():
        row = Worker.objects.filter(name=name)
        if not row.update(seen_at=Now(), active_runs=len(run_pks)):
            check_in(name, len(run_pks))  # it was away for so long that it was forgotten
        return row.filter(is_draining=True).exists()


def drain_worker(name: str, *, is_draining: bool = True) -> None:
    """Have a worker take no new runs and go on with those it has, or have it take runs again."""
    with writing():
        Worker.objects.filter(name=name).update(is_draining=is_draining)
        message = {"type": "drain", "worker": name, "is_draining": is_draining}
        transaction.on_commit(lambda: bell.ring(bell.WORKERS, message))


def show_pool(name: str, picture: dict[str, Any]) -> None:
    """What the worker holds in memory, for `runs.pools`."""
    with writing():
        Worker.objects.filter(name=name).update(pool=picture, pool_at=timezone.now())


def check_out(name: str) -> None:
    hand_back_rest(name)
    with writing():
        Worker.objects.filter(name=name).delete()
