"""A conversation belongs to one agent and one owner; its context is its messages in order, since the last reset."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from runs.models.agents import Agent
from runs.models.ids import new_conversation_id


class Conversation(models.Model):
    public_id = models.CharField(_("ID"), max_length=40, unique=True, default=new_conversation_id, editable=False)
    agent = models.ForeignKey(Agent, verbose_name=_("agent"), on_delete=models.PROTECT, related_name="conversations")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, verbose_name=_("owner"), on_delete=models.CASCADE, related_name="conversations"
    )
    title = models.CharField(_("title"), max_length=200, blank=True)
    last_stop_reason = models.CharField(_("last stop reason"), max_length=20, blank=True)
    context_from = models.PositiveIntegerField(
        _("context from"),
        default=0,
        editable=False,
        help_text=_("Messages up to this position are kept and no longer shown to the model."),
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)
    deleted_at = models.DateTimeField(
        _("deleted"),
        null=True,
        editable=False,
        help_text=_("Since then nobody finds it; for a while it can be restored."),
    )
    task_ended_at = models.DateTimeField(
        _("task ended"),
        null=True,
        editable=False,
        help_text=_("When its files and processes were removed, after it was deleted."),
    )

    class Meta:
        verbose_name = _("conversation")
        verbose_name_plural = _("conversations")
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["owner", "-updated_at"], name="conversation_owner_recent"),
            models.Index(
                fields=["deleted_at"], condition=models.Q(deleted_at__isnull=False), name="conversation_deleted"
            ),
        ]

    def __str__(self) -> str:
        return self.title or self.public_id

    @property
    def restorable_until(self) -> datetime | None:
        """For one that was deleted."""
        if self.deleted_at is None:
            return None
        return self.deleted_at + timedelta(seconds=settings.AGENTSITE["UNDO_SECONDS"])


class Note(models.Model):
    """What an agent was asked to remember in a conversation."""

    conversation = models.ForeignKey(
        Conversation, verbose_name=_("conversation"), on_delete=models.CASCADE, related_name="notes"
    )
    key = models.CharField(_("key"), max_length=100)
    text = models.TextField(_("text"))
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("note")
        verbose_name_plural = _("notes")
        ordering = ["key"]
        constraints = [models.UniqueConstraint(fields=["conversation", "key"], name="one_note_a_key")]

    def __str__(self) -> str:
        return self.key
