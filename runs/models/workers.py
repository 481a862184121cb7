"""Workers that are, or were, alive: each renews its row together with its leases."""

from django.db import models


class Worker(models.Model):
    name = models.CharField(max_length=100, unique=True)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField(db_index=True)
    active_runs = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-seen_at"]

    def __str__(self) -> str:
        return self.name
