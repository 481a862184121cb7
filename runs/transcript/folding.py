"""Events, folded into what the reader sees: the one place that knows what an event means.

A page folds a run's log up to a number and renders all of it; an open page goes on folding from that number and gets
what has changed. Both come to the same, because a fold depends on the events alone. Events that a later one repeats
may be left out (`log` does): the pieces of a message that is complete, the progress of a tool that is done.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from runs import events
from runs.models import Status, StopReason
from runs.transcript.items import Approval, Item, Note, Question, Said, Thought, ToolUse, read_arguments

# A later event repeats these, and a page that is loaded may not have read them.
PASSING = (events.MESSAGE_DELTA, events.TOOL_PROGRESS)
ENDS = {
    events.RUN_COMPLETED: Status.COMPLETED,
    events.RUN_FAILED: Status.FAILED,
    events.RUN_CANCELLED: Status.CANCELLED,
}


@dataclass
class Span:
    """A stretch of the run's time: one answer of the model, or one tool."""

    kind: str
    name: str
    begun_at: datetime
    seconds: float | None = None
    state: str = "running"
    call_id: str = ""


@dataclass
class End:
    status: Status
    stop_reason: StopReason
    at: datetime
    output: str
    error: dict[str, str] | None = None
    receipt: dict[str, Any] | None = None
    is_withdrawn: bool = False


