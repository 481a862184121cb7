"""The console's websocket: what happens in a conversation, as changes of the page.

    /ws/console/<conversation_id>/?after=run_a:12,run_b:3

Each text frame is one JSON object: `run` and `seq` (the last event that it is about), `ops` (see `transcript.frames`)
and, where it changed, `state` (see `transcript.state`). The first frame after the connection opens has neither run nor
number: it brings what was still growing up to date. An empty frame every few seconds shows that the connection lives,
which a script could not find out otherwise. `{"reload": true}` says that too much has happened meanwhile and
that the page had better be loaded again.

Everything is rendered in a database thread and never on the loop, which has runs to stream and to stop. What comes in
while a frame is being made goes into the next one, and after each there is a short pause: a fast model does not make
more frames than somebody can see.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import orjson
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import translation

from runs import events
from runs.api.authentication import Caller
from runs.api.lookups import find_conversation
from runs.cancelling import end_tasks
from runs.database import in_reader
from runs.models import Conversation
from runs.shell import add_shell
from runs.sockets import Receive, Scope, Send, Texts, read_places, serve_socket
from runs.transcript.folding import Fold
from runs.transcript.frames import Op, WatchedRun
from runs.transcript.log import fold_run
from runs.transcript.page import runs_of
from runs.transcript.state import state_of

PAUSE_SECONDS = 0.03
# Batches that wait while a frame is made; then the log has to wait.
MOST_WAITING = 32
# Of more runs than these a page that was away loads itself again.
MOST_MISSED = 50
ALIVE = "{}"
REFRESHED = ("status", "agent_version", "started_at", "ended_at", "steps", "active_seconds")


async def watch_console(scope: Scope, receive: Receive, send: Send) -> None:
    def open_console(caller: Caller, request: HttpRequest) -> Texts:
        after = read_places(request.GET.get("after", ""))
        conversation = find_conversation(caller.user, scope["url_route"]["kwargs"]["conversation_id"])
        language = translation.get_language_from_request(request)
        return _frames(Watch(conversation, caller.user, language, after))

    await serve_socket(scope, receive, send, open_console)


async def _frames(watch: "Watch") -> Texts:
    greeting = await in_reader(watch.open)
    yield greeting
    if watch.has_missed_too_much:
        return
    waiting: asyncio.Queue[list[events.Line]] = asyncio.Queue(MOST_WAITING)
    reading = asyncio.create_task(_read(watch, waiting))
    try:
        while True:
            lines = await _next_lines(waiting, reading)
            for frame in await in_reader(watch.take, lines) if lines else [ALIVE]:
                yield frame
            await asyncio.sleep(PAUSE_SECONDS)
    finally:
        await end_tasks(reading)


async def _read(watch: "Watch", waiting: "asyncio.Queue[list[events.Line]]") -> None:
    following: AsyncGenerator[list[events.Line], None] = events.follow_conversation(watch.conversation, watch.after)
    async with aclosing(following):
        async for batch in following:
            await waiting.put(batch)


async def _next_lines(waiting: "asyncio.Queue[list[events.Line]]", reading: "asyncio.Task[None]") -> list[events.Line]:
    """All that has come, or will come next; raises what broke the reading."""
    if waiting.empty():
        getting = asyncio.create_task(waiting.get())
        try:
            await asyncio.wait({getting, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():
                reading.result()
            lines = list(getting.result())
        finally:
            getting.cancel()
    else:
        lines = list(waiting.get_nowait())
    while not waiting.empty():
        lines += waiting.get_nowait()
    return lines


class Watch:
    """Somebody's open page. Its methods work in a database thread, one call after the other."""

    def __init__(self, conversation: Conversation, user: User, language: str, after: Mapping[str, int]) -> None:
        self.conversation = conversation
        self.user = user
        self.language = language
        self.after = after
        self.has_missed_too_much = False
        self._open: dict[str, WatchedRun] = {}
        self._last: WatchedRun | None = None

    def open(self) -> str:
        """What the page needs to be as far as `after` says it is."""
        with translation.override(self.language):
            runs = runs_of(self.conversation)
            named = {run.public_id: run for run in runs.filter(public_id__in=self.after)}
            newest = max((run.pk for run in named.values()), default=0)
            if named and runs.filter(pk__gt=newest).count() > MOST_MISSED:
                self.has_missed_too_much = True
                return orjson.dumps({"reload": True}).decode()
            ops: list[Op] = []
            for run in sorted(named.values(), key=lambda run: run.pk):
                fold = fold_run(run, upto=self.after[run.public_id])
                waits = bool(self._open) and not fold.has_begun and fold.end is None
                watched = WatchedRun(run, fold, self.user, is_placed=not waits)
                ops += watched.renew() if watched.is_placed else []
                self._add(watched)
            return self._write(None, 0, ops, with_state=True)

    def _add(self, watched: WatchedRun) -> None:
        if watched.fold.end is None:
            self._open[watched.id] = watched
        self._keep_last(watched)

    def _keep_last(self, watched: WatchedRun) -> None:
        """The last run that began, as on a page that is opened now; where none did, the last."""
        known = (watched, self._last or watched)
        self._last = max(known, key=lambda other: (other.fold.has_begun, other.run.pk))

    def take(self, lines: list[events.Line]) -> list[str]:
        """The frames for these events."""
        with translation.override(self.language):
            told: dict[str, list[dict[str, object]]] = {}
            for line in lines:
                event = events.payload_of(line.text)
                told.setdefault(event["run_id"], []).append(event)
            return [frame for run_id, its in told.items() if (frame := self._take_run(run_id, its))]

    def _take_run(self, run_id: str, told: list[dict[str, object]]) -> str:
        watched = self._open.get(run_id) or self._meet(run_id)
        if watched is None:
            return ""
        fold = watched.fold
        fold.take(told)
        if fold.end is not None and fold.end.is_withdrawn:
            return self._withdraw(watched)
        self._keep_last(watched)
        ops: list[Op] = []
        if watched.is_placed:
            ops += watched.take_ops()
        if any(event["type"] == events.RUN_EDITED for event in told):
            watched.run.refresh_from_db(fields=["input", "input_text"])
        if (fold.has_begun and watched.run.started_at is None) or fold.end is not None:
            # What the log does not tell: its limits, steps and times.
            watched.run.refresh_from_db(fields=REFRESHED)
        if fold.end is not None:
            self._open.pop(run_id, None)
        for other in self._open.values():
            # The first in line is shown, the others wait.
            if not other.is_placed and (other.fold.has_begun or other is self._first):
                ops += other.place()
        if not watched.is_placed and fold.end is not None:
            ops += watched.place()
        is_passing = all(event["type"] in (events.MESSAGE_DELTA, events.REASONING_DELTA) for event in told)
        return self._write(run_id, fold.seq, ops, with_state=not is_passing)

    def _withdraw(self, watched: WatchedRun) -> str:
        """It was taken back before it began, so that nothing of it is to be seen."""
        if watched.is_placed:
            return orjson.dumps({"reload": True}).decode()
        del self._open[watched.id]
        if self._last is watched:
            self._last = next(reversed(self._open.values()))  # it waited behind one that is open
        return self._write(watched.id, watched.fold.seq, [], with_state=True)

    @property
    def _first(self) -> WatchedRun | None:
        return next(iter(self._open.values()), None)

    def _meet(self, run_id: str) -> WatchedRun | None:
        run = runs_of(self.conversation).filter(public_id=run_id).first()
        if run is None:
            return None
        watched = WatchedRun(run, Fold(run.public_id), self.user, is_placed=False)
        self._add(watched)
        return watched

    def _write(self, run_id: str | None, seq: int, ops: list[Op], *, with_state: bool) -> str:
        frame: dict[str, object] = {"ops": ops}
        if run_id is not None:
            frame |= {"run": run_id, "seq": seq}
        if with_state:
            frame["state"] = self._state()
        return orjson.dumps(frame).decode()

    def _state(self) -> dict[str, object]:
        shown = self._first or self._last
        waiting = [(other.run, other.fold) for other in list(self._open.values())[1:]]
        return add_shell(state_of((shown.run, shown.fold) if shown else None, waiting), self.conversation)
