"""A tool call that waits, or waited, for a person to decide on it.

    pending ──► approved | denied     somebody decided
            ──► expired               nobody did in time
            ──► stopped               the run was stopped first

The first decision stands: each change is a compare-and-set from `pending`, made with the run's row locked. A run waits
(`requires_approval`) exactly as long as one of its approvals is pending.
"""

import json
from typing import Any

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from runs.models.agents import OnExpiry
from runs.models.fields import WrittenJSONField
from runs.models.ids import new_approval_id
from runs.models.runs import Run

# The one text that answers every call that waited when its run was stopped.
DENIED_BY_STOP = "Denied: the run was stopped while this call waited for approval. It was not executed."
EXPIRED = "Denied: nobody decided on this call before it expired. It was not executed."


class ApprovalStatus(models.TextChoices):
    PENDING = "pending", _("pending")
    APPROVED = "approved", _("approved")
    DENIED = "denied", _("denied")
    EXPIRED = "expired", _("expired")
    STOPPED = "stopped", _("stopped")


class Approval(models.Model):
    public_id = models.CharField(_("ID"), max_length=40, unique=True, default=new_approval_id, editable=False)
    run = models.ForeignKey(Run, verbose_name=_("run"), on_delete=models.CASCADE, related_name="approvals")

    # What is asked.
    tool_call_id = models.CharField(_("tool call"), max_length=200)
    position = models.PositiveIntegerField(
        _("position"), help_text=_("Where the call's answer stands in the conversation.")
    )
    name = models.CharField(_("name"), max_length=100)
    description = models.TextField(_("description"), blank=True)
    arguments = WrittenJSONField(_("arguments"), help_text=_("As the model asked for them."))
    arguments_digest = models.CharField(
        _("digest of the arguments"), max_length=64, help_text=_("SHA-256 of the arguments as JSON with sorted keys.")
    )
    schema = WrittenJSONField(_("schema"), help_text=_("The JSON schema of the tool's arguments."))
    why = models.TextField(_("why"), blank=True, help_text=_("What the model said before the call."))
    requested_at = models.DateTimeField(_("requested"))
    expires_at = models.DateTimeField(_("expires"), null=True)
    on_expiry = models.CharField(_("on expiry"), max_length=10, choices=OnExpiry.choices)

    # What was decided.
    status = models.CharField(
        _("status"), max_length=10, choices=ApprovalStatus.choices, default=ApprovalStatus.PENDING
    )
    edited_arguments = WrittenJSONField(
        _("edited arguments"), null=True, help_text=_("What a person put in their place.")
    )
    reason = models.TextField(_("reason"), blank=True)
    decided_by = models.CharField(_("decided by"), max_length=150, blank=True)
    decided_via = models.CharField(_("decided via"), max_length=20, blank=True)
    decided_at = models.DateTimeField(_("decided"), null=True)

    class Meta:
        verbose_name = _("approval")
        verbose_name_plural = _("approvals")
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["run", "tool_call_id"], name="one_approval_a_call")]
        indexes = [
            models.Index(fields=["status", "-id"], name="approval_status_recent"),
            models.Index(fields=["expires_at"], condition=Q(status="pending"), name="approval_to_expire"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.tool_call_id}"

    @property
    def decided_arguments(self) -> dict[str, Any]:
        """What the call runs with, if it runs."""
        arguments: dict[str, Any] = self.arguments if self.edited_arguments is None else self.edited_arguments
        return arguments

    @property
    def decision(self) -> str:
        """In one of two words: everything but an approval is a denial."""
        return "approved" if self.status == ApprovalStatus.APPROVED else "denied"

    @property
    def denial(self) -> str:
        """What the model is told in place of a result."""
        match self.status:
            case ApprovalStatus.STOPPED:
                return DENIED_BY_STOP
            case ApprovalStatus.EXPIRED:
                return EXPIRED
        return f"Denied by {self.decided_by}. It was not executed." + (f" Reason: {self.reason}" if self.reason else "")

    @property
    def note(self) -> str:
        """What the model is told beside the result, where it would not know what its call has become."""
        if self.edited_arguments is None:
            return ""
        changed = json.dumps(self.edited_arguments, ensure_ascii=False)
        return f"[{self.decided_by} approved this call with other arguments, and it was executed with these: {changed}]"

    @property
    def decided_words(self) -> str:
        """Who decided what, for whoever comes second."""
        match self.status:
            case ApprovalStatus.EXPIRED:
                return "it expired"
            case ApprovalStatus.STOPPED:
                return f"the run was stopped{f' by {self.decided_by}' if self.decided_by else ''}"
        edited = " with other arguments" if self.edited_arguments is not None else ""
        return f"{self.decided_by} {self.decision} it{edited}"
