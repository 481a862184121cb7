"""The log of a run: event names, how an event is written down, replay after n, and following live.

The channel layer is a doorbell that may lose a ring; the log never does. A follower joins the group first, then replays
from the log, then takes what is rung inline as long as it is the next in line. Anything else (a hole, an overflow, too
long a silence) is read from the log.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

import orjson
from channels.layers import get_channel_layer
from django.db.models.functions import Length

from runs import bell, metrics
from runs.database import Unavailable, in_reader
from runs.models import ACTIVE, Conversation, Event, Run

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

RUN_QUEUED = "run.queued"
RUN_EDITED = "run.edited"
RUN_STARTED = "run.started"
RUN_STOPPING = "run.stopping"
RUN_COMPLETED = "run.completed"
RUN_FAILED = "run.failed"
RUN_CANCELLED = "run.cancelled"
MESSAGE_DELTA = "message.delta"
MESSAGE_COMPLETED = "message.completed"
REASONING_DELTA = "reasoning.delta"
TOOL_STARTED = "tool.started"
TOOL_POSTPONED = "tool.postponed"
TOOL_PROGRESS = "tool.progress"
TOOL_COMPLETED = "tool.completed"
APPROVAL_REQUESTED = "approval.requested"
APPROVAL_DECIDED = "approval.decided"
RETRY_SCHEDULED = "retry.scheduled"
MODEL_CHANGED = "model.changed"

TERMINAL_TYPES = frozenset({RUN_COMPLETED, RUN_FAILED, RUN_CANCELLED})
APPROVAL_TYPES = frozenset({APPROVAL_REQUESTED, APPROVAL_DECIDED})
# Those that change what a list of conversations or runs shows.
OVERVIEW_TYPES = TERMINAL_TYPES | APPROVAL_TYPES | {RUN_QUEUED, RUN_EDITED, RUN_STARTED, RUN_STOPPING}
STAFF_OVERVIEW = "overview.staff"

# A page ends after so many events, or with the event that makes it so long: every watcher holds one.
PAGE = 500
PAGE_CHARACTERS = 256 * 1024
SILENCE_SECONDS = 5.0
AWAY_SECONDS = 1.0
# After this a place in a group is taken for sure, and what was rung for before that may have been missed.
JOIN_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Line:
    """One event as it is sent."""

    seq: int
    type: str
    text: str

    @property
    def is_terminal(self) -> bool:
        return self.type in TERMINAL_TYPES


def write_event(run: Run, seq: int, type: str, at: datetime, payload: dict[str, Any]) -> Event:
    """The row, not yet stored, of one event."""
    line = orjson.dumps(
        {"run_id": run.public_id, "seq": seq, "type": type, "at": at.isoformat(), **payload}, default=str
    )
    return Event(run=run, seq=seq, type=type, at=at, line=line.decode())


def payload_of(line: str) -> dict[str, Any]:
    payload: dict[str, Any] = orjson.loads(line)
    return payload


def group_of(conversation_id: str) -> str:
    """One group a conversation: its runs follow one another, so that a run's watcher loses nothing by it."""
    return f"conversation.{conversation_id}"


def overview_of(user_pk: int) -> str:
    """One group a person, for lists that show what is going on."""
    return f"overview.{user_pk}"


def as_message(run: Run, events: Iterable[Event]) -> dict[str, Any]:
    return {"type": "events", "run": run.public_id, "events": [(event.seq, event.type, event.line) for event in events]}


def read_log(run_pk: int, after: int, limit: int = PAGE) -> list[Line]:
    log = Event.objects.filter(run_id=run_pk, seq__gt=after).order_by("seq")
    last, length = after, 0
    for seq, more in log.values_list("seq", Length("line"))[:limit]:
        last, length = seq, length + more
        if length >= PAGE_CHARACTERS:
            break
    return [Line(*row) for row in log.filter(seq__lte=last).values_list("seq", "type", "line")]


