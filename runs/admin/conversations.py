"""Conversations, with the way to their runs, messages and notes."""

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest

from runs import access
from runs.admin.reading import ReadOnlyAdmin, link_to_rows
from runs.models import Conversation, Message, Note, Run


@admin.register(Conversation)
class ConversationAdmin(ReadOnlyAdmin):
    list_display = ["public_id", "title", "agent", "owner", "last_stop_reason", "updated_at"]
    list_filter = ["agent"]
    list_select_related = ["agent", "owner"]
    search_fields = ["=public_id", "title", "=owner__username"]
    fields = [
        "public_id",
        "title",
        "agent",
        "owner",
        "last_stop_reason",
        "created_at",
        "updated_at",
        "runs",
        "messages",
        "notes",
    ]
    readonly_fields = ["public_id", "runs", "messages", "notes"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Conversation]:
        assert isinstance(request.user, User)
        return access.visible_conversations(request.user).order_by("-id")

    @admin.display
    def runs(self, conversation: Conversation) -> str:
        return link_to_rows(Run.objects.all(), conversation__exact=conversation.pk)

    @admin.display
    def messages(self, conversation: Conversation) -> str:
        return link_to_rows(Message.objects.all(), conversation__exact=conversation.pk)

    @admin.display
    def notes(self, conversation: Conversation) -> str:
        return link_to_rows(Note.objects.all(), conversation__exact=conversation.pk)
