"""Approvals: what waits for a person, what was decided, and deciding."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from runs import access, actions
from runs.actions import Decision
from runs.api import shapes
from runs.api.base import ApiView
from runs.api.bodies import read_object
from runs.api.lookups import named_runs, run_not_found
from runs.api.orders import Decisions, check
from runs.api.pagination import PARAMETERS, Pages
from runs.api.queries import read_choice, read_query
from runs.api.schema import describe, page_parameters, parameter
from runs.models import Approval, ApprovalStatus

PAGES = Pages("approvals")
STATUS = parameter("status", f"One of {', '.join(ApprovalStatus.values)}.")


class ApprovalsView(ApiView):
    @describe(
        "list_approvals",
        "List the approvals that you may decide, newest first",
        answer=shapes.ApprovalList,
        parameters=[STATUS, *page_parameters(PAGES)],
        errors=[400],
    )
    def get(self, request: Request) -> Response:
        given = read_query(request, ("status", *PARAMETERS))
        user = self.caller.user
        approvals = access.decidable_approvals(user)
        pending = approvals.filter(status=ApprovalStatus.PENDING).count()
        if "status" in given:
            approvals = approvals.filter(status=read_choice("status", given["status"], ApprovalStatus.values))
        page, cursor = PAGES.cut(approvals, given, str(user.pk))
        data = [show_approval(approval) for approval in page]
        return Response({"data": data, "next_cursor": cursor, "counts": {"pending": pending}})


class RunApprovalsView(ApiView):
    @describe(
        "decide_approvals",
        "Decide on calls that wait for approval",
        body=Decisions,
        answer=shapes.Decided,
        status=202,
        errors=[403, 404, 409],
        description="All of the decisions, or none. The run goes on when nothing of it waits any more. Where somebody "
        "was faster, the code is `already_decided` and the message says who decided what; where the run waits for "
        "nobody, it is `not_awaiting_approval`.",
    )
    def post(self, request: Request, run_id: str) -> Response:
        caller = self.caller
        pk = named_runs(caller.user, run_id).values_list("pk", flat=True).first()
        if pk is None:
            raise run_not_found(run_id)
        decisions = [
            Decision(sent.tool_call_id, sent.approve, sent.arguments, sent.reason or "")
            for sent in check(Decisions, read_object(request)).decisions
        ]
        run, pending = actions.decide_approvals(pk, decisions, by=caller.user, via=caller.via)
        return Response({"run_id": run_id, "status": run.shown_status, "pending": pending}, status=202)


def show_approval(approval: Approval) -> dict[str, Any]:
    run = approval.run
    return {
        "approval_id": approval.public_id,
        "run_id": run.public_id,
        "conversation_id": run.conversation.public_id,
        "conversation_title": run.conversation.title,
        "agent": run.agent.slug,
        "owner": run.owner.get_username(),
        "tool_call_id": approval.tool_call_id,
        "name": approval.name,
        "description": approval.description,
        "arguments": approval.arguments,
        "arguments_digest": approval.arguments_digest,
        "schema": approval.schema,
        "why": approval.why,
        "status": approval.status,
        "requested_at": approval.requested_at,
        "expires_at": approval.expires_at,
        "on_expiry": approval.on_expiry,
        "decided_by": approval.decided_by,
        "decided_at": approval.decided_at,
        "decided_via": approval.decided_via,
        "reason": approval.reason,
        "edited_arguments": approval.edited_arguments,
    }
