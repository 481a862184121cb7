"""Conversations, with the way to their runs, messages and notes."""

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from runs import access
from runs.actions import Refused, delete_conversation
from runs.admin.reading import ReadOnlyAdmin, link_to_rows
from runs.models import Conversation, Message, Note, Run


@admin.register(Conversation)
class ConversationAdmin(ReadOnlyAdmin):
    list_display = ["public_id", "title", "agent", "owner", "last_stop_reason", "updated_at"]
    list_filter = ["agent"]
    actions = ["delete_conversations"]
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

    def has_end_permission(self, request: HttpRequest) -> bool:
        assert isinstance(request.user, User)
        return request.user.has_perm("runs.delete_conversation")

    @admin.action(description=_("Delete selected conversations"), permissions=["end"])
    def delete_conversations(self, request: HttpRequest, conversations: QuerySet[Conversation]) -> None:
        assert isinstance(request.user, User)
        for conversation in conversations:
            try:
                delete_conversation(conversation, by=request.user.username, via="admin")
            except Refused as refused:
                self.message_user(request, str(refused), messages.WARNING)
            else:
                until = date_format(localtime(conversation.restorable_until), "H:i")
                text = gettext("%(conversation)s: deleted; its owner can restore it until %(time)s.")
                text %= {"conversation": conversation.public_id, "time": until}
                self.message_user(request, text, messages.SUCCESS)

    @admin.display(description=_("runs"))
    def runs(self, conversation: Conversation) -> str:
        return link_to_rows(Run.objects.all(), conversation__exact=conversation.pk)

    @admin.display(description=_("messages"))
    def messages(self, conversation: Conversation) -> str:
        return link_to_rows(Message.objects.all(), conversation__exact=conversation.pk)

    @admin.display(description=_("notes"))
    def notes(self, conversation: Conversation) -> str:
        return link_to_rows(Note.objects.all(), conversation__exact=conversation.pk)
