"""The one end of a run, and what is kept of it: by its worker, or without one."""

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils import timezone

from runs import events
from runs.actions.placing import go_on_after, last_positions
from runs.actions.refusals import Refused
from runs.actions.stored import calls_of_last_step, last_seq, started_calls, unfinished_text
from runs.models import TRANSITIONS, Conversation, Event, Message, Run, Status, StopReason

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
    """How a run ends, with what it used. `messages` are the last ones to be kept."""

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
    Conversation.objects.filter(pk=run.conversation_id).update(last_stop_reason=ending.stop_reason, updated_at=now)
    go_on_after(run)
    payload: dict[str, Any] = {"stop_reason": ending.stop_reason, "output": ending.output, "usage": usage_of(run)}
    if ending.error is not None:
        # The detail of an unexpected error is a traceback, for staff, on the run; watchers of the log get the rest.
        payload["error"] = {key: value for key, value in ending.error.items() if key != "detail"}
    if ending.receipt is not None:
        payload["receipt"] = ending.receipt
    types = {
        Status.COMPLETED: events.RUN_COMPLETED,
        Status.FAILED: events.RUN_FAILED,
        Status.CANCELLED: events.RUN_CANCELLED,
    }
    return events.write_event(run, seq, types[ending.status], now, payload)


def end_without_worker(run: Run, ending: Ending, now: datetime) -> None:
    """End a run that nobody works on: what it left open is closed from what is stored. The caller holds its lock."""
    closing = _Closing(run, now)
    closing.answer_open_calls()
    kept = closing.keep_unfinished_text()
    receipt = None
    if ending.status == Status.CANCELLED:
        assert run.stop_requested_at is not None
        receipt = make_receipt(
            run,
            ended_ms=round((timezone.now() - run.stop_requested_at).total_seconds() * 1000, 1),
            kept_characters=len(kept),
            kept_words=len(kept.split()),
            **{f"tools_{state}": names for state, names in closing.calls.items()},
        )
    ending = replace(ending, output=kept, receipt=receipt)
    closing.events.append(end_run(run, ending, usage_so_far(run), closing.next_seq, now))
    Event.objects.bulk_create(closing.events)
    transaction.on_commit(lambda: events.publish(run, closing.events))


class _Closing:
    """What is missing for a well-formed conversation, and the events that report it."""

    def __init__(self, run: Run, now: datetime) -> None:
        self.run = run
        self.now = now
        self.first_seq = last_seq(run) + 1
        self.events: list[Event] = []
        self.calls: dict[str, list[str]] = {state: [] for state in CALL_STATES}

    @property
    def next_seq(self) -> int:
        return self.first_seq + len(self.events)

    def answer_open_calls(self) -> None:
        made = calls_of_last_step(self.run)
        answered = Message.objects.filter(run=self.run, role="tool").values_list("tool_call_id", flat=True)
        started = started_calls(self.run)
        for position, call in made:
            name = call["function"]["name"]
            if call["id"] in answered:
                self.calls["finished"].append(name)
                continue
            state = "interrupted" if call["id"] in started else "not_started"
            self.calls[state].append(name)
            text = OUTCOME_UNKNOWN if state == "interrupted" else NEVER_EXECUTED
            self._add_message(position, role="tool", content=text, tool_call_id=call["id"], name=name)
            payload = {"tool_call_id": call["id"], "name": name, "result": text, "is_error": True, "state": state}
            self._tell(events.TOOL_COMPLETED, {**payload, "seconds": None})

    def keep_unfinished_text(self) -> str:
        text = unfinished_text(self.run)
        if text:
            position = last_positions([self.run.conversation_id]).get(self.run.conversation_id, 0) + 1
            message = self._add_message(position, role="assistant", content=text, is_partial=True)
            payload = {"message_id": message.public_id, "position": position, "text": text, "partial": True}
            self._tell(events.MESSAGE_COMPLETED, payload)
        return text

    def _add_message(self, position: int, **fields: Any) -> Message:
        return Message.objects.create(
            conversation_id=self.run.conversation_id, run=self.run, position=position, **fields
        )

    def _tell(self, type: str, payload: dict[str, Any]) -> None:
        self.events.append(events.write_event(self.run, self.next_seq, type, self.now, payload))


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


def usage_of(run: Run) -> dict[str, Any]:
    """A run's usage as programs see it."""
    return {
        "prompt_tokens": run.prompt_tokens,
        "completion_tokens": run.completion_tokens,
        "total_tokens": run.prompt_tokens + run.completion_tokens,
        "cost": str(run.cost) if run.cost is not None else None,
        "estimated": run.is_usage_estimated,
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
