"""Group commit of messages and events, then publish.

One flusher for the whole process. Whatever arrived while the last commit was under way goes into the next one: an idle
system has no added delay, a busy one has few transactions. Consecutive pieces of text of one run become one event, and
under load a short pause (`PAUSE` for each run, `LONGEST_PAUSE` at most) keeps the number of rows down; what somebody
waits for (a first word, a tool, an end) never waits for the pause.

Numbers are given at the flush, and the flush first makes sure that each run still belongs to this worker (`Fence`): a
worker that was frozen past its lease finds out here, and writes nothing.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import IntegrityError
from django.utils import timezone

from gateway.errors import ProviderError
from gateway.messages import Message as Said
from gateway.messages import ToolCall, ToolResult
from runs import bell, events, metrics
from runs.actions import STOP_FIELDS, Claim, Usage, keep_usage, show_usage
from runs.database import Unavailable, in_writer, writing
from runs.models import Event, Message, Run, Status
from runs.tracing import start_trace

logger = logging.getLogger(__name__)

PAUSE = 0.008
LONGEST_PAUSE = 0.040
LONGEST_RETRY_PAUSE = 1.0

# Decides, in the transaction and with the row locked, how a run leaves its worker; gets the next number, returns the
# events that report it, if any.
Leave = Callable[[Run, int, datetime], list[Event]]


class LeaseLost(Exception):
    """The run belongs to another worker, or to none."""


@dataclass
class _Entry:
    type: str
    at: datetime
    payload: dict[str, Any]
    texts: list[str] = field(default_factory=list)


@dataclass
class _Page:
    """What one run has to be written by the next commit."""

    journal: "RunJournal"
    entries: list[_Entry]
    messages: list[Message]
    leave: Leave | None
    waiters: list[asyncio.Future[None]]
    usage: Usage | None
    written: list[Event] = field(default_factory=list)
    error: BaseException | None = None


class RunJournal:
    """The record of one run in this worker's hands. Implements `gateway.journal.Journal`."""

    def __init__(
        self, journal: "Journal", claim: Claim, on_lost: Callable[[], None], measure: Callable[[], Usage]
    ) -> None:
        self.run = claim.run
        self.on_lost = on_lost
        self.measure = measure
        self.next_seq = claim.next_seq
        self.is_closed = False
        self.trace = start_trace(claim.run)
        self._journal = journal
        self._has_text = False
        self._reset()

    def _reset(self) -> None:
        self._entries: list[_Entry] = []
        self._messages: list[Message] = []
        self._leave: Leave | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def take_page(self) -> _Page:
        # With each message goes what the run has used until then: after a crash its limits count on from there. Who
        # leaves writes it anyway.
        usage = self.measure() if self._messages and self._leave is None else None
        page = _Page(self, self._entries, self._messages, self._leave, self._waiters, usage)
        self._reset()
        return page

    # -- what the loop reports -------------------------------------------------------------------------------------

    def model_called(self, model: str) -> None:
        if self.trace is not None:
            self.trace.model_called(model)

    def add_text(self, text: str) -> None:
        self._add_piece(events.MESSAGE_DELTA, text)

    def add_reasoning(self, text: str) -> None:
        self._add_piece(events.REASONING_DELTA, text)

    def add_message(self, position: int, message: Said, *, is_shown: bool = True) -> None:
        row = as_row(self.run, position, message)
        self._messages.append(row)
        if self.trace is not None and message.role == "assistant" and not message.partial:
            self.trace.message_completed(self.measure(), "tool_calls" if message.tool_calls else "stop")
        if is_shown:
            payload: dict[str, Any] = {"message_id": row.public_id, "position": position, "text": message.text}
            if message.tool_calls:
                payload["tool_calls"] = row.tool_calls
            if message.partial:
                payload["partial"] = True
            payload["usage"] = show_usage(self.measure())
            self.note(events.MESSAGE_COMPLETED, payload)
        self._has_text = False

    def tool_started(self, call: ToolCall) -> None:
        if self.trace is not None:
            self.trace.tool_started(call)
        self.note(events.TOOL_STARTED, {"tool_call_id": call.id, "name": call.name, "arguments": call.arguments})

    def tool_postponed(self, call: ToolCall) -> None:
        self.note(events.TOOL_POSTPONED, {"tool_call_id": call.id, "name": call.name})

    def tool_progressed(self, call: ToolCall, text: str, fraction: float | None) -> None:
        payload = {"tool_call_id": call.id, "name": call.name, "text": text, "fraction": fraction}
        self.note(events.TOOL_PROGRESS, payload)

    def tool_completed(self, call: ToolCall, result: ToolResult, *, state: str, seconds: float | None) -> None:
        payload = {
            "tool_call_id": call.id,
            "name": call.name,
            "result": result.content,
            "is_error": result.is_error,
            "state": state,
            "seconds": round(seconds, 3) if seconds is not None else None,
        }
        if self.trace is not None:
            self.trace.tool_completed(call, state, result.is_error)
        self.note(events.TOOL_COMPLETED, payload)

    def retry_scheduled(self, number: int, seconds: float, error: ProviderError) -> None:
        if self.trace is not None:
            self.trace.call_failed(error.error_type)
        payload = {
            "number": number,
            "seconds": round(seconds, 3),
            "error": {"error_type": error.error_type, "message": error.message},
        }
        self.note(events.RETRY_SCHEDULED, payload)

    def model_changed(self, first: str, second: str, error: ProviderError) -> None:
        if self.trace is not None:
            self.trace.model_changed(error.error_type)
        self.note(events.MODEL_CHANGED, {"from": first, "to": second, "reason": error.message})

    @property
    def rest_seconds(self) -> float:
        return self._journal.pause - PAUSE

    async def flush(self) -> None:
        self._refuse_when_closed()
        await self._wait()

    # -- what the worker reports -----------------------------------------------------------------------------------

    def note(self, type: str, payload: dict[str, Any], *, is_urgent: bool = True) -> None:
        if not self.is_closed:
            self._entries.append(_Entry(type, timezone.now(), payload))
            self._journal.mark(self, is_urgent=is_urgent)

    async def leave(self, leave: Leave) -> None:
        """The last write: everything that is queued, and the run's end or hand-over, in one transaction."""
        self._refuse_when_closed()
        self._leave = leave
        await self._wait()

    def _add_piece(self, type: str, text: str) -> None:
        if self.is_closed:
            return
        if self.trace is not None:
            self.trace.text_came()
        if self._entries and self._entries[-1].type == type:
            self._entries[-1].texts.append(text)
        else:
            self._entries.append(_Entry(type, timezone.now(), {}, [text]))
        self._journal.mark(self, is_urgent=not self._has_text)
        self._has_text = True

    def _refuse_when_closed(self) -> None:
        if self.is_closed:
            raise LeaseLost

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._journal.mark(self, is_urgent=True)
        await waiter


