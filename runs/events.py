"""The log of a run: event names, how an event is written down, replay after n, and following live.

The channel layer is a doorbell that may lose a ring; the log never does. A follower joins the group first, then replays
from the log, then takes what is rung inline as long as it is the next in line. Anything else (a hole, an overflow, too
long a silence) is read from the log.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from channels.layers import get_channel_layer
from django.db.models.functions import Length

from runs import bell
from runs.database import in_reader
from runs.models import ACTIVE, Conversation, Event, Run

RUN_QUEUED = "run.queued"
RUN_STARTED = "run.started"
RUN_STOPPING = "run.stopping"
RUN_COMPLETED = "run.completed"
RUN_FAILED = "run.failed"
RUN_CANCELLED = "run.cancelled"
MESSAGE_DELTA = "message.delta"
MESSAGE_COMPLETED = "message.completed"
REASONING_DELTA = "reasoning.delta"
TOOL_STARTED = "tool.started"
TOOL_PROGRESS = "tool.progress"
TOOL_COMPLETED = "tool.completed"
RETRY_SCHEDULED = "retry.scheduled"

TERMINAL_TYPES = frozenset({RUN_COMPLETED, RUN_FAILED, RUN_CANCELLED})

# A page ends after so many events, or with the event that makes it so long: every watcher holds one.
PAGE = 500
PAGE_CHARACTERS = 256 * 1024
SILENCE_SECONDS = 5.0


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


class Subscription:
    """A place in a conversation's group, for as long as the block lasts."""

    def __init__(self, conversation_id: str) -> None:
        layer = get_channel_layer()
        assert layer is not None
        self.layer = layer
        self.group = group_of(conversation_id)
        self.channel = ""

    async def __aenter__(self) -> "Subscription":
        self.channel = await self.layer.new_channel()
        await self.layer.group_add(self.group, self.channel)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.shield(asyncio.ensure_future(self.layer.group_discard(self.group, self.channel)))

    async def next_ring(self, seconds: float) -> dict[str, Any] | None:
        """The next message of the group, or None after a silence."""
        try:
            async with asyncio.timeout(seconds):
                message: dict[str, Any] = await self.layer.receive(self.channel)
                return message
        except TimeoutError:
            # A layer forgets members: after a day, or when one has not taken a message for a minute.
            await self.layer.group_add(self.group, self.channel)
            return None


async def follow_run(run: Run, after: int = 0) -> AsyncGenerator[list[Line], None]:
    """Batches of events after `after`, each event once and in order, until the terminal one; an empty batch now and
    then while nothing happens, so that a caller can show that the connection is alive."""
    async with Subscription(run.conversation.public_id) as subscription:
        last = after
        while True:
            page = await in_reader(read_log, run.pk, last)
            if page:
                last = page[-1].seq
                yield page
                if page[-1].is_terminal:
                    return
                if is_full(page):
                    continue
            elif await in_reader(_ended_before, run.pk, last):
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
    """Batches that continue after `last`, taken from the doorbell; ends when the log must be read."""
    while True:
        message = await subscription.next_ring(SILENCE_SECONDS)
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


async def follow_conversation(conversation: Conversation, after: Mapping[str, int]) -> AsyncGenerator[list[Line], None]:
    """The events of all runs of a conversation that are active, newer than the newest one named in `after`, or named
    there (then after the number given), each once and in the order of its run. Never ends by itself."""
    async with Subscription(conversation.public_id) as subscription:
        follower = _ConversationFollower(conversation, after)
        while True:
            async for page in follower.read_logs():
                yield page
            yield []
            while (message := await subscription.next_ring(SILENCE_SECONDS)) is not None:
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
        await in_reader(self._discover)
        for public_id, pk in list(self.open.items()):
            while page := await in_reader(read_log, pk, self.last.get(public_id, 0)):
                self._sent(public_id, page)
                yield page
                if not is_full(page):
                    break
            if public_id in self.open and await in_reader(_ended_before, pk, self.last.get(public_id, 0)):
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


def publish(run: Run, events: Iterable[Event]) -> None:
    """Ring for what has been committed. From any thread."""
    bell.ring(group_of(run.conversation.public_id), as_message(run, events))
