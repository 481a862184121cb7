"""Workers that are, or were, alive: each renews its row together with its leases, by the database's clock."""

from datetime import timedelta

from django.db import models
from django.db.models.functions import Now

# A worker that has not reported for this long may still live, but nobody counts on it.
SEEN_SECONDS = 15


class WorkerQuerySet(models.QuerySet["Worker"]):
    def alive(self) -> "WorkerQuerySet":
        return self.filter(seen_at__gte=Now() - timedelta(seconds=SEEN_SECONDS))


class Worker(models.Model):
    name = models.CharField(max_length=100, unique=True)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField(db_index=True)
    version = models.CharField(max_length=40, blank=True, default="", db_default="")
    active_runs = models.PositiveIntegerField(default=0)
    max_runs = models.PositiveIntegerField(default=0, db_default=0)
    is_draining = models.BooleanField(default=False, db_default=False, help_text="Takes no new runs.")
    # What it holds in memory, as it was at that moment. See `runs.pools`.
    pool = models.JSONField(default=dict, editable=False)
    pool_at = models.DateTimeField(null=True, editable=False)

    objects = WorkerQuerySet.as_manager()

    class Meta:
        ordering = ["-seen_at"]

    def __str__(self) -> str:
        return self.name
