"""Changing a conversation."""

from runs.database import writing
from runs.models import Conversation


def rename_conversation(conversation: Conversation, title: str) -> Conversation:
    conversation.title = title
    with writing():
        conversation.save(update_fields=["title"])
    return conversation