@dataclass
class Fold:
    """A run as far as it has been read: after event `seq`."""

    run_id: str
    seq: int = 0
    items: list[Item] = field(default_factory=list)
    end: End | None = None
    status: Status = Status.QUEUED
    has_begun: bool = False
    is_stopping: bool = False
    model: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    input: str | None = None
    """Where it was changed while the run waited."""
    spans: list[Span] = field(default_factory=list)
    steps: int = 0
    worked_seconds: float = 0
    """Of its time, as its limit counts it: without the waits, up to `working_since`."""
    working_since: datetime | None = None
    changed: dict[str, Item] = field(default_factory=dict)
    """Items that are not as they were when somebody last looked, by key and in order."""
    _messages: int = 0
    _uses: dict[str, ToolUse] = field(default_factory=dict)
    _question: Question | None = None
    _said: Said | None = None
    _thought: Thought | None = None
    _model_span: Span | None = None
    _told_at: datetime | None = None

    def take(self, lines: Iterable[dict[str, Any]]) -> None:
        for event in lines:
            self.seq = event["seq"]
            handle = HANDLERS.get(event["type"])
            at = datetime.fromisoformat(event["at"])
            if handle is not None:
                handle(self, event, at)
            if event["type"] not in PASSING:
                self._told_at = at

    @property
    def now(self) -> str:
        """What the reader waits for where nothing on the page shows it: queued, thinking, stopping, or nothing."""
        if self.end is not None:
            return ""
        if self.is_stopping:
            return "stopping"
        if self.status == Status.QUEUED:
            return "resuming" if self.has_begun else "queued"
        is_growing = self._said is not None or (self._thought is not None and self._thought.is_open)
        return "thinking" if self.is_asking and not is_growing else ""

    @property
    def is_asking(self) -> bool:
        """Whether the model is at work."""
        return self._model_span is not None

    @property
    def pending(self) -> list[ToolUse]:
        return [use for use in self._uses.values() if use.is_pending]

    # -- the run

    def _on_started(self, event: dict[str, Any], at: datetime) -> None:
        self.has_begun = True
        self.status = Status.RUNNING
        self.model = event.get("model", "")
        # Where its worker was lost, nobody knows more than what was told until then.
        self._rest(self._told_at or at)
        self.working_since = at
        self._ask_model(at)

    def _rest(self, at: datetime) -> None:
        if self.working_since is not None:
            self.worked_seconds += max((at - self.working_since).total_seconds(), 0)
            self.working_since = None

    def _on_edited(self, event: dict[str, Any], at: datetime) -> None:
        self.input = event["input"]

    def _on_stopping(self, event: dict[str, Any], at: datetime) -> None:
        self.is_stopping = True

    def _on_end(self, event: dict[str, Any], at: datetime) -> None:
        self._rest(at)
        self._close_thought(at)
        if self._said is not None:
            self._said.close()
            self._mark(self._said)
            self._said = None
        self._close_model_span(at, "stopped" if event["type"] == events.RUN_CANCELLED else "finished")
        self.status = ENDS[event["type"]]
        self.usage = event.get("usage", self.usage)
        self.is_stopping = False
        self.end = End(
            self.status,
            StopReason(event["stop_reason"]),
            at,
            event.get("output", ""),
            event.get("error"),
            event.get("receipt"),
            event.get("withdrawn", False),
        )
        self._keep_unstreamed(at)

    def _keep_unstreamed(self, at: datetime) -> None:
        """A run that streams whole messages only keeps what its cut-off step had said, but tells it with its end."""
        assert self.end is not None
        texts = [item.text for item in self.items if isinstance(item, Said)]
        if self.end.output and self.end.output not in texts:
            said = Said(self._messages, at, is_partial=self.end.stop_reason != StopReason.END_TURN)
            said.close(self.end.output)
            self._place(said)

    # -- the model

    def _on_text(self, event: dict[str, Any], at: datetime) -> None:
        self._close_thought(at)
        if self._said is None:
            self._said = Said(self._messages, at)
            self._place(self._said)
        self._said.add(event["text"])
        self._mark(self._said)

    def _on_reasoning(self, event: dict[str, Any], at: datetime) -> None:
        if self._thought is None:
            self._thought = Thought(self._messages, at)
            self._place(self._thought)
        self._thought.add(event["text"])
        self._mark(self._thought)

    def _on_message(self, event: dict[str, Any], at: datetime) -> None:
        self._close_thought(at)
        self.usage = event.get("usage", self.usage)
        said = self._said or Said(self._messages, at)
        said.is_partial = event.get("partial", False)
        said.close(event["text"])
        if self._said is not None:
            self._mark(said)
        elif said.text:
            self._place(said)
        self._said = self._thought = None
        if not said.is_partial:
            self.steps += 1
            self._close_model_span(at, "finished")
        for index, call in enumerate(event.get("tool_calls") or ()):
            function = call["function"]
            use = ToolUse(self._messages, index, call["id"], function["name"], read_arguments(function["arguments"]))
            self._uses[call["id"]] = use
            self._place(use)
        self._messages += 1
        self._question = None

    def _close_thought(self, at: datetime) -> None:
        """A model may go on thinking after it has said something: then the thought is open again."""
        if self._thought is not None and self._thought.is_open:
            self._thought.seconds = (at - self._thought.at).total_seconds()
            self._thought.close()
            self._mark(self._thought)

    def _ask_model(self, at: datetime) -> None:
        if self._model_span is None:
            self._model_span = Span("model", self.model, at)
            self.spans.append(self._model_span)

    def _close_model_span(self, at: datetime, state: str) -> None:
        if self._model_span is not None:
            self._model_span.seconds = (at - self._model_span.begun_at).total_seconds()
            self._model_span.state = state
            self._model_span = None

    # -- tools

    def _on_tool_started(self, event: dict[str, Any], at: datetime) -> None:
        use = self._find_use(event)
        use.state, use.started_at = "running", at
        if self._model_span is not None:
            # A run that was taken up again goes on with its tools: the model was not asked.
            self.spans.remove(self._model_span)
            self._model_span = None
        self.spans.append(Span("tool", use.name, at, call_id=use.call_id))
        self._mark(use)

    def _on_tool_postponed(self, event: dict[str, Any], at: datetime) -> None:
        """Its worker left before it began."""
        use = self._find_use(event)
        use.state, use.started_at = "waiting", None
        if (span := self._span_of(use)) is not None:
            self.spans.remove(span)
        self._mark(use)

    def _on_tool_progress(self, event: dict[str, Any], at: datetime) -> None:
        use = self._find_use(event)
        use.progress, use.fraction = event.get("text", ""), event.get("fraction")
        self._mark(use)

    def _on_tool_completed(self, event: dict[str, Any], at: datetime) -> None:
        use = self._find_use(event)
        use.result, use.seconds = event.get("result", ""), event.get("seconds")
        use.progress, use.fraction = "", None
        use.state = event.get("state", "finished")
        if use.approval is not None and not use.approval.is_pending and not use.approval.is_approved:
            use.state = "denied"
        elif use.state == "finished" and event.get("is_error"):
            use.state = "failed"
        if (span := self._span_of(use)) is not None:
            # As the tool's card tells it: between its events lies also what it took to store them.
            span.seconds = (at - span.begun_at).total_seconds() if use.seconds is None else use.seconds
            span.state = use.state
        self._mark(use)
        goes_on = self.status == Status.RUNNING and not self.is_stopping
        if goes_on and all(other.is_over for other in self._uses.values()):
            self._ask_model(at)

    def _span_of(self, use: ToolUse) -> Span | None:
        running = (span for span in reversed(self.spans) if span.state == "running")
        return next((span for span in running if span.call_id == use.call_id), None)

    def _find_use(self, event: dict[str, Any]) -> ToolUse:
        use = self._uses.get(event["tool_call_id"])
        if use is None:
            # A log that begins in the middle of a step: better a card too many than an event that nobody sees.
            use = ToolUse(self._messages, len(self._uses), event["tool_call_id"], event["name"], {})
            self._uses[use.call_id] = use
            self._place(use)
        return use

    # -- approvals

    def _on_approval_requested(self, event: dict[str, Any], at: datetime) -> None:
        use = self._find_use(event)
        use.arguments = event["arguments"]
        expires_at = event.get("expires_at")
        use.approval = Approval(
            event.get("schema") or {},
            event.get("description", ""),
            datetime.fromisoformat(expires_at) if expires_at else None,
            event.get("on_expiry", "deny"),
        )
        if self._question is None:
            said = [item.text for item in self.items if isinstance(item, Said) and item.number == use.number]
            self._question = Question(use.number, said[-1] if said else "")
            self._place(self._question)
        self._question.uses.append(use)
        self.status = Status.REQUIRES_APPROVAL
        self._rest(at)
        self._mark(use)
        self._mark(self._question)

    def _on_approval_decided(self, event: dict[str, Any], at: datetime) -> None:
        use = self._find_use(event)
        if use.approval is None:
            return
        decision = use.approval
        decision.is_pending = False
        decision.is_approved = event["decision"] == "approved"
        decision.is_edited = event.get("edited", False)
        decision.decided_by = event.get("decided_by", "")
        decision.decided_via = event.get("decided_via", "")
        decision.decided_at = datetime.fromisoformat(event["decided_at"]) if event.get("decided_at") else at
        decision.reason = event.get("reason", "")
        if event.get("arguments") is not None:
            use.arguments = event["arguments"]
        self._mark(use)
        for item in self.items:
            if isinstance(item, Question) and use in item.uses:
                self._mark(item)
        if self.status == Status.REQUIRES_APPROVAL and not self.pending:
            self.status = Status.QUEUED

    # -- the rest

    def _on_model_changed(self, event: dict[str, Any], at: datetime) -> None:
        self.model = event["to"]
        self._on_note(event, at)

    def _on_note(self, event: dict[str, Any], at: datetime) -> None:
        self._place(Note(event["seq"], event["type"], at, event))

    def _place(self, item: Item) -> None:
        self.items.append(item)
        self._mark(item)

    def _mark(self, item: Item) -> None:
        self.changed[item.key] = item


HANDLERS: dict[str, Callable[[Fold, dict[str, Any], datetime], None]] = {
    events.RUN_STARTED: Fold._on_started,
    events.RUN_EDITED: Fold._on_edited,
    events.RUN_STOPPING: Fold._on_stopping,
    events.RUN_COMPLETED: Fold._on_end,
    events.RUN_FAILED: Fold._on_end,
    events.RUN_CANCELLED: Fold._on_end,
    events.MESSAGE_DELTA: Fold._on_text,
    events.REASONING_DELTA: Fold._on_reasoning,
    events.MESSAGE_COMPLETED: Fold._on_message,
    events.TOOL_STARTED: Fold._on_tool_started,
    events.TOOL_POSTPONED: Fold._on_tool_postponed,
    events.TOOL_PROGRESS: Fold._on_tool_progress,
    events.TOOL_COMPLETED: Fold._on_tool_completed,
    events.APPROVAL_REQUESTED: Fold._on_approval_requested,
    events.APPROVAL_DECIDED: Fold._on_approval_decided,
    events.RETRY_SCHEDULED: Fold._on_note,
    events.MODEL_CHANGED: Fold._on_model_changed,
}
