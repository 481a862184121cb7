"""What models saw and said."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from runs.admin.reading import ReadOnlyAdmin, link_to, pretty, short
from runs.models import Message


class RoleFilter(admin.SimpleListFilter):
    """Named here: to find them in the table would be to read all of it."""

    title = _("role")
    parameter_name = "role"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(role, role) for role in ("user", "assistant", "tool", "system")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Message]) -> QuerySet[Message]:
        return queryset.filter(role=self.value()) if self.value() else queryset


@admin.register(Message)
class MessageAdmin(ReadOnlyAdmin):
    list_display = ["public_id", "conversation", "position", "role", "text", "is_partial", "created_at"]
    list_filter = [RoleFilter, "is_partial"]
    list_select_related = ["conversation"]
    search_fields = ["=public_id", "=conversation__public_id", "=run__public_id"]
    ordering = ["-id"]
    fields = [
        "public_id",
        "conversation_link",
        "run_link",
        "position",
        "role",
        "shown_content",
        "shown_tool_calls",
        "tool_call_id",
        "name",
        "is_partial",
        "created_at",
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        messages = super().get_queryset(request).select_related("conversation", "run")
        return messages.filter(conversation__deleted_at__isnull=True)

    @admin.display(description=_("text"))
    def text(self, message: Message) -> str:
        return short(message.content or [call["function"]["name"] for call in message.tool_calls or []])

    @admin.display(description=_("conversation"))
    def conversation_link(self, message: Message) -> str:
        return link_to(message.conversation)

    @admin.display(description=_("run"))
    def run_link(self, message: Message) -> str:
        return link_to(message.run)

    @admin.display(description=_("content"))
    def shown_content(self, message: Message) -> str:
        return message.content if isinstance(message.content, str) else pretty(message.content)

    @admin.display(description=_("tool calls"))
    def shown_tool_calls(self, message: Message) -> str:
        return pretty(message.tool_calls) if message.tool_calls else ""
