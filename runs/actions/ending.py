"""The one end of a run, and what is kept of it: by its worker, or without one."""

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils import timezone

from runs import events, metrics
from runs.actions.deciding import answer_call, settle_approval
from runs.actions.log import Log, store_log
from runs.actions.placing import go_on_after, last_positions
from runs.actions.refusals import Refused
from runs.actions.stored import (
    calls_of_last_step,
    completed_calls,
    first_own_position,
    last_seq,
    started_calls,
    unfinished_text,
)
from runs.models import TRANSITIONS, ApprovalStatus, Conversation, Event, Message, Run, Status, StopReason

USAGE_FIELDS = (
    "steps",
    "prompt_tokens",
    "completion_tokens",
    "cost",
    "is_usage_estimated",
    "active_seconds",
    "first_token_at",
)
LEASE_FIELDS = ("status", "worker", "lease_expires_at")
STOP_FIELDS = ("stop_requested_at", "stop_requested_by", "stop_requested_via")
ENDING_FIELDS = (
    *LEASE_FIELDS,
    *USAGE_FIELDS,
    *STOP_FIELDS,
    "stop_reason",
    "output",
    "error",
    "receipt",
    "ended_at",
    "losses",
)
CALL_STATES = ("finished", "interrupted", "not_started")
NEVER_EXECUTED = "Not executed: the run ended before this call started."
OUTCOME_UNKNOWN = "Interrupted, outcome unknown: the process that executed this call ended before it had a result."


@dataclass(frozen=True)
class Ending:
    """How a run ends, and what it leaves for whoever looks at it."""

    status: Status
    stop_reason: StopReason
    output: str = ""
    error: dict[str, str] | None = None
    receipt: dict[str, Any] | None = None


@dataclass(frozen=True)
class Usage:
    steps: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: Decimal | None = None
    is_estimated: bool = False
    active_seconds: float = 0
    first_token_at: datetime | None = None


def end_run(run: Run, ending: Ending, usage: Usage, seq: int, now: datetime) -> Event:
    """The one end of a run: status, terminal event, the conversation's last stop reason and the usage, together. The
    caller holds the row's lock and has checked that the run is its own."""
    change_status(run, ending.status)
    run.stop_reason = ending.stop_reason
    run.output = ending.output
    run.error = ending.error
    run.receipt = ending.receipt
    run.ended_at = now
    run.worker = ""
    run.lease_expires_at = None
    record_usage(run, usage)
    run.save(update_fields=ENDING_FIELDS)
    transaction.on_commit(lambda: metrics.observe_end(run), robust=True)
    Conversation.objects.filter(pk=run.conversation_id).update(last_stop_reason=ending.stop_reason, updated_at=now)
    go_on_after(run)
    payload: dict[str, Any] = {"stop_reason": ending.stop_reason, "output": ending.output, "usage": show_usage(usage)}
    if ending.error is not None:
        # The detail of an unexpected error is a traceback, for staff, on the run; watchers of the log get the rest.
        payload["error"] = {key: value for key, value in ending.error.items() if key != "detail"}
    if ending.receipt is not None:
        payload["receipt"] = ending.receipt
    if run.is_withdrawn:
        payload["withdrawn"] = True
    types = {
        Status.COMPLETED: events.RUN_COMPLETED,
        Status.FAILED: events.RUN_FAILED,
        Status.CANCELLED: events.RUN_CANCELLED,
    }
    return events.write_event(run, seq, types[ending.status], now, payload)


def end_without_worker(run: Run, ending: Ending, now: datetime) -> None:
    """End a run that nobody works on. The caller holds its lock."""
    store_log(run, close_run(run, ending, now, last_seq(run) + 1))


def close_run(run: Run, ending: Ending, now: datetime, seq: int) -> list[Event]:
    """End a run of which everything is stored: what it left open is closed from that. The events are the caller's to
    store."""
    closing = _Closing(run, now, seq)
    closing.answer_open_calls()
    said = closing.keep_text()
    receipt = None
    if ending.status == Status.CANCELLED:
        assert run.stop_requested_at is not None
        kept = "\n".join(said)
        receipt = make_receipt(
            run,
            # Another machine's clock may have told when it was requested.
            ended_ms=round(max((timezone.now() - run.stop_requested_at).total_seconds(), 0) * 1000, 1),
            kept_characters=len(kept),
            kept_words=len(kept.split()),
            **{f"tools_{state}": names for state, names in closing.calls.items()},
        )
    ending = replace(ending, output=said[-1] if said else "", receipt=receipt)
    return [*closing.log.events, end_run(run, ending, usage_so_far(run), closing.log.next_seq, now)]


