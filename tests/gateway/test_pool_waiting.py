"""The agent pool under people who come at the same instant, fail and leave at the worst moment."""

import asyncio
import itertools
from contextvars import ContextVar

import pytest

from gateway.pool import PoolClosed
from tests.gateway.test_pool import Bench, FakeAgent, turn_loop


class Building:
    """Builds that the test lets begin and end."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.begun = 0
        self.was_cancelled = False
        self.outcome: asyncio.Future[FakeAgent] = asyncio.get_running_loop().create_future()

    async def build(self) -> FakeAgent:
        self.begun += 1
        try:
            return await asyncio.shield(self.outcome)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


class User:
    """Somebody who wants the agent, and keeps it until told to leave."""

    def __init__(self, building: Building, conversation: str = "alice", signature: str = "s1") -> None:
        self.building = building
        self.agent: FakeAgent | None = None
        self.leaves = asyncio.Event()
        self.task = asyncio.create_task(self._run(conversation, signature))

    async def _run(self, conversation: str, signature: str) -> None:
        async with self.building.bench.pool.use(conversation, signature, self.building.build) as agent:
            self.agent = agent
            await self.leaves.wait()

    async def cancel(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        assert self.task.cancelled()


@pytest.fixture
async def bench():
    return Bench()


@pytest.fixture
async def building(bench):
    return Building(bench)


async def test_two_at_the_same_instant_build_one_agent_and_have_it_one_after_the_other(bench, building):
    """P1, P6: the second waits until the first has left."""
    first, second = User(building), User(building)
    await turn_loop()
    assert building.begun == 1
    building.outcome.set_result(FakeAgent())
    await turn_loop()
    assert (first.agent, second.agent) == (building.outcome.result(), None)
    first.leaves.set()
    await turn_loop()
    assert second.agent is first.agent
    second.leaves.set()
    await turn_loop()
    assert bench.pool.stats().active == 0
    assert (bench.pool.stats().hits, bench.pool.stats().misses) == (1, 1)


async def test_who_waits_longest_comes_first_and_a_newcomer_cannot_slip_in_between(bench, building):
    building.outcome.set_result(FakeAgent())
    users = [User(building) for _ in range(4)]
    newcomers = []
    await turn_loop()
    for present, following in itertools.pairwise(users):
        present.leaves.set()
        await present.task
        newcomers.append(User(building))
        await turn_loop()
        assert following.agent is not None
        assert newcomers[-1].agent is None
    for user in users + newcomers:
        user.leaves.set()
    await asyncio.gather(*(user.task for user in users + newcomers))


async def test_a_build_that_fails_leaves_no_entry_and_is_told_to_everyone_who_waited(bench, building):
    users = [User(building) for _ in range(3)]
    await turn_loop()
    building.outcome.set_exception(ConnectionError("no such host"))
    results = await asyncio.gather(*(user.task for user in users), return_exceptions=True)
    assert [str(result) for result in results] == ["no such host"] * 3
    assert bench.names() == []
    assert (await bench.visit("alice")).has_client


async def test_a_build_that_raises_before_its_first_await_is_no_different(bench):
    def build():
        raise ConnectionError("no such host")

    with pytest.raises(ConnectionError):
        async with bench.pool.use("alice", "s1", build):
            raise AssertionError
    assert bench.names() == []


async def test_a_build_that_cancels_itself_is_a_failure_and_no_cancellation(bench):
    async def build() -> FakeAgent:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="was cancelled"):
        async with bench.pool.use("alice", "s1", build):
            raise AssertionError
    assert bench.names() == []


async def test_a_failed_build_is_not_told_to_one_who_wants_another_configuration(bench, building):
    """P3"""
    other = Building(bench)
    other.outcome.set_result(FakeAgent())
    first, second = User(building), User(other, signature="s2")
    await turn_loop()
    building.outcome.set_exception(ConnectionError("no such host"))
    await turn_loop()
    assert isinstance(first.task.exception(), ConnectionError)
    assert second.agent is other.outcome.result()
    second.leaves.set()
    await second.task


async def test_another_configuration_waits_for_the_run_and_then_rebuilds(bench, building):
    """P3, P5: the old agent keeps its client until its run has ended."""
    other = Building(bench)
    other.outcome.set_result(FakeAgent())
    old, new = FakeAgent(), other.outcome.result()
    building.outcome.set_result(old)
    first, second = User(building), User(other, signature="s2")
    await turn_loop()
    assert (first.agent, old.has_client, other.begun) == (old, True, 0)
    first.leaves.set()
    await turn_loop()
    assert second.agent is new
    assert not old.has_client
    second.leaves.set()
    await second.task


async def test_the_build_goes_on_for_the_others_when_the_one_who_began_it_leaves(bench, building):
    first, second = User(building), User(building)
    await turn_loop()
    await first.cancel()
    building.outcome.set_result(FakeAgent())
    await turn_loop()
    assert building.begun == 1
    assert not building.was_cancelled
    assert second.agent is building.outcome.result()
    second.leaves.set()
    await second.task


async def test_the_build_is_cancelled_when_the_last_one_leaves_and_nothing_is_left(bench, building):
    first, second = User(building), User(building)
    await turn_loop()
    await first.cancel()
    assert not building.was_cancelled
    await second.cancel()
    await turn_loop()
    assert building.was_cancelled
    assert bench.names() == []
    assert bench.pool.stats().active == 0


async def test_a_build_that_is_given_up_before_its_first_step_leaves_nothing(bench, building):
    user = User(building)
    await asyncio.sleep(0)
    assert bench.pool.entries()[0].is_building
    await bench.pool.close()
    assert building.begun == 0
    assert bench.names() == []
    with pytest.raises(PoolClosed):
        await user.task


async def test_one_who_comes_while_the_build_is_being_cancelled_gets_an_agent(bench, building):
    first = User(building)
    await turn_loop()
    first.task.cancel()
    await asyncio.sleep(0)
    assert first.task.done()
    assert bench.pool.entries()[0].is_building, "its cancellation is delivered one turn later"
    building.outcome.set_result(FakeAgent())
    second = User(building)
    await turn_loop()
    assert second.agent is building.outcome.result()
    second.leaves.set()
    await second.task


async def test_one_who_leaves_the_queue_is_passed_over(bench, building):
    building.outcome.set_result(FakeAgent())
    first, second, third = (User(building) for _ in range(3))
    await turn_loop()
    await second.cancel()
    first.leaves.set()
    await turn_loop()
    assert third.agent is not None
    third.leaves.set()
    await third.task
    assert bench.pool.stats().active == 0


async def test_one_who_is_cancelled_in_the_tick_in_which_his_turn_comes_passes_it_on(bench, building):
    building.outcome.set_result(FakeAgent())
    async with bench.pool.use("alice", "s1", building.build):
        second, third = User(building), User(building)
        await turn_loop()
    # The second has been given the agent and has not run since.
    second.task.cancel()
    await turn_loop()
    assert second.agent is None
    assert third.agent is not None
    third.leaves.set()
    await third.task
    assert bench.pool.stats().active == 0


async def test_one_who_is_cancelled_just_before_his_turn_comes_is_passed_over(bench, building):
    building.outcome.set_result(FakeAgent())
    first, second = User(building), User(building)
    await turn_loop()
    first.leaves.set()
    second.task.cancel()
    await turn_loop()
    assert second.task.cancelled()
    assert bench.pool.stats().active == 0
    assert bench.names() == ["alice"]


async def test_one_who_is_still_leaving_an_evicted_entry_does_not_take_its_successor_along(building):
    """P10"""
    bench = Bench(capacity=1)
    building.bench = bench
    async with bench.use("alice"):
        leaving = User(building)
        # Still being built when alice is free: the only free entry is alice, so she goes in the call that frees her.
        neighbour = User(building, conversation="bob")
        await turn_loop()
        leaving.task.cancel()
    assert bench.names() == ["bob"]
    async with bench.use("alice"):
        await asyncio.wait([leaving.task])
        await turn_loop()
        assert bench.pool.is_active("alice")
    await neighbour.cancel()


async def test_a_build_that_fails_after_another_was_given_up_is_told(bench, building):
    first = User(building)
    await turn_loop()
    first.task.cancel()
    await asyncio.sleep(0)
    assert bench.pool.entries()[0].is_building
    building.outcome.set_exception(ConnectionError("no such host"))
    second = User(building)
    with pytest.raises(ConnectionError):
        async with asyncio.timeout(5):
            await second.task
    assert building.begun == 2
    assert bench.names() == []


async def test_an_exception_in_the_block_frees_the_agent(bench):
    with pytest.raises(LookupError):
        async with bench.use("alice"):
            raise LookupError
    assert bench.pool.stats().active == 0
    assert await bench.pool.evict("alice")


async def test_a_cancelled_caller_of_end_does_not_stop_half_way(bench):
    """P8"""
    agent = await bench.visit("alice")
    agent.gate = asyncio.Event()
    ending = asyncio.create_task(bench.pool.end("alice"))
    await turn_loop()
    ending.cancel()
    await asyncio.wait([ending])
    agent.gate.set()
    await bench.pool.drain()
    assert not agent.has_task
    await turn_loop()
    assert bench.names() == []


async def test_closing_sends_away_all_who_wait_and_ends_the_builds(bench, building):
    users = [User(building) for _ in range(2)]
    await turn_loop()
    await bench.pool.close()
    results = await asyncio.gather(*(user.task for user in users), return_exceptions=True)
    assert [type(result) for result in results] == [PoolClosed, PoolClosed]
    assert building.was_cancelled
    assert bench.names() == []


async def test_an_agent_is_built_in_the_context_of_the_one_who_asked(bench):
    run_id: ContextVar[str] = ContextVar("run_id", default="")
    seen = []

    async def build() -> FakeAgent:
        seen.append(run_id.get())
        return FakeAgent()

    async def run(name: str) -> None:
        run_id.set(name)
        async with bench.pool.use("alice", name, build):
            await asyncio.sleep(0)

    await asyncio.gather(run("first"), run("second"))
    assert seen == ["first", "second"]


async def test_an_entry_that_only_waits_for_one_who_is_leaving_has_no_agent_to_let_go(bench, building):
    """P9: in the very tick in which an agent went and the next in line was cancelled."""
    building.outcome.set_result(FakeAgent())
    using = bench.pool.use("alice", "s1", building.build)
    await using.__aenter__()
    waiting = User(building)
    await turn_loop()
    bench.pool.evict_when_free("alice", "fallback")
    waiting.task.cancel()
    await using.__aexit__(None, None, None)
    assert "alice" in bench.pool
    assert not await bench.pool.evict("alice")
    assert not await bench.pool.end("alice")
    assert not bench.pool.evict_when_free("alice", "reset")
    await turn_loop()
    assert "alice" not in bench.pool
