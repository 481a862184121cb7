"""Workers that are, or were, alive: what they carry, whether they take more, and the live agents that they hold."""

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.translation import gettext, gettext_noop
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from runs import actions, pools
from runs.admin.reading import ReadOnlyAdmin
from runs.models import Conversation, Worker
from runs.models.workers import SEEN_SECONDS

EVICTIONS: dict[pools.EvictionResult, tuple[int, str]] = {
    "evicted": (messages.SUCCESS, gettext_noop("The agent of {} was let go. Its next run gets a fresh one.")),
    "active": (
        messages.WARNING,
        gettext_noop("The agent of {} is in the middle of a run and was left alone. Try again afterwards."),
    ),
    "absent": (messages.INFO, gettext_noop("The agent of {} is in no pool any more.")),
    "unanswered": (
        messages.WARNING,
        gettext_noop("No worker answered for {}. The request may have got lost: ask again."),
    ),
}


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = ["name", "state", "seen_at", "version", "runs", "agents", "reuse", "started_at"]
    search_fields = ["name"]
    actions = ["drain", "take_runs_again"]

    def get_urls(self) -> list[URLPattern]:
        own = [path("pool/", self.admin_site.admin_view(self.show_pool), name="runs_worker_pool")]
        return own + super().get_urls()

    @method_decorator(require_http_methods(["GET", "HEAD", "POST"]))
    def show_pool(self, request: HttpRequest) -> HttpResponse:
        """The live agents, and a button to let one go."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            self.evict(request, request.POST.get("conversation", ""))
            return redirect("admin:runs_worker_pool")
        context: dict[str, Any] = {
            **self.admin_site.each_context(request),
            "title": gettext("Live agents"),
            "opts": self.opts,
            "pools": pools.look_at_pools(),
            "may_evict": self.may_evict(request),
        }
        return TemplateResponse(request, "admin/runs/worker/pool.html", context)

    def evict(self, request: HttpRequest, conversation_id: str) -> None:
        if not self.may_evict(request):
            raise PermissionDenied
        if not Conversation.objects.filter(public_id=conversation_id).exists():
            self.message_user(request, gettext("There is no such conversation."), messages.WARNING)
            return
        level, text = EVICTIONS[pools.evict_agent(conversation_id)]
        self.message_user(request, gettext(text).format(conversation_id), level)

    def may_evict(self, request: HttpRequest) -> bool:
        assert isinstance(request.user, User)
        return request.user.has_perm("runs.change_worker")

    @admin.display(description=_("state"))
    def state(self, worker: Worker) -> str:
        if (timezone.now() - worker.seen_at).total_seconds() > max(SEEN_SECONDS, settings.AGENTSITE["LEASE_SECONDS"]):
            return gettext("lost")
        if not worker.is_draining:
            return gettext("takes runs")
        return gettext("draining") if worker.active_runs else gettext("drained")

    @admin.display(description=_("runs"))
    def runs(self, worker: Worker) -> str:
        url = reverse("admin:runs_run_changelist", query={"worker": worker.name})
        return format_html('<a href="{}">{}</a>', url, f"{worker.active_runs} / {worker.max_runs}")

    @admin.display(description=_("live agents"))
    def agents(self, worker: Worker) -> int | None:
        size: int | None = worker.pool.get("size")
        return size

    @admin.display(description=_("agents reused"))
    def reuse(self, worker: Worker) -> str:
        reused = worker.pool.get("hits", 0)
        taken = reused + worker.pool.get("misses", 0)
        if not taken:
            return "–"
        return gettext("%(share)s of %(number)s runs") % {"share": f"{reused / taken:.0%}", "number": taken}

    def has_drain_permission(self, request: HttpRequest) -> bool:
        assert isinstance(request.user, User)
        return request.user.has_perm("runs.change_worker")

    @admin.action(description=_("Drain: take no new runs, go on with the others"), permissions=["drain"])
    def drain(self, request: HttpRequest, workers: QuerySet[Worker]) -> None:
        self._drain(request, workers, is_draining=True)

    @admin.action(description=_("Take runs again"), permissions=["drain"])
    def take_runs_again(self, request: HttpRequest, workers: QuerySet[Worker]) -> None:
        self._drain(request, workers, is_draining=False)

    def _drain(self, request: HttpRequest, workers: QuerySet[Worker], *, is_draining: bool) -> None:
        for worker in workers:
            actions.drain_worker(worker.name, is_draining=is_draining)
        if is_draining:
            text = gettext("Workers that take no new runs from now on: %(number)s.")
        else:
            text = gettext("Workers that take runs again: %(number)s.")
        self.message_user(request, text % {"number": len(workers)}, messages.SUCCESS)
