"""The agent pool, clause by clause (contract section P)."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from gateway import pool
from gateway.pool import AgentPool, PoolClosed


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeAgent:
    """Has a client, and a task that belongs to the conversation; remembers what was done to it."""

    def __init__(self, conversation: str = "") -> None:
        self.conversation = conversation
        self.has_client = True
        self.has_task = True
        self.system_prompt = "frozen"
        self.reasoning_effort = "low"
        self.gate: asyncio.Event | None = None
        self.failure: Exception | None = None

    async def release_clients(self) -> None:
        if self.gate is not None:
            await self.gate.wait()
        self.has_client = False
        if self.failure is not None:
            raise self.failure

    async def close(self) -> None:
        await self.release_clients()
        self.has_task = False


class Bench:
    """A pool and all agents that were ever built for it."""

    def __init__(self, capacity: int = 3, idle_seconds: float = 60.0) -> None:
        self.clock = Clock()
        self.pool: AgentPool[FakeAgent] = AgentPool(capacity, idle_seconds, self.clock)
        self.built: list[FakeAgent] = []

    def use(self, conversation: str, signature: str = "s1"):
        async def build() -> FakeAgent:
            await asyncio.sleep(0)
            agent = FakeAgent(conversation)
            self.built.append(agent)
            return agent

        return self.pool.use(conversation, signature, build)

    async def visit(self, *conversations: str, signature: str = "s1") -> FakeAgent:
        for conversation in conversations:
            async with self.use(conversation, signature) as agent:
                self.clock.now += 1
        return agent

    def names(self) -> list[str]:
        """Who is in the pool, the least recently used first."""
        return [entry.conversation_id for entry in self.pool.entries()]

    def with_client(self) -> list[str]:
        return sorted(agent.conversation for agent in self.built if agent.has_client)


async def turn_loop() -> None:
    """Let everything happen that can happen by itself."""
    for _ in range(20):
        await asyncio.sleep(0)


async def build_for_nobody(bench: Bench, meanwhile: Callable[[], object] = lambda: None) -> None:
    """An agent for alice whose build comes to its end although everyone who waited has left."""
    is_building = asyncio.Event()

    async def build_stubbornly() -> FakeAgent:
        is_building.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return FakeAgent("alice")

    async def run() -> None:
        async with bench.pool.use("alice", "s1", build_stubbornly):
            raise AssertionError

    waiter = asyncio.create_task(run())
    await is_building.wait()
    meanwhile()
    waiter.cancel()
    await asyncio.wait([waiter])
    await turn_loop()


async def test_the_same_conversation_gets_the_same_live_agent_from_run_to_run():
    """P1"""
    bench = Bench()
    first = await bench.visit("alice")
    await bench.visit("bob")
    assert await bench.visit("alice") is first
    assert first.has_client
    assert len(bench.built) == 2
    assert (bench.pool.stats().hits, bench.pool.stats().misses) == (1, 2)


async def test_what_changes_with_each_message_is_set_on_the_live_agent():
    """P2: in place, without a rebuild, without touching the system prompt."""
    bench = Bench()
    async with bench.use("alice") as agent:
        agent.reasoning_effort = "high"
    async with bench.use("alice") as again:
        assert again is agent
        assert (again.reasoning_effort, again.system_prompt) == ("high", "frozen")


async def test_another_signature_rebuilds_and_touches_no_other_conversation():
    """P3: a change of signature rebuilds the agent at the next run."""
    bench = Bench()
    old = await bench.visit("alice")
    neighbour = await bench.visit("bob")
    new = await bench.visit("alice", signature="s2")
    await bench.pool.drain()
    assert new is not old
    assert not old.has_client
    assert old.has_task
    assert await bench.visit("bob") is neighbour
    assert neighbour.has_client
    assert bench.pool.stats().evictions == {"signature": 1}


async def test_a_reset_evicts_this_conversation_alone():
    """P3: resetting a conversation evicts it."""
    bench = Bench()
    old = await bench.visit("alice")
    neighbour = await bench.visit("bob")
    assert await bench.pool.evict("alice", "reset")
    await bench.pool.drain()
    assert (old.has_client, neighbour.has_client) == (False, True)
    assert bench.names() == ["bob"]
    assert bench.pool.stats().evictions == {"reset": 1}


async def test_a_fallback_lets_the_agent_go_when_its_run_has_ended_and_not_before():
    """P3, P5: falling back to another model evicts, but never in the middle of the run."""
    bench = Bench()
    async with bench.use("alice") as agent:
        assert bench.pool.evict_when_free("alice", "fallback")
        await turn_loop()
        assert agent.has_client
        assert bench.names() == ["alice"]
    assert bench.names() == []
    await bench.pool.drain()
    assert not agent.has_client
    assert await bench.visit("alice") is not agent
    assert bench.names() == ["alice"], "the agent after it stays"
    assert bench.pool.stats().evictions == {"fallback": 1}


async def test_who_waits_while_an_agent_falls_back_gets_a_fresh_one():
    """P3, P10"""
    bench = Bench()
    async with bench.use("alice") as agent:
        following = asyncio.create_task(bench.visit("alice"))
        await turn_loop()
        bench.pool.evict_when_free("alice", "fallback")
    assert await following is not agent
    assert bench.pool.stats().evictions == {"fallback": 1}


async def test_eviction_when_free_happens_at_once_for_an_idle_agent_and_not_at_all_for_a_stranger():
    """P3"""
    bench = Bench()
    await bench.visit("alice")
    assert bench.pool.evict_when_free("alice", "fallback")
    assert bench.names() == []
    assert not bench.pool.evict_when_free("alice", "fallback")


async def test_past_the_capacity_the_least_recently_used_goes():
    """P4"""
    bench = Bench(capacity=3)
    await bench.visit("a", "b", "c", "d")
    await bench.pool.drain()
    assert bench.names() == ["b", "c", "d"]
    assert bench.with_client() == ["b", "c", "d"]
    assert bench.pool.stats().evictions == {"capacity": 1}


async def test_a_hit_makes_an_entry_the_most_recent():
    """P4"""
    bench = Bench(capacity=3)
    await bench.visit("a", "b", "c", "a", "d")
    assert bench.names() == ["c", "a", "d"]


async def test_the_end_of_a_run_makes_an_entry_the_most_recent():
    """P4: a conversation that was just answered is the likeliest to go on."""
    bench = Bench(capacity=3)
    async with bench.use("a"):
        await bench.visit("b", "c")
    await bench.visit("d")
    assert bench.names() == ["c", "a", "d"]


async def test_an_active_entry_in_the_excess_is_skipped_and_no_newer_one_is_taken(caplog):
    """P5: the pool stays over capacity for the time being, and the log says so, once."""
    bench = Bench(capacity=2)
    with caplog.at_level(logging.WARNING, "gateway.pool"):
        async with bench.use("busy") as busy:
            await bench.visit("a", "b")
            await bench.visit("a", "b")
            await bench.pool.drain()
            assert bench.names() == ["busy", "a", "b"]
            assert bench.with_client() == ["a", "b", "busy"]
            assert busy.has_client
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "over its capacity of 2" in caplog.text


async def test_only_what_is_idle_inside_the_excess_goes():
    """P5: with an active entry among the two oldest of five in three slots, exactly one goes."""
    bench = Bench(capacity=3)
    await bench.visit("a")
    async with bench.use("busy"):
        await bench.visit("b", "c")
        assert bench.names() == ["busy", "b", "c"]
        await bench.visit("d")
        assert bench.names() == ["busy", "b", "c", "d"], "the excess is the busy one: nobody goes for it"
        await bench.visit("e")
        assert bench.names() == ["busy", "c", "d", "e"], "the excess is the busy one and b"


async def test_capacity_is_enforced_again_when_a_run_ends_and_the_next_time_is_warned_of_again(caplog):
    """P5"""
    bench = Bench(capacity=2)
    for time in (1, 2):
        async with bench.use("busy"):
            await bench.visit("a", "b")
            assert bench.pool.stats().size == 3
        assert bench.names() == ["b", "busy"]
        assert len(caplog.records) == time


async def test_an_agent_in_the_middle_of_a_run_is_neither_evicted_nor_closed_nor_swept():
    """P5, P7"""
    bench = Bench()
    async with bench.use("alice") as agent:
        bench.clock.now += 1_000_000
        assert not await bench.pool.evict("alice")
        assert not await bench.pool.end("alice")
        assert await bench.pool.sweep() == 0
        await bench.pool.drain()
        assert agent.has_client
        assert bench.pool.is_active("alice")
    assert not bench.pool.is_active("alice")
    assert await bench.visit("alice") is agent


async def test_a_run_goes_on_while_all_its_neighbours_are_evicted_around_it():
    """P3, P5"""
    bench = Bench(capacity=3)
    await bench.visit("left")
    async with bench.use("alice") as agent:
        await bench.visit("right")
        assert await bench.pool.evict("left")
        assert await bench.pool.evict("right")
        await bench.visit(*(f"stranger {number}" for number in range(20)))
        await bench.pool.drain()
        assert (agent.has_client, agent.has_task) == (True, True)
        async with asyncio.timeout(5):
            await bench.visit("left")
    assert bench.pool.stats().size == 3


async def test_a_slot_that_is_being_built_counts_and_protects_nobody_else():
    """P6: its neighbours go as if it were not there; in its own place nobody is spared."""
    bench = Bench(capacity=2)
    is_building, may_go_on = asyncio.Event(), asyncio.Event()

    async def build_slowly() -> FakeAgent:
        is_building.set()
        await may_go_on.wait()
        return FakeAgent("slow")

    async def run_slowly() -> None:
        async with bench.pool.use("slow", "s1", build_slowly):
            pass

    await bench.visit("a", "b")
    slow = asyncio.create_task(run_slowly())
    await is_building.wait()
    assert sorted(bench.names()) == ["b", "slow"], "a reservation takes a place"
    await bench.visit("c")
    assert sorted(bench.names()) == ["c", "slow"], "the oldest slot is being built, and b goes nevertheless"
    assert not await bench.pool.evict("slow"), "the reservation itself is safe"
    assert not await bench.pool.end("slow")
    may_go_on.set()
    await slow
    assert bench.names() == ["c", "slow"]


async def test_agents_idle_past_their_time_are_swept_and_the_others_stay():
    """P7"""
    bench = Bench(idle_seconds=60)
    old = await bench.visit("old")
    bench.clock.now += 29
    await bench.visit("new")
    bench.clock.now += 30
    assert await bench.pool.sweep() == 0, "exactly 60 seconds is not past 60 seconds"
    bench.clock.now += 1
    assert await bench.pool.sweep() == 1
    await bench.pool.drain()
    assert bench.names() == ["new"]
    assert (old.has_client, old.has_task) == (False, True)
    assert bench.pool.stats().evictions == {"idle": 1}


async def test_the_time_counts_from_the_end_of_the_run():
    """P7"""
    bench = Bench(idle_seconds=60)
    async with bench.use("alice"):
        bench.clock.now += 1000
    assert await bench.pool.sweep() == 0
    assert bench.pool.entries()[0].idle_seconds == 0


async def test_an_entry_without_an_activity_time_is_left_alone():
    """P7"""
    bench = Bench(idle_seconds=60)
    await build_for_nobody(bench)
    assert bench.pool.entries()[0].idle_seconds is None
    bench.clock.now += 1_000_000
    assert await bench.pool.sweep() == 0
    assert bench.names() == ["alice"]
    await bench.visit("alice")
    assert bench.pool.stats().hits == 1


async def test_an_agent_that_must_go_goes_also_when_nobody_is_left_to_use_it():
    """P3"""
    bench = Bench()
    await build_for_nobody(bench, lambda: bench.pool.evict_when_free("alice", "reset"))
    await bench.pool.drain()
    assert bench.names() == []
    assert bench.pool.stats().evictions == {"reset": 1}


@pytest.mark.parametrize("way", ["evict", "sweep", "capacity", "signature", "close"])
async def test_eviction_is_soft_in_every_way_it_comes(way):
    """P8: closes the client and nothing else."""
    bench = Bench(capacity=1)
    agent = await bench.visit("alice")
    bench.clock.now += 1_000_000
    match way:
        case "evict":
            await bench.pool.evict("alice")
        case "sweep":
            await bench.pool.sweep()
        case "capacity":
            await bench.visit("bob")
        case "signature":
            await bench.visit("alice", signature="s2")
        case "close":
            await bench.pool.close()
    await bench.pool.drain()
    assert (agent.has_client, agent.has_task) == (False, True)


async def test_ending_a_conversation_is_hard_and_done_when_it_returns():
    """P8"""
    bench = Bench()
    agent = await bench.visit("alice")
    neighbour = await bench.visit("bob")
    assert await bench.pool.end("alice")
    assert (agent.has_client, agent.has_task) == (False, False)
    assert (neighbour.has_client, neighbour.has_task) == (True, True)
    assert bench.names() == ["bob"]
    assert not await bench.pool.end("alice"), "there is nothing left to end"


async def test_who_comes_during_the_end_of_a_conversation_waits_for_it():
    """P8: a new agent must not find half of what the old one is taking down."""
    bench = Bench()
    agent = await bench.visit("alice")
    agent.gate = asyncio.Event()
    ending = asyncio.create_task(bench.pool.end("alice"))
    await turn_loop()
    visit = asyncio.create_task(bench.visit("alice"))
    await turn_loop()
    assert len(bench.built) == 1
    assert not bench.pool.evict_when_free("alice", "reset")
    agent.gate.set()
    assert await ending
    assert await visit is not agent
    assert bench.names() == ["alice"]


async def test_cleaning_up_is_off_the_hot_path():
    """P9: a client that takes for ever to close holds nobody up."""
    bench = Bench(capacity=1)
    slow = await bench.visit("slow")
    slow.gate = asyncio.Event()
    async with asyncio.timeout(5):
        await bench.visit("a", "b", "slow", "c")
        await bench.pool.evict("c")
        while len(bench.with_client()) > 1:
            await turn_loop()
    assert bench.with_client() == ["slow"]
    slow.gate.set()
    await bench.pool.drain()
    assert bench.with_client() == []


async def test_a_failure_in_cleaning_up_is_logged_and_hurts_nobody(caplog):
    """P9"""
    bench = Bench()
    agent = await bench.visit("alice")
    agent.failure = OSError("socket is gone")
    await bench.pool.evict("alice")
    await bench.pool.drain()
    assert "cleaning up the agent of alice failed" in caplog.text
    assert "socket is gone" in caplog.text
    assert (await bench.visit("alice")).has_client


async def test_a_client_that_never_closes_is_given_up(monkeypatch, caplog):
    """P9: the pool's own end would wait for it as well."""
    monkeypatch.setattr(pool, "CLEANING_SECONDS", 0.01)
    bench = Bench()
    agent = await bench.visit("alice")
    agent.gate = asyncio.Event()
    await bench.pool.evict("alice")
    async with asyncio.timeout(5):
        await bench.pool.drain()
    assert "cleaning up the agent of alice failed" in caplog.text


