"""The agent pool: one live agent for each recent conversation, bounded, never taken from under a run (contract P).

Everything here happens on one event loop, and every change of state is a plain function without an await in it. That
is the lock: between two awaits nobody else runs, so nothing can be seen half changed, nothing can be held too long and
nothing can deadlock. What takes time (building an agent, closing its client) runs in tasks of its own, and its
end is again a plain function.

A conversation has one slot, and whoever wants its agent holds a ticket in the slot's queue. `_advance` is the one place
where a slot moves on: it serves the first ticket if the slot has nothing else to do, and is called whenever that may
have changed. A build belongs to its slot and not to the ticket that caused it, so a ticket can leave at any moment: the
build goes on as long as somebody waits for it.

Bounding (P4, P5). The excess is the oldest `size - capacity` slots; the active ones among them are skipped and no newer
one is taken instead. To find it without walking past the same active slots at every insert, a slot that was skipped
stands out of the line, in `_overdue`, until its run ends. All of `_overdue` is older than all of `_line`, so what is
left of the excess is at the head of the line. A slot that is being built is in neither: it cannot be evicted, but it
counts, and as it is no part of the order it is nobody's excuse to stay (P6). Both a hit and the end of a run make a
slot the most recent. So each operation takes a constant number of steps (amortised: a run is skipped at most once);
only `sweep` and `entries` look at all.
"""

import asyncio
import contextvars
import hashlib
import json
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

logger = logging.getLogger("gateway.pool")

CLEANING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class SignatureParts:
    """All that makes a rebuild necessary when it changes.

    What may change with each message (reasoning effort, callbacks) is not in it: that is set on the live agent."""

    model: str
    provider: str
    base_url: str
    credential: str | None = field(repr=False)
    tools: Mapping[str, str]
    """Versions by name."""
    instructions: str
    sampling: Mapping[str, Any] = field(default_factory=dict)
    has_parallel_tools: bool = True
    fallback: "SignatureParts | None" = None
    """Of the second model: where it is and what opens it. The rest is the first one's."""


def signature(parts: SignatureParts) -> str:
    """The same in every process and for every order of keys. The credential goes in whole, as its hash."""
    return hashlib.sha256(json.dumps(_values_of(parts), sort_keys=True).encode()).hexdigest()


def _values_of(parts: SignatureParts) -> dict[str, Any]:
    credential = None
    if parts.credential is not None:
        credential = hashlib.sha256(parts.credential.encode("utf-8", "surrogatepass")).hexdigest()
    return {
        "model": parts.model,
        "provider": parts.provider,
        "base_url": parts.base_url,
        "credential": credential,
        "tools": dict(parts.tools),
        "instructions": parts.instructions,
        "sampling": dict(parts.sampling),
        "has_parallel_tools": parts.has_parallel_tools,
        "fallback": None if parts.fallback is None else _values_of(parts.fallback),
    }


class PooledAgent(Protocol):
    async def release_clients(self) -> None:
        """Soft: close the LLM client and nothing else."""

    async def close(self) -> None:
        """Hard: end all that belongs to the conversation."""


T = TypeVar("T", bound=PooledAgent)


class PoolClosed(Exception):
    """The pool is shutting down and gives no agents any more."""


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """One slot, for people to look at. `idle_seconds` is None for an agent that nobody has used yet."""

    conversation_id: str
    signature: str
    idle_seconds: float | None
    is_active: bool
    is_building: bool


@dataclass(frozen=True, slots=True)
class PoolStats:
    capacity: int
    size: int
    active: int
    hits: int
    misses: int
    evictions: dict[str, int]


class _Ticket(Generic[T]):
    """Somebody's turn to come. `agent` is set when it has come; then the slot is active until `_release`."""

    def __init__(self, signature: str, build: Callable[[], Awaitable[T]]) -> None:
        self.signature = signature
        self.build = build
        self.has_built = False
        # The build may be started by the end of somebody else's run, and must not run in that run's context.
        self.context = contextvars.copy_context()
        self.agent: asyncio.Future[T] = asyncio.get_running_loop().create_future()


