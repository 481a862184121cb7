"""Who was asked for what, and who decided what and when. It is decided in the conversation or by the API, not here."""

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from runs import access
from runs.admin.reading import ReadOnlyAdmin, link_to, pretty, short
from runs.models import Approval


@admin.register(Approval)
class ApprovalAdmin(ReadOnlyAdmin):
    list_display = ["name", "shown_short", "status", "owner", "requested_at", "decided_by", "decided_via", "decided_at"]
    list_filter = ["status", "decided_via", "on_expiry", "requested_at", "decided_at"]
    search_fields = ["=public_id", "=run__public_id", "=run__conversation__public_id", "=decided_by", "=name"]
    fieldsets = [
        (None, {"fields": ["public_id", "status", "run_link", "conversation_link", "owner"]}),
        (
            _("Asked"),
            {
                "fields": [
                    *("name", "tool_call_id", "description", "why", "shown_arguments", "arguments_digest"),
                    *("shown_schema", "requested_at", "expires_at", "on_expiry"),
                ]
            },
        ),
        (_("Decided"), {"fields": ["decided_by", "decided_via", "decided_at", "reason", "shown_edited_arguments"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Approval]:
        assert isinstance(request.user, User)
        return access.decidable_approvals(request.user).order_by("-id")

    @admin.display(description=_("arguments"))
    def shown_short(self, approval: Approval) -> str:
        return short(approval.decided_arguments)

    @admin.display(description=_("owner"))
    def owner(self, approval: Approval) -> str:
        return approval.run.owner.get_username()

    @admin.display(description=_("run"))
    def run_link(self, approval: Approval) -> str:
        return link_to(approval.run)

    @admin.display(description=_("conversation"))
    def conversation_link(self, approval: Approval) -> str:
        return link_to(approval.run.conversation)

    @admin.display(description=_("arguments"))
    def shown_arguments(self, approval: Approval) -> str:
        return pretty(approval.arguments)

    @admin.display(description=_("schema"))
    def shown_schema(self, approval: Approval) -> str:
        return pretty(approval.schema)

    @admin.display(description=_("edited arguments"))
    def shown_edited_arguments(self, approval: Approval) -> str:
        return pretty(approval.edited_arguments) if approval.edited_arguments is not None else ""
