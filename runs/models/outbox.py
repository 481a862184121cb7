"""E-mails that agents sent with the tool `send_email`. They are kept here and nothing leaves the machine."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from runs.models.conversations import Conversation


class OutboxEmail(models.Model):
    conversation = models.ForeignKey(
        Conversation, verbose_name=_("conversation"), on_delete=models.CASCADE, related_name="outbox_emails"
    )
    call_id = models.CharField(_("tool call"), max_length=200)
    to = models.CharField(_("recipient"), max_length=254)
    subject = models.CharField(_("subject"), max_length=200)
    body = models.TextField(_("body"), blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("outbox e-mail")
        verbose_name_plural = _("outbox e-mails")
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.subject