def is_full(page: Sequence[Line]) -> bool:
    """Whether there may be more behind it."""
    return len(page) >= PAGE or sum(len(line.text) for line in page) >= PAGE_CHARACTERS


async def read_patiently(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """In the database, waiting for one that is away: whoever follows a run need not begin again for that. It may be
    called twice, where the connection broke after it was done."""
    while True:
        try:
            return await in_reader(function, *args, **kwargs)
        except Unavailable as error:
            logger.info("Somebody waits for the database (%s).", error)
            await asyncio.sleep(AWAY_SECONDS)


class Subscription:
    """A place in groups, for as long as the block lasts."""

    def __init__(self, *groups: str) -> None:
        layer = get_channel_layer()
        assert layer is not None
        self.layer = layer
        self.groups = groups
        self.channel = ""
        self.has_missed = False
        """Whether a ring may have been lost before the last `next_ring` returned."""
        self._has_joined: bool = layer.joins_at_once

    async def __aenter__(self) -> "Subscription":
        self.channel = await self.layer.new_channel()
        try:
            await self._join()
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(self._leave()))
            raise
        metrics.WATCHERS.inc()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        metrics.WATCHERS.dec()
        await asyncio.shield(asyncio.ensure_future(self._leave()))

    async def _join(self) -> None:
        for group in self.groups:
            await self.layer.group_add(group, self.channel)

    async def _leave(self) -> None:
        for group in self.groups:
            await self.layer.group_discard(group, self.channel)

    async def next_ring(self) -> dict[str, Any] | None:
        """The next message of the groups; None when it is time to look for oneself: after a silence, a short one where
        nobody can ring, or when rings were missed."""
        is_sure = self._has_joined and not self.layer.is_away
        silence = SILENCE_SECONDS if self._has_joined else JOIN_SECONDS
        seconds = AWAY_SECONDS if self.layer.is_away else silence
        self._has_joined = True
        try:
            async with asyncio.timeout(seconds):
                message: dict[str, Any] = await self.layer.receive(self.channel)
        except TimeoutError:
            self.has_missed = not is_sure
            # A layer forgets members: after a day, or when one has not taken a message for a minute.
            await self._join()
            return None
        self.has_missed = message["type"] == "missed"
        return None if self.has_missed else message


async def follow_run(run: Run, after: int = 0) -> AsyncGenerator[list[Line], None]:
    """Batches of events after `after`, each event once and in order, until the terminal one; an empty batch now and
    then while nothing happens, so that a caller can show that the connection is alive."""
    async with Subscription(group_of(run.conversation.public_id)) as subscription:
        last = after
        while True:
            page = await read_patiently(read_log, run.pk, last)
            if page:
                last = page[-1].seq
                yield page
                if page[-1].is_terminal:
                    return
                if is_full(page):
                    continue
            elif await read_patiently(_ended_before, run.pk, last):
                return  # the client has seen the end already
            else:
                yield []
            # The log is read to its end; now what is rung, as long as it is the next in line.
            async for batch in _rung(subscription, run.public_id, last):
                last = batch[-1].seq
                yield batch
                if batch[-1].is_terminal:
                    return


def _ended_before(run_pk: int, after: int) -> bool:
    return Event.objects.filter(run_id=run_pk, seq__lte=after, type__in=TERMINAL_TYPES).exists()


async def _rung(subscription: Subscription, run_id: str, last: int) -> AsyncIterator[list[Line]]:
    """Batches that continue after `last`, taken from the doorbell; ends when the log must be read. Other runs of the
    conversation ring here, too: they do not end the silence of this one."""
    clock = asyncio.get_running_loop().time
    silent_until = clock() + SILENCE_SECONDS
    while clock() < silent_until:
        message = await subscription.next_ring()
        if message is None:
            return
        if message["run"] != run_id:
            continue
        batch = [Line(*event) for event in message["events"] if event[0] > last]
        if not batch:
            continue
        if batch[0].seq != last + 1:
            return
        last = batch[-1].seq
        yield batch
        silent_until = clock() + SILENCE_SECONDS