class _Slot(Generic[T]):
    def __init__(self, conversation_id: str) -> None:
        self.conversation_id = conversation_id
        self.signature = ""
        self.agent: T | None = None
        self.is_active = False
        self.used_at: float | None = None
        self.evict_reason: str | None = None
        """Set when the agent must go as soon as it is free."""
        # Ordered, and a ticket in the middle can leave.
        self.tickets: dict[_Ticket[T], None] = {}
        self.build: asyncio.Task[T] | None = None
        self.is_abandoned = False
        """Nobody waits for the build any more: it was cancelled."""
        self.closing: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        return self.is_active or self.build is not None or self.closing is not None


class AgentPool(Generic[T]):
    def __init__(
        self,
        capacity: int,
        idle_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if capacity < 1:
            raise ValueError("The capacity of an agent pool is at least 1.")
        self.capacity = capacity
        self.idle_seconds = idle_seconds
        self._clock = clock
        self._slots: dict[str, _Slot[T]] = {}
        # An OrderedDict because its first item is found at once; a dict walks over what was deleted before it.
        self._line: OrderedDict[str, _Slot[T]] = OrderedDict()
        self._overdue: dict[str, _Slot[T]] = {}
        self._cleaning: set[asyncio.Task[None]] = set()
        self._evictions: Counter[str] = Counter()
        self._hits = 0
        self._misses = 0
        self._active = 0
        self._is_over_capacity = False
        self._is_closed = False

    @asynccontextmanager
    async def use(self, conversation_id: str, signature: str, build: Callable[[], Awaitable[T]]) -> AsyncIterator[T]:
        """The conversation's agent, for this block alone and safe in it. Others who want it wait, in order.

        Raises what `build` raises, to everyone who waited for that build."""
        if self._is_closed:
            raise PoolClosed
        ticket = _Ticket(signature, build)
        slot = self._slots.get(conversation_id)
        if slot is None:
            slot = self._slots[conversation_id] = _Slot(conversation_id)
        slot.tickets[ticket] = None
        self._advance(slot)
        try:
            agent = await ticket.agent
        except BaseException:
            self._withdraw(slot, ticket)
            raise
        try:
            yield agent
        finally:
            self._release(slot)

    async def evict(self, conversation_id: str, reason: str = "manual") -> bool:
        """Soft (P8): lets the agent go, its client is closed in the background. False if it is in use or not here."""
        slot = self._find_free(conversation_id)
        if slot is None:
            return False
        self._evict(slot, reason)
        return True

    def evict_when_free(self, conversation_id: str, reason: str) -> bool:
        """The same, as soon as the run that uses the agent has ended. False if there is no agent."""
        slot = self._slots.get(conversation_id)
        if slot is None or (slot.agent is None and slot.build is None):
            return False
        slot.evict_reason = reason
        if not slot.is_busy:
            self._evict(slot, reason)
        return True

    async def end(self, conversation_id: str) -> bool:
        """Hard (P8): ends all that belongs to the conversation, and returns when that is done.

        False, and nothing is done, if the agent is in use or not here. Whoever comes meanwhile waits for the end and
        gets a new agent."""
        slot = self._find_free(conversation_id)
        if slot is None:
            return False
        agent = self._take_agent(slot, "end")
        closing = slot.closing = self._clean(slot.conversation_id, agent.close)

        def go_on(_: asyncio.Task[None]) -> None:
            slot.closing = None
            self._advance(slot)

        closing.add_done_callback(go_on)
        # Shielded: half of a teardown is worse than none.
        await asyncio.shield(closing)
        return True

    async def sweep(self) -> int:
        """Lets go of the agents that were idle for too long (P7), and says how many those were."""
        now = self._clock()
        expired = [
            slot
            for slot in self._line.values()
            if not slot.is_active and slot.used_at is not None and now - slot.used_at > self.idle_seconds
        ]
        for slot in expired:
            self._evict(slot, "idle")
        return len(expired)

    async def close(self) -> None:
        """Releases all agents and gives no more. End the runs first: an agent in use is not waited for, it is released
        when its run ends."""
        self._is_closed = True
        for slot in list(self._slots.values()):
            for ticket in list(slot.tickets):
                self._fail(slot, ticket, PoolClosed())
            self._abandon_unwanted_build(slot)
            self.evict_when_free(slot.conversation_id, "close")
        if self._active:
            logger.warning("the agent pool closes with %d agents in the middle of a run", self._active)
        builds = [slot.build for slot in self._slots.values() if slot.build is not None]
        if builds:
            await asyncio.wait(builds, timeout=CLEANING_SECONDS)
        await self.drain()

    async def drain(self) -> None:
        """Returns when the cleaning that is under way is done."""
        while self._cleaning:
            await asyncio.wait(self._cleaning)

    def is_active(self, conversation_id: str) -> bool:
        slot = self._slots.get(conversation_id)
        return slot is not None and slot.is_active

    def __contains__(self, conversation_id: str) -> bool:
        return conversation_id in self._slots

    def stats(self) -> PoolStats:
        return PoolStats(
            capacity=self.capacity,
            size=len(self._slots),
            active=self._active,
            hits=self._hits,
            misses=self._misses,
            evictions=dict(self._evictions),
        )

    def entries(self) -> list[PoolEntry]:
        """All slots, the least recently used first."""
        now = self._clock()
        ordered = {**self._overdue, **self._line, **self._slots}
        return [
            PoolEntry(
                conversation_id=slot.conversation_id,
                signature=slot.signature[:8],
                idle_seconds=0.0 if slot.is_busy else None if slot.used_at is None else now - slot.used_at,
                is_active=slot.is_active,
                is_building=slot.build is not None,
            )
            for slot in ordered.values()
        ]

    # From here on nothing awaits.

    def _advance(self, slot: _Slot[T]) -> None:
        """Serve the first ticket of a slot that has nothing else to do; forget a slot that nobody needs."""
        if not slot.is_busy:
            ticket = next((ticket for ticket in slot.tickets if not ticket.agent.done()), None)
            if ticket is None:
                self._rest(slot)
            elif slot.agent is not None and slot.signature == ticket.signature:
                self._grant(slot, ticket, slot.agent)
            else:
                if slot.agent is not None:
                    self._release_agent(slot, "signature")
                self._begin_build(slot, ticket)
        self._enforce_capacity()

    def _rest(self, slot: _Slot[T]) -> None:
        if slot.agent is not None and slot.evict_reason is not None:
            self._release_agent(slot, slot.evict_reason)
        # A slot that was evicted while a cancelled ticket was still in it may have a successor by now.
        if slot.agent is None and not slot.tickets and self._slots.get(slot.conversation_id) is slot:
            del self._slots[slot.conversation_id]

    def _grant(self, slot: _Slot[T], ticket: _Ticket[T], agent: T) -> None:
        del slot.tickets[ticket]
        if not ticket.has_built:
            self._hits += 1
        slot.is_active = True
        self._active += 1
        self._touch(slot)
        ticket.agent.set_result(agent)

    def _release(self, slot: _Slot[T]) -> None:
        slot.is_active = False
        self._active -= 1
        self._touch(slot)
        if slot.evict_reason is not None:
            self._release_agent(slot, slot.evict_reason)
        self._advance(slot)

    def _withdraw(self, slot: _Slot[T], ticket: _Ticket[T]) -> None:
        """Whoever held this ticket was cancelled, or the build failed."""
        if ticket in slot.tickets:
            del slot.tickets[ticket]
            self._abandon_unwanted_build(slot)
            self._advance(slot)
        elif ticket.agent.cancelled() or ticket.agent.exception() is not None:
            return
        else:
            # Cancelled in the very tick in which its turn came.
            self._release(slot)

    def _begin_build(self, slot: _Slot[T], ticket: _Ticket[T]) -> None:
        async def run() -> T:
            return await ticket.build()

        self._misses += 1
        slot.signature = ticket.signature
        ticket.has_built = True
        slot.is_abandoned = False
        slot.build = asyncio.create_task(run(), name=f"build agent {slot.conversation_id}", context=ticket.context)
        # Not a `finally` in the task: a task that is cancelled before its first step never gets there.
        slot.build.add_done_callback(lambda build: self._end_build(slot, build))

    def _end_build(self, slot: _Slot[T], build: asyncio.Task[T]) -> None:
        slot.build = None
        if not build.cancelled() and build.exception() is None:
            slot.agent = build.result()
            slot.used_at = None
            self._line[slot.conversation_id] = slot
        elif not slot.is_abandoned:
            error = RuntimeError("Building the agent was cancelled.") if build.cancelled() else build.exception()
            assert error is not None
            for ticket in [ticket for ticket in slot.tickets if ticket.signature == slot.signature]:
                self._fail(slot, ticket, error)
        self._advance(slot)

    def _abandon_unwanted_build(self, slot: _Slot[T]) -> None:
        if slot.build is None or any(ticket.signature == slot.signature for ticket in slot.tickets):
            return
        slot.is_abandoned = True
        slot.build.cancel()

    def _fail(self, slot: _Slot[T], ticket: _Ticket[T], error: BaseException) -> None:
        del slot.tickets[ticket]
        if not ticket.agent.done():
            ticket.agent.set_exception(error)

    def _find_free(self, conversation_id: str) -> _Slot[T] | None:
        """A slot without an agent that nobody builds is only waiting for somebody who is leaving it."""
        slot = self._slots.get(conversation_id)
        return None if slot is None or slot.is_busy or slot.agent is None else slot

    def _touch(self, slot: _Slot[T]) -> None:
        slot.used_at = self._clock()
        self._overdue.pop(slot.conversation_id, None)
        self._line[slot.conversation_id] = slot
        self._line.move_to_end(slot.conversation_id)

    def _enforce_capacity(self) -> None:
        while self._line and len(self._slots) - len(self._overdue) > self.capacity:
            oldest = next(iter(self._line.values()))
            if oldest.is_active:
                self._overdue[oldest.conversation_id] = self._line.pop(oldest.conversation_id)
            else:
                self._release_agent(oldest, "capacity")
                del self._slots[oldest.conversation_id]
        was_over_capacity, self._is_over_capacity = self._is_over_capacity, len(self._slots) > self.capacity
        if self._is_over_capacity and not was_over_capacity:
            logger.warning(
                "the agent pool is over its capacity of %d and stays so for now: "
                "%d agents are in the middle of a run and %d are being built or ended",
                self.capacity,
                self._active,
                len(self._slots) - len(self._line) - len(self._overdue),
            )

    def _evict(self, slot: _Slot[T], reason: str) -> None:
        self._release_agent(slot, reason)
        self._advance(slot)

    def _release_agent(self, slot: _Slot[T], reason: str) -> None:
        self._clean(slot.conversation_id, self._take_agent(slot, reason).release_clients)

    def _take_agent(self, slot: _Slot[T], reason: str) -> T:
        """The one way out of the pool for an agent. Its slot stays for whoever comes next, or goes in `_rest`."""
        agent = slot.agent
        assert agent is not None
        assert not slot.is_active, "P5: never from under a run"
        slot.agent = slot.evict_reason = None
        del self._line[slot.conversation_id]
        self._evictions[reason] += 1
        return agent

    def _clean(self, conversation_id: str, clean: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._clean_logged(conversation_id, clean), name=f"clean agent {conversation_id}")
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)
        return task

    async def _clean_logged(self, conversation_id: str, clean: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(CLEANING_SECONDS):
                await clean()
        except Exception:
            logger.exception("cleaning up the agent of %s failed", conversation_id)
