"""E-mails that agents sent with the tool `send_email`. They are kept here and nothing leaves the machine."""

from django.db import models

from runs.models.conversations import Conversation


class OutboxEmail(models.Model):
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="outbox_emails")
    call_id = models.CharField(max_length=200)
    to = models.CharField(max_length=254)
    subject = models.CharField(max_length=200)
    body = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        verbose_name = "outbox e-mail"

    def __str__(self) -> str:
        return self.subject