async def follow_conversation(conversation: Conversation, after: Mapping[str, int]) -> AsyncGenerator[list[Line], None]:
    """The events of all runs of a conversation that are active, newer than the newest one named in `after`, or named
    there (then after the number given), each once and in the order of its run. Never ends by itself."""
    async with Subscription(group_of(conversation.public_id)) as subscription:
        follower = _ConversationFollower(conversation, after)
        while True:
            async for page in follower.read_logs():
                yield page
            yield []
            while (message := await subscription.next_ring()) is not None:
                batch = follower.take(message["run"], [Line(*event) for event in message["events"]])
                if batch is None:
                    break
                if batch:
                    yield batch


class _ConversationFollower:
    """What a conversation's watcher has been sent: the last number for each run that has not ended."""

    def __init__(self, conversation: Conversation, after: Mapping[str, int]) -> None:
        self.conversation = conversation
        self.last = dict(after)
        self.open: dict[str, int] = {}
        self.ended: set[str] = set()
        self.newest: int | None = None

    def _discover(self) -> None:
        runs = Run.objects.filter(conversation=self.conversation).order_by("pk")
        if self.newest is None:
            named = dict(runs.filter(public_id__in=self.last).values_list("public_id", "pk"))
            active = dict(runs.filter(status__in=ACTIVE).values_list("public_id", "pk"))
            self.open = dict(sorted({**named, **active}.items(), key=lambda item: item[1]))
            known = named.values() if named else runs.values_list("pk", flat=True)
            self.newest = max(known, default=0)
        for public_id, pk in runs.filter(pk__gt=self.newest).values_list("public_id", "pk"):
            self.open[public_id] = pk
            self.newest = pk

    async def read_logs(self) -> AsyncIterator[list[Line]]:
        await read_patiently(self._discover)
        for public_id, pk in list(self.open.items()):
            while page := await read_patiently(read_log, pk, self.last.get(public_id, 0)):
                self._sent(public_id, page)
                yield page
                if not is_full(page):
                    break
            if public_id in self.open and await read_patiently(_ended_before, pk, self.last.get(public_id, 0)):
                self._close(public_id)

    def take(self, public_id: str, lines: list[Line]) -> list[Line] | None:
        """What of a ring is new and next in line; None where the log must be read."""
        if public_id in self.ended:
            return []
        last = self.last.get(public_id, 0)
        batch = [line for line in lines if line.seq > last]
        if not batch:
            return []
        if public_id not in self.open or batch[0].seq != last + 1:
            return None
        self._sent(public_id, batch)
        return batch

    def _sent(self, public_id: str, batch: list[Line]) -> None:
        self.last[public_id] = batch[-1].seq
        if batch[-1].is_terminal:
            self._close(public_id)

    def _close(self, public_id: str) -> None:
        self.open.pop(public_id, None)
        self.ended.add(public_id)


def rings_for(run: Run, written: Sequence[Event]) -> list[tuple[str, dict[str, Any]]]:
    """Who has to be told of what was written, and what: the conversation's watchers everything, and its owner's
    overview that there is something to look at."""
    rings = [(group_of(run.conversation.public_id), as_message(run, written))]
    types = {event.type for event in written}
    changed = {"type": "overview", "conversation": run.conversation.public_id}
    if types & OVERVIEW_TYPES:
        rings.append((overview_of(run.owner_id), changed))
    if types & APPROVAL_TYPES:
        rings.append((STAFF_OVERVIEW, changed))  # who may decide as well
    return rings


def publish_conversation(conversation: Conversation) -> None:
    """Ring for a conversation that was renamed, deleted or restored: no run's log says so."""
    changed = {"type": "overview", "conversation": conversation.public_id}
    bell.ring(overview_of(conversation.owner_id), changed)


def publish(run: Run, written: Sequence[Event]) -> None:
    """Ring for what has been committed. From any thread."""
    for group, message in rings_for(run, written):
        bell.ring(group, message)
