"""A run's append-only log: what a watcher sees, numbered 1, 2, 3, … without holes."""

from django.db import models

from runs.models.runs import Run


class Event(models.Model):
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveIntegerField()
    type = models.CharField(max_length=40)
    at = models.DateTimeField()
    # The whole event as one line of JSON, exactly as it was or will be sent: a replay is the same bytes as the live
    # stream was, and sending it again costs no parsing.
    line = models.TextField()

    class Meta:
        ordering = ["run", "seq"]
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="one_event_a_seq")]

    def __str__(self) -> str:
        return f"{self.seq} {self.type}"