@pytest.mark.parametrize("holds_open", [False, True])
async def test_many_concurrent_inserts_settle_exactly_at_capacity(holds_open):
    """P9: 8 tasks × 20 inserts into 16 slots, without deadlock."""
    bench = Bench(capacity=16)

    async def insert(worker: int) -> None:
        async with AsyncExitStack() as held:
            for number in range(20):
                agent = await held.enter_async_context(bench.use(f"{worker}/{number}"))
                assert agent.has_client
                await asyncio.sleep(0)
                assert agent.has_client
                if not holds_open:
                    await held.aclose()

    async with asyncio.timeout(30):
        async with asyncio.TaskGroup() as group:
            for worker in range(8):
                group.create_task(insert(worker))
        await bench.pool.drain()
    stats = bench.pool.stats()
    assert (stats.size, stats.active, stats.misses) == (16, 0, 160)
    assert stats.evictions == {"capacity": 144}
    assert len(bench.with_client()) == 16
    assert bench.with_client() == sorted(bench.names())


@pytest.mark.parametrize("way", ["evict", "sweep", "capacity", "end"])
async def test_the_next_run_of_an_evicted_conversation_gets_a_fresh_working_agent(way):
    """P10"""
    bench = Bench(capacity=1)
    old = await bench.visit("alice")
    bench.clock.now += 1_000_000
    match way:
        case "evict":
            await bench.pool.evict("alice")
        case "sweep":
            await bench.pool.sweep()
        case "capacity":
            await bench.visit("bob")
        case "end":
            await bench.pool.end("alice")
    async with bench.use("alice") as agent:
        await bench.pool.drain()
        assert agent is not old
        assert agent.has_client


async def test_closing_releases_the_idle_at_once_and_the_active_when_their_runs_end(caplog):
    """P5, P9"""
    bench = Bench()
    idle = await bench.visit("idle")
    async with bench.use("busy") as busy:
        await bench.pool.close()
        assert (idle.has_client, busy.has_client) == (False, True)
        with pytest.raises(PoolClosed):
            await bench.visit("late")
    assert "1 agents in the middle of a run" in caplog.text
    await bench.pool.drain()
    assert not busy.has_client
    assert bench.names() == []


async def test_the_entries_show_the_beginning_of_the_signature_and_no_more():
    bench = Bench()
    await bench.visit("alice", signature="0123456789abcdef")
    bench.clock.now += 5
    async with bench.use("bob"):
        alice, bob = bench.pool.entries()
    assert (alice.conversation_id, alice.signature) == ("alice", "01234567")
    assert (alice.idle_seconds, alice.is_active) == (5.0, False)
    assert (bob.conversation_id, bob.idle_seconds, bob.is_active) == ("bob", 0.0, True)


async def test_a_pool_without_room_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        AgentPool(0, 60.0)
