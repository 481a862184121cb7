"""What the model sees and said: a conversation's context is these rows by position, and nothing else."""

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from runs.models.conversations import Conversation
from runs.models.ids import new_message_id
from runs.models.runs import Run


class Message(models.Model):
    public_id = models.CharField(_("ID"), max_length=40, unique=True, default=new_message_id, editable=False)
    conversation = models.ForeignKey(
        Conversation, verbose_name=_("conversation"), on_delete=models.CASCADE, related_name="messages"
    )
    run = models.ForeignKey(Run, verbose_name=_("run"), on_delete=models.CASCADE, related_name="messages")
    position = models.PositiveIntegerField(_("position"))
    role = models.CharField(_("role"), max_length=10)
    content = models.JSONField(_("content"), help_text=_("Text, or a list of content parts."))
    tool_calls = models.JSONField(_("tool calls"), null=True)
    tool_call_id = models.CharField(_("tool call"), max_length=200, blank=True)
    name = models.CharField(_("name"), max_length=100, blank=True)
    is_partial = models.BooleanField(_("partial"), default=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        ordering = ["conversation", "position"]
        constraints = [models.UniqueConstraint(fields=["conversation", "position"], name="one_message_a_position")]
        indexes = [models.Index(fields=["run", "position"], name="message_run_order")]

    def __str__(self) -> str:
        return f"{self.role} {self.position}"

    def as_dict(self) -> dict[str, Any]:
        """As the API shows it."""
        shown: dict[str, Any] = {
            "id": self.public_id,
            "position": self.position,
            "run_id": self.run.public_id,
            "role": self.role,
            "content": self.content,
            "created_at": self.created_at.isoformat(),
        }
        if self.tool_calls:
            shown["tool_calls"] = self.tool_calls
        if self.tool_call_id:
            shown["tool_call_id"] = self.tool_call_id
        if self.name:
            shown["name"] = self.name
        if self.is_partial:
            shown["partial"] = True
        return shown