class Journal:
    """The flusher. `run` it as a task; `close` ends it when everything is written."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self._dirty: dict[RunJournal, None] = {}
        self._due = asyncio.Event()
        self._urgent = asyncio.Event()
        self._is_closing = False
        self._last_size = 0
        self._last_flush_at = 0.0

    def open(self, claim: Claim, on_lost: Callable[[], None], measure: Callable[[], Usage]) -> RunJournal:
        """The journal of one run. `measure` tells what the run has used so far."""
        return RunJournal(self, claim, on_lost, measure)

    def mark(self, journal: RunJournal, *, is_urgent: bool) -> None:
        self._dirty[journal] = None
        self._due.set()
        if is_urgent:
            self._urgent.set()

    async def run(self) -> None:
        while not self._is_closing or self._dirty:
            await self._due.wait()
            await self._pause()
            await self._flush()

    async def _flush(self) -> None:
        self._due.clear()
        self._urgent.clear()
        pages = [journal.take_page() for journal in self._dirty]
        self._dirty.clear()
        if pages:
            begun_at = time.perf_counter()
            await self._write(pages)
            metrics.COMMIT_SECONDS.observe(time.perf_counter() - begun_at)
            metrics.COMMIT_EVENTS.observe(sum(len(page.written) for page in pages))
            self._last_size = len(pages)
            self._last_flush_at = asyncio.get_running_loop().time()

    def close(self) -> None:
        self._is_closing = True
        self._due.set()
        self._urgent.set()

    @property
    def pause(self) -> float:
        """How long the next commit waits for more, by how many runs were in the last one."""
        return min(PAUSE * self._last_size, LONGEST_PAUSE)

    async def _pause(self) -> None:
        remaining = self._last_flush_at + self.pause - asyncio.get_running_loop().time()
        if remaining > 0 and not self._urgent.is_set():
            try:
                async with asyncio.timeout(remaining):
                    await self._urgent.wait()
            except TimeoutError:
                pass

    async def _write(self, pages: list[_Page]) -> None:
        try:
            await self._store(pages)
        except Exception:
            # Something one run wants to write cannot be written: the others must not suffer for it.
            for page in pages:
                try:
                    await self._store([page])
                except IntegrityError:
                    page.error = LeaseLost()
                except Exception as error:
                    logger.exception("What run %s wants to write cannot be written.", page.journal.run)
                    page.error = error
        for page in pages:
            await self._settle(page)

    async def _store(self, pages: list[_Page]) -> None:
        """Store, and wait for a database that is away for a while."""
        pause = 0.05
        while True:
            try:
                return await in_writer(store, self.worker, pages)
            except Unavailable as error:
                logger.warning("The database is not available (%s); trying again.", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_RETRY_PAUSE)

    async def _settle(self, page: _Page) -> None:
        """Show what is stored, and tell who waited."""
        journal = page.journal
        if page.error is not None:
            if isinstance(page.error, LeaseLost):
                journal.is_closed = True
                journal.on_lost()
        else:
            if page.written:
                journal.next_seq = page.written[-1].seq + 1
                run = journal.run
                for group, message in events.rings_for(run, page.written):
                    await bell.send(group, message)
            if page.leave is not None:
                journal.is_closed = True
        for waiter in page.waiters:
            if not waiter.done():
                if page.error is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(page.error)


def store(worker: str, pages: list[_Page]) -> None:
    """One transaction for all of them; what each got is noted on its page."""
    with writing():
        now = timezone.now()
        for page in pages:
            page.written, page.error = [], None
        owned = _lock_owned(worker, pages)
        messages: list[Message] = []
        written: list[Event] = []
        for page in pages:
            run = page.journal.run
            if run.pk not in owned:
                page.error = LeaseLost()
                continue
            messages += page.messages
            if page.usage is not None:
                keep_usage(copy(run), page.usage)
            seq = page.journal.next_seq
            for entry in page.entries:
                payload = {"text": "".join(entry.texts)} if entry.texts else entry.payload
                page.written.append(events.write_event(run, seq, entry.type, entry.at, payload))
                seq += 1
            written += page.written
        # Rows before ends: an end may place the inputs of runs that were waiting, after these messages.
        Message.objects.bulk_create(messages)
        for page in pages:
            if page.leave is not None and page.error is None:
                # A copy: should the commit fail, the run has not changed and all of this is tried again.
                last = page.leave(copy(page.journal.run), page.journal.next_seq + len(page.written), now)
                page.written += last
                written += last
        Event.objects.bulk_create(written)


def _lock_owned(worker: str, pages: list[_Page]) -> set[int]:
    """The runs that still belong to this worker: nobody can take them over, or stop them, before the commit. What may
    have been recorded of a stop meanwhile is noted on them."""
    runs = {page.journal.run.pk: page.journal.run for page in pages}
    rows = Run.objects.select_for_update().filter(pk__in=runs, worker=worker, status=Status.RUNNING).order_by("pk")
    owned = set()
    for pk, attempt, *stop in rows.values_list("pk", "attempt", *STOP_FIELDS):
        if attempt == runs[pk].attempt:
            owned.add(pk)
            for name, value in zip(STOP_FIELDS, stop, strict=True):
                setattr(runs[pk], name, value)
    return owned


def as_row(run: Run, position: int, message: Said) -> Message:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    return Message(
        conversation_id=run.conversation_id,
        run=run,
        position=position,
        role=message.role,
        content=message.content,
        tool_calls=calls or None,
        tool_call_id=message.tool_call_id or "",
        name=message.name or "",
        is_partial=message.partial,
    )


def as_said(row: Message) -> Said:
    calls = tuple(
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in row.tool_calls or ()
    )
    return Said(
        role=row.role,  # type: ignore[arg-type]
        content=row.content,
        tool_calls=calls,
        tool_call_id=row.tool_call_id or None,
        name=row.name or None,
        partial=row.is_partial,
    )
