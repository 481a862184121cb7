"""Workers that are, or were, alive: each renews its row together with its leases, by the database's clock."""

from datetime import timedelta

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

# A worker that has not reported for this long may still live, but nobody counts on it.
SEEN_SECONDS = 15


class WorkerQuerySet(models.QuerySet["Worker"]):
    def alive(self) -> "WorkerQuerySet":
        return self.filter(seen_at__gte=Now() - timedelta(seconds=SEEN_SECONDS))


class Worker(models.Model):
    name = models.CharField(_("name"), max_length=100, unique=True)
    started_at = models.DateTimeField(_("started"))
    seen_at = models.DateTimeField(_("seen"), db_index=True)
    version = models.CharField(_("version"), max_length=40, blank=True, default="", db_default="")
    active_runs = models.PositiveIntegerField(_("active runs"), default=0)
    max_runs = models.PositiveIntegerField(_("limit of runs"), default=0, db_default=0)
    is_draining = models.BooleanField(_("draining"), default=False, db_default=False, help_text=_("Takes no new runs."))
    # What it holds in memory, as it was at that moment. See `runs.pools`.
    pool = models.JSONField(_("pool"), default=dict, editable=False)
    pool_at = models.DateTimeField(_("pool seen"), null=True, editable=False)

    objects = WorkerQuerySet.as_manager()

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        ordering = ["-seen_at"]

    def __str__(self) -> str:
        return self.name