class _Closing:
    """What is missing for a well-formed conversation, and the events that report it."""

    def __init__(self, run: Run, now: datetime, seq: int) -> None:
        self.run = run
        self.log = Log(run, now, seq)
        self.calls: dict[str, list[str]] = {state: [] for state in CALL_STATES}

    def answer_open_calls(self) -> None:
        completed = completed_calls(self.run)
        for name, state in completed.values():
            self.calls[state].append(name)
        started = started_calls(self.run)
        approvals = {approval.tool_call_id: approval for approval in self.run.approvals.all()}
        for position, call in calls_of_last_step(self.run):
            if call["id"] in completed:
                continue
            name = call["function"]["name"]
            state = "interrupted" if call["id"] in started else "not_started"
            self.calls[state].append(name)
            approval = approvals.get(call["id"])
            if approval is not None and approval.status == ApprovalStatus.PENDING:
                by = self.run.stop_requested_by
                settle_approval(self.log, approval, ApprovalStatus.STOPPED, by=by, via="stop")
                continue
            text = OUTCOME_UNKNOWN if state == "interrupted" else NEVER_EXECUTED
            if state == "interrupted" and approval is not None and approval.note:
                text = f"{text}\n\n{approval.note}"
            answer_call(self.log, position, call["id"], name, text, state)

    def keep_text(self) -> list[str]:
        """All that was said, with what was shown and never became a message."""
        own = Message.objects.filter(run=self.run, role="assistant", position__gte=first_own_position(self.run))
        said = [text for text in own.order_by("position").values_list("content", flat=True) if text]
        text = unfinished_text(self.run)
        if text:
            position = last_positions([self.run.conversation_id]).get(self.run.conversation_id, 0) + 1
            message = Message.objects.create(
                conversation_id=self.run.conversation_id,
                run=self.run,
                position=position,
                role="assistant",
                content=text,
                is_partial=True,
            )
            payload = {"message_id": message.public_id, "position": position, "text": text, "partial": True}
            self.log.tell(events.MESSAGE_COMPLETED, payload)
            said.append(text)
        return said


def change_status(run: Run, status: Status) -> None:
    """The caller holds the row's lock: on PostgreSQL by `select_for_update`, on SQLite as the only writer."""
    if status not in TRANSITIONS[run.status]:
        raise Refused(409, "run_not_active", f"A run that is {run.status} cannot become {status}.")
    run.status = status


def record_usage(run: Run, usage: Usage) -> None:
    run.steps = usage.steps
    run.prompt_tokens = usage.prompt_tokens
    run.completion_tokens = usage.completion_tokens
    run.cost = usage.cost
    run.is_usage_estimated = usage.is_estimated
    run.active_seconds = usage.active_seconds
    run.first_token_at = run.first_token_at or usage.first_token_at


def let_go(run: Run, status: Status, usage: Usage) -> None:
    """A worker has no more to do with a run that goes on later. Part of the journal's transaction."""
    change_status(run, status)
    record_usage(run, usage)
    run.worker = ""
    run.lease_expires_at = None
    run.save(update_fields=[*LEASE_FIELDS, *USAGE_FIELDS])


def keep_usage(run: Run, usage: Usage) -> None:
    """While the run goes on. Part of the journal's transaction."""
    record_usage(run, usage)
    run.save(update_fields=USAGE_FIELDS)


def usage_so_far(run: Run) -> Usage:
    return Usage(
        run.steps,
        run.prompt_tokens,
        run.completion_tokens,
        run.cost,
        run.is_usage_estimated,
        run.active_seconds,
        run.first_token_at,
    )


def show_usage(usage: Usage) -> dict[str, Any]:
    """A run's usage as programs see it."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "cost": str(usage.cost) if usage.cost is not None else None,
        "estimated": usage.is_estimated,
    }


def make_receipt(run: Run, **details: Any) -> dict[str, Any]:
    """What a stop did, for the event, the run and the page."""
    assert run.stop_requested_at is not None
    receipt: dict[str, Any] = {
        "requested_by": run.stop_requested_by,
        "requested_via": run.stop_requested_via,
        "requested_at": run.stop_requested_at.isoformat(),
        "model_closed_ms": None,
        "ended_ms": None,
        "kept_characters": 0,
        "kept_words": 0,
        "tools_finished": [],
        "tools_interrupted": [],
        "tools_not_started": [],
        "tokens_after_request": 0,
    }
    return {**receipt, **details}
