"""What the model sees and said: a conversation's context is these rows by position, and nothing else."""

from typing import Any

from django.db import models

from runs.models.conversations import Conversation
from runs.models.ids import new_message_id
from runs.models.runs import Run


class Message(models.Model):
    public_id = models.CharField(max_length=40, unique=True, default=new_message_id, editable=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="messages")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="messages")
    position = models.PositiveIntegerField()
    role = models.CharField(max_length=10)
    content = models.JSONField(help_text="Text, or a list of content parts.")
    tool_calls = models.JSONField(null=True)
    tool_call_id = models.CharField(max_length=200, blank=True)
    name = models.CharField(max_length=100, blank=True)
    is_partial = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
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
