"""Runs: what was asked, what came of it, how long it took, what a stop did. Here they can be stopped, and no more."""

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from runs import access, actions
from runs.admin.reading import ReadOnlyAdmin, link_to, link_to_rows, pretty, short
from runs.models import Approval, Event, Message, Run


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = ["public_id", "shown_status", "stop_reason", "agent", "owner", "asked", "queued_at", "seconds"]
    list_filter = ["status", "stop_reason", "agent", "queued_at"]
    list_select_related = ["agent", "owner", "conversation"]
    search_fields = ["=public_id", "=conversation__public_id", "=owner__username", "input_text"]
    actions = ["stop_runs"]
    fieldsets = [
        (None, {"fields": ["public_id", "shown_status", "stop_reason", "conversation_link", "agent", "agent_version"]}),
        (_("Asked"), {"fields": ["owner", "input_text", "has_token_streaming", "shown_metadata", "idempotency_key"]}),
        (_("Answered"), {"fields": ["output", "shown_error", "messages", "approvals", "events"]}),
        (
            _("Used"),
            {"fields": ["steps", "prompt_tokens", "completion_tokens", "cost", "is_usage_estimated", "active_seconds"]},
        ),
        (_("Limits"), {"fields": ["max_steps", "max_seconds", "max_tokens", "max_cost"]}),
        (_("Times"), {"fields": ["queued_at", "started_at", "first_token_at", "ended_at"]}),
        (
            _("Stop"),
            {"fields": ["stop_requested_at", "stop_requested_by", "stop_requested_via", "shown_receipt"]},
        ),
        (_("Worker"), {"fields": ["worker", "attempt", "losses", "lease_expires_at"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Run]:
        assert isinstance(request.user, User)
        return access.visible_runs(request.user).order_by("-id")

    def has_stop_permission(self, request: HttpRequest) -> bool:
        assert isinstance(request.user, User)
        return request.user.has_perm("runs.change_run")

    @admin.action(description=_("Stop selected runs"), permissions=["stop"])
    def stop_runs(self, request: HttpRequest, runs: QuerySet[Run]) -> None:
        assert isinstance(request.user, User)
        for run in runs:
            try:
                actions.request_stop(run.pk, by=request.user.username, via="admin")
            except actions.Refused as refused:
                self.message_user(request, f"{run}: {refused}", messages.WARNING)
            else:
                self.message_user(request, gettext("%(run)s: stop requested.") % {"run": run}, messages.SUCCESS)

    @admin.display(description=_("status"), ordering="status")
    def shown_status(self, run: Run) -> str:
        return run.status_word

    @admin.display(description=_("asked"))
    def asked(self, run: Run) -> str:
        return short(run.input_text)

    @admin.display(description=_("seconds"))
    def seconds(self, run: Run) -> str:
        return f"{(run.ended_at - run.queued_at).total_seconds():.1f}" if run.ended_at else ""

    @admin.display(description=_("conversation"))
    def conversation_link(self, run: Run) -> str:
        return link_to(run.conversation)

    @admin.display(description=_("messages"))
    def messages(self, run: Run) -> str:
        return link_to_rows(Message.objects.all(), run__exact=run.pk)

    @admin.display(description=_("approvals"))
    def approvals(self, run: Run) -> str:
        return link_to_rows(Approval.objects.all(), run__exact=run.pk)

    @admin.display(description=_("events"))
    def events(self, run: Run) -> str:
        return link_to_rows(Event.objects.all(), run__exact=run.pk)

    @admin.display(description=_("metadata"))
    def shown_metadata(self, run: Run) -> str:
        return pretty(run.metadata)

    @admin.display(description=_("error"))
    def shown_error(self, run: Run) -> str:
        return pretty(run.error) if run.error else ""

    @admin.display(description=_("receipt"))
    def shown_receipt(self, run: Run) -> str:
        return pretty(run.receipt) if run.receipt else ""
