"""A run's append-only log: what a watcher sees, numbered 1, 2, 3, … without holes."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from runs.models.runs import Run


class Event(models.Model):
    run = models.ForeignKey(Run, verbose_name=_("run"), on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveIntegerField(_("number"))
    type = models.CharField(_("type"), max_length=40)
    at = models.DateTimeField(_("time"))
    # The whole event as one line of JSON, exactly as it was or will be sent: a replay is the same bytes as the live
    # stream was, and sending it again costs no parsing.
    line = models.TextField(_("line"))

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        ordering = ["run", "seq"]
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="one_event_a_seq")]

    def __str__(self) -> str:
        return f"{self.seq} {self.type}"
