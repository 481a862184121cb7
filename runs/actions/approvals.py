"""Approvals: asked for by a worker that then lets go of the run, decided by people, by time, or by a stop.

Whoever decides holds the lock of the run's row, so that decisions, expiry and stop come one after another. The last
decision puts the run back into the queue, where the worker finds what was decided.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from runs import access, events, toolbox
from runs.actions.deciding import refuse_second, settle_approval
from runs.actions.ending import Ending, Usage, change_status, end_without_worker, let_go
from runs.actions.log import Log, store_log
from runs.actions.refusals import Refused
from runs.database import writing
from runs.dispatch import dispatch
from runs.models import Approval, ApprovalStatus, Event, OnExpiry, Run, Status, StopReason

MAX_ARGUMENT_BYTES = 256 * 1024
# Each is a transaction, and the worker has other things to write in between.
EXPIRED_AT_ONCE = 10


@dataclass(frozen=True)
class Decision:
    """What somebody says to one waiting call. `arguments` replace the model's; None leaves them as they are."""

    tool_call_id: str
    approve: bool
    arguments: dict[str, Any] | None = None
    reason: str = ""


def digest_of(arguments: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(arguments, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def ask_for_approvals(run: Run, asked: Sequence[Approval], usage: Usage, seq: int, now: datetime) -> list[Event]:
    """A worker lets go of its run, which now waits. Part of the journal's transaction, which stores the events."""
    let_go(run, Status.REQUIRES_APPROVAL, usage)
    hours = run.agent.approval_hours
    log = Log(run, now, seq)
    for approval in asked:
        approval.arguments_digest = digest_of(approval.arguments)
        approval.requested_at = now
        approval.expires_at = now + timedelta(hours=hours) if hours is not None else None
        approval.on_expiry = run.agent.on_expiry
        log.tell(
            events.APPROVAL_REQUESTED,
            {
                "tool_call_id": approval.tool_call_id,
                "name": approval.name,
                "arguments": approval.arguments,
                "schema": approval.schema,
                "description": approval.description,
                "expires_at": approval.expires_at.isoformat() if approval.expires_at else None,
                "on_expiry": approval.on_expiry,
            },
        )
    Approval.objects.bulk_create(asked)
    return log.events


def decide_approvals(run_pk: int, decisions: Sequence[Decision], *, by: User, via: str) -> tuple[Run, int]:
    """All of these decisions, or none. Returns the run and how many of its calls still wait."""
    with writing():
        run = access.visible_runs(by).select_for_update(of=("self",)).filter(pk=run_pk).first()
        if run is None:
            raise Refused(404, "run_not_found", "There is no such run.", "run_id")
        now = timezone.now()
        asked = {approval.tool_call_id: approval for approval in run.approvals.all()}
        _check_decisions(run, asked, decisions, now)
        log = Log(run, now)
        for decision in decisions:
            approval = asked[decision.tool_call_id]
            settle_approval(
                log,
                approval,
                ApprovalStatus.APPROVED if decision.approve else ApprovalStatus.DENIED,
                by=by.get_username(),
                via=via,
                reason=decision.reason.replace("\0", "").strip(),
                edited_arguments=_edited(approval, decision),
            )
        store_log(run, log.events)
        return run, _go_on_if_decided(run)


def expire_approvals(after: int = 0) -> int | None:
    """What nobody decided on in time, of the next few runs; returns after which to go on, None after the last. Several
    workers may look at once: whoever has the lock of a run does it, and nobody waits for a run that is locked."""
    due = Approval.objects.filter(status=ApprovalStatus.PENDING, expires_at__lte=Now(), run_id__gt=after).order_by(
        "run_id"
    )
    runs = list(due.values_list("run_id", flat=True).distinct()[:EXPIRED_AT_ONCE])
    for run_pk in runs:
        with writing():
            _expire(run_pk, timezone.now())
    return runs[-1] if len(runs) == EXPIRED_AT_ONCE else None


def _expire(run_pk: int, now: datetime) -> None:
    locked = Run.objects.select_for_update(
        of=("self",), skip_locked=connection.features.has_select_for_update_skip_locked
    )
    run = locked.select_related("conversation").filter(pk=run_pk, status=Status.REQUIRES_APPROVAL).first()
    if run is None:
        return
    # By the database's clock: one worker whose own is ahead must not decide on everything that waits.
    due = list(run.approvals.filter(status=ApprovalStatus.PENDING, expires_at__lte=Now()).order_by("pk"))
    if not due:
        return
    log = Log(run, now)
    for approval in due:
        settle_approval(log, approval, ApprovalStatus.EXPIRED, via="expiry")
    store_log(run, log.events)
    if any(approval.on_expiry == OnExpiry.STOP for approval in due):
        run.stop_requested_at, run.stop_requested_via = now, "expiry"
        end_without_worker(run, Ending(Status.CANCELLED, StopReason.CANCELLED), now)
    else:
        _go_on_if_decided(run)


def _go_on_if_decided(run: Run) -> int:
    pending = run.approvals.filter(status=ApprovalStatus.PENDING).count()
    if not pending:
        change_status(run, Status.QUEUED)
        run.save(update_fields=["status"])
        dispatch(run.pk, run.last_worker)
    return pending


def _check_decisions(run: Run, asked: Mapping[str, Approval], decisions: Sequence[Decision], now: datetime) -> None:
    if not decisions:
        raise Refused(400, "invalid_field", "decisions must name at least one call.", "decisions")
    named = [asked[decision.tool_call_id] for decision in decisions if decision.tool_call_id in asked]
    if run.status != Status.REQUIRES_APPROVAL:
        if decided := [approval for approval in named if approval.status != ApprovalStatus.STOPPED]:
            raise refuse_second(decided[0])
        stopped = " It was stopped, and what waited was denied." if named else ""
        raise Refused(409, "not_awaiting_approval", f"The run waits for no approval.{stopped}")
    if decided := [approval for approval in named if approval.status != ApprovalStatus.PENDING]:
        raise refuse_second(decided[0])
    if late := [approval for approval in named if approval.expires_at is not None and approval.expires_at <= now]:
        words = f"{late[0].name} ({late[0].tool_call_id}) has expired."
        raise Refused(409, "already_decided", words, "decisions")
    seen: set[str] = set()
    for number, decision in enumerate(decisions):
        where = f"decisions.{number}.tool_call_id"
        if decision.tool_call_id not in asked:
            raise Refused(400, "invalid_field", f"{where}: no such call waits for approval in this run.", where)
        if decision.tool_call_id in seen:
            raise Refused(400, "invalid_field", f"{where}: the same call is decided twice.", where)
        seen.add(decision.tool_call_id)
        _check_arguments(asked[decision.tool_call_id], decision, f"decisions.{number}.arguments")


def _check_arguments(approval: Approval, decision: Decision, where: str) -> None:
    if decision.arguments is None:
        return
    if not decision.approve:
        raise Refused(400, "invalid_field", f"{where}: a call that is denied needs no arguments.", where)
    try:
        length = len(orjson.dumps(decision.arguments))
    except TypeError as error:
        raise Refused(400, "invalid_field", f"{where}: {error}.", where) from None
    if length > MAX_ARGUMENT_BYTES:
        raise Refused(400, "invalid_field", f"{where}: must be at most {MAX_ARGUMENT_BYTES} bytes.", where)
    if (misfit := toolbox.find_misfit(approval.schema, decision.arguments)) is not None:
        param = ".".join([where, *map(str, misfit.path)])
        raise Refused(400, "invalid_field", f"{where}: {misfit.text}", param)


def _edited(approval: Approval, decision: Decision) -> dict[str, Any] | None:
    """The arguments, where they are others than the model's."""
    if decision.arguments is None or digest_of(decision.arguments) == approval.arguments_digest:
        return None
    return decision.arguments
