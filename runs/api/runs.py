"""Runs: start, look, list, change while they wait, stop."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from runs import access, actions
from runs.actions import Refused
from runs.api import shapes
from runs.api.approvals import show_approval
from runs.api.base import ApiView
from runs.api.bodies import read_object
from runs.api.lookups import find_run, named_runs, run_not_found
from runs.api.messages import MESSAGE_PAGES, show_messages
from runs.api.orders import NewRun, RunChange, read_change, read_idempotency_key, read_order
from runs.api.pagination import PARAMETERS, Pages
from runs.api.queries import read_choice, read_moment, read_query
from runs.api.schema import describe, page_parameters, parameter
from runs.models import ACTIVE, Approval, ApprovalStatus, Message, Run, Status, StopReason

PAGES = Pages("runs")
STATUSES = [*Status.values, "stopping"]
FILTERS = {
    "agent": "Slug of an agent.",
    "conversation": "Id of a conversation.",
    "status": f"One of {', '.join(STATUSES)}.",
    "stop_reason": f"One of {', '.join(StopReason.values)}.",
    "q": "Words to look for in input and output.",
    "created_after": "An ISO-8601 moment, or a date, which is its midnight.",
}
LIST_PARAMETERS = [*(parameter(name, text) for name, text in FILTERS.items()), *page_parameters(PAGES)]
IDEMPOTENCY_KEY = parameter(
    "Idempotency-Key",
    "1 to 200 printable ASCII characters of your choice: the same key starts one run, however often it is sent.",
    location="header",
)


class RunsView(ApiView):
    @describe(
        "start_run",
        "Start a run",
        body=NewRun,
        answer=shapes.RunStarted,
        status=202,
        parameters=[IDEMPOTENCY_KEY],
        errors=[403, 404, 409, 422],
    )
    def post(self, request: Request) -> Response:
        key = read_idempotency_key(request.headers.get("Idempotency-Key"))
        run = actions.submit_run(self.caller.user, read_order(read_object(request), key))
        started = {"run_id": run.public_id, "status": "started", "conversation_id": run.conversation.public_id}
        return Response(started, status=202)

    @describe("list_runs", "List runs, newest first", answer=shapes.RunList, parameters=LIST_PARAMETERS, errors=[400])
    def get(self, request: Request) -> Response:
        given = read_query(request, (*FILTERS, *PARAMETERS))
        user = self.caller.user
        page, cursor = PAGES.cut(filter_runs(access.visible_runs(user), given), given, str(user.pk))
        return Response({"data": show_runs(page, user), "next_cursor": cursor})


class RunView(ApiView):
    @describe("get_run", "Look at a run", answer=shapes.Run, errors=[404])
    def get(self, request: Request, run_id: str) -> Response:
        [shown] = show_runs([find_run(self.caller.user, run_id)], self.caller.user)
        return Response(shown)

    @describe(
        "change_run",
        "Change the input of a run that waits",
        body=RunChange,
        answer=shapes.Run,
        errors=[403, 404, 409],
        description="As long as no worker has taken it; afterwards 409 with the code `run_started`.",
    )
    def patch(self, request: Request, run_id: str) -> Response:
        user = self.caller.user
        run = find_run(user, run_id)
        messages = read_change(read_object(request))
        if run.owner != user:
            raise Refused(403, "not_yours", "Only its owner changes a run.")
        edited = actions.edit_run(run.pk, messages)
        [shown] = show_runs([edited], user)
        return Response(shown)

    @describe(
        "withdraw_run",
        "Take back a run that waits",
        answer=shapes.RunWithdrawn,
        errors=[403, 404, 409],
        description="As long as no worker has taken it; afterwards 409 with the code `run_started`. It ends as "
        "stopped, and nothing of it becomes a part of the conversation.",
    )
    def delete(self, request: Request, run_id: str) -> Response:
        caller = self.caller
        run = find_run(caller.user, run_id)
        if run.owner != caller.user:
            raise Refused(403, "not_yours", "Only its owner takes a run back. You can stop it.")
        actions.withdraw_run(run.pk, by=caller.user.get_username(), via=caller.via)
        return Response({"run_id": run_id, "status": "withdrawn"})


class RunStopView(ApiView):
    @describe(
        "stop_run",
        "Stop a run",
        answer=shapes.RunStopping,
        errors=[403, 404],
        description="At once. A run that has ended already answers 404 with the code `run_not_active`.",
    )
    def post(self, request: Request, run_id: str) -> Response:
        caller = self.caller
        pk = named_runs(caller.user, run_id).values_list("pk", flat=True).first()
        if pk is None:
            raise run_not_found(run_id)
        actions.request_stop(pk, by=caller.user.get_username(), via=caller.via)
        return Response({"run_id": run_id, "status": "stopping"})


class RunMessagesView(ApiView):
    @describe(
        "list_run_messages",
        "List a run's messages, in order",
        answer=shapes.MessageList,
        parameters=page_parameters(MESSAGE_PAGES),
        errors=[400, 404],
    )
    def get(self, request: Request, run_id: str) -> Response:
        run = find_run(self.caller.user, run_id)
        return show_messages(request, Message.objects.filter(run=run), run_id)


def filter_runs(runs: QuerySet[Run], given: Mapping[str, str]) -> QuerySet[Run]:
    if "agent" in given:
        runs = runs.filter(agent__slug=given["agent"])
    if "conversation" in given:
        runs = runs.filter(conversation__public_id=given["conversation"])
    if "status" in given:
        status = read_choice("status", given["status"], STATUSES)
        # As shown: an active run that was told to stop is `stopping` and nothing else.
        if status == "stopping":
            runs = runs.filter(status__in=ACTIVE, stop_requested_at__isnull=False)
        elif status in ACTIVE:
            runs = runs.filter(status=status, stop_requested_at__isnull=True)
        else:
            runs = runs.filter(status=status)
    if "stop_reason" in given:
        runs = runs.filter(stop_reason=read_choice("stop_reason", given["stop_reason"], StopReason.values))
    if "q" in given:
        runs = runs.filter(Q(input_text__icontains=given["q"]) | Q(output__icontains=given["q"]))
    if "created_after" in given:
        runs = runs.filter(queued_at__gt=read_moment("created_after", given["created_after"]))
    return runs


def show_runs(runs: Sequence[Run], viewer: User) -> list[dict[str, Any]]:
    waiting = {run.pk: run for run in runs if run.status == Status.REQUIRES_APPROVAL}
    pending: defaultdict[int, list[Approval]] = defaultdict(list)
    if waiting:
        for approval in Approval.objects.filter(run__in=waiting, status=ApprovalStatus.PENDING).order_by("pk"):
            approval.run = waiting[approval.run_id]
            pending[approval.run_id].append(approval)
    return [_show_run(run, viewer, pending[run.pk]) for run in runs]


def _show_run(run: Run, viewer: User, pending: Sequence[Approval]) -> dict[str, Any]:
    return {
        "run_id": run.public_id,
        "status": run.shown_status,
        "stop_reason": run.stop_reason or None,
        "agent": run.agent.slug,
        "agent_version": run.agent_version,
        "conversation_id": run.conversation.public_id,
        "owner": run.owner.get_username(),
        "input": _show_input(run),
        "output": run.output,
        "usage": actions.show_usage(actions.usage_so_far(run)),
        "error": _show_error(run, viewer),
        "timings": {
            "queued_at": run.queued_at,
            "started_at": run.started_at,
            "first_token_at": run.first_token_at,
            "ended_at": run.ended_at,
        },
        "steps": run.steps,
        "limits": {
            "max_steps": run.max_steps,
            "max_seconds": run.max_seconds,
            "max_tokens": run.max_tokens,
            "max_cost": None if run.max_cost is None else str(run.max_cost),
        },
        "stream_tokens": run.has_token_streaming,
        "reasoning_effort": run.reasoning_effort or None,
        "metadata": run.metadata,
        "stop_requested_at": run.stop_requested_at,
        "withdrawn": run.is_withdrawn,
        "receipt": run.receipt,
        "attempt": run.attempt,
        "pending_approvals": [show_approval(approval) for approval in pending],
    }


def _show_input(run: Run) -> object:
    """A text that was sent as a text is shown as one."""
    match run.input:
        case [{"role": "user", "content": str(text)}]:
            return text
    return run.input


def _show_error(run: Run, viewer: User) -> dict[str, str] | None:
    if run.error is None:
        return None
    shown = {name: run.error.get(name, "") for name in ("error_type", "message", "detail")}
    if shown["error_type"] == "internal_error" and not viewer.is_staff:
        shown["detail"] = ""
    return shown
