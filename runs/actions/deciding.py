"""One decision on one waiting call: the first stands. A denial is the call's answer, and is written with it."""

from typing import Any

from runs import events
from runs.actions.log import Log
from runs.actions.refusals import Refused
from runs.models import Approval, ApprovalStatus, Message


def settle_approval(
    log: Log,
    approval: Approval,
    status: ApprovalStatus,
    *,
    by: str = "",
    via: str,
    reason: str = "",
    edited_arguments: dict[str, Any] | None = None,
) -> None:
    """The caller holds the lock of the run."""
    decided: dict[str, Any] = {
        "status": status,
        "decided_by": by,
        "decided_via": via,
        "decided_at": log.now,
        "reason": reason,
        "edited_arguments": edited_arguments,
    }
    if not Approval.objects.filter(pk=approval.pk, status=ApprovalStatus.PENDING).update(**decided):
        raise refuse_second(approval)
    for name, value in decided.items():
        setattr(approval, name, value)
    log.tell(
        events.APPROVAL_DECIDED,
        {
            "tool_call_id": approval.tool_call_id,
            "name": approval.name,
            "decision": approval.decision,
            "edited": edited_arguments is not None,
            "arguments": approval.decided_arguments,
            "reason": reason,
            "decided_by": by,
            "decided_via": via,
            "decided_at": log.now.isoformat(),
        },
    )
    if status != ApprovalStatus.APPROVED:
        answer_call(log, approval.position, approval.tool_call_id, approval.name, approval.denial, "not_started")


def answer_call(log: Log, position: int, call_id: str, name: str, text: str, state: str) -> None:
    """The answer to a call that has no result and will have none."""
    Message.objects.create(
        conversation_id=log.run.conversation_id,
        run=log.run,
        position=position,
        role="tool",
        content=text,
        tool_call_id=call_id,
        name=name,
    )
    payload = {"tool_call_id": call_id, "name": name, "result": text, "is_error": True, "state": state}
    log.tell(events.TOOL_COMPLETED, {**payload, "seconds": None})


def refuse_second(approval: Approval) -> Refused:
    approval.refresh_from_db()
    when = f" at {approval.decided_at.isoformat(timespec='seconds')}" if approval.decided_at else ""
    words = f"{approval.name} ({approval.tool_call_id}) is decided already: {approval.decided_words}{when}."
    return Refused(409, "already_decided", words, "decisions")
