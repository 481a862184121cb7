"""Any sequence of what can happen to the agent pool, against a model that is too simple to be wrong (contract P)."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.gateway.test_pool import Bench, FakeAgent, turn_loop

CAPACITY = 3
IDLE_SECONDS = 60.0

conversations = st.sampled_from("abcdefg")
signatures = st.sampled_from(["s1", "s2"])


class Entry:
    def __init__(self, signature: str) -> None:
        self.signature = signature
        self.is_active = False
        self.used_at = 0.0
        self.evict_reason: str | None = None


class Model:
    """The definition of the excess, word by word, on a list."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.entries: dict[str, Entry] = {}
        self.building: set[str] = set()

    def touch(self, name: str, now: float) -> None:
        self.entries[name].used_at = now
        self.order = [other for other in self.order if other != name] + [name]

    def remove(self, name: str) -> None:
        self.order.remove(name)
        del self.entries[name]

    def enforce(self) -> None:
        excess = self.order[: max(0, len(self.order) + len(self.building) - CAPACITY)]
        for name in excess:
            if not self.entries[name].is_active:
                self.remove(name)


class PoolMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.bench = self.run(self.make_bench())
        self.model = Model()
        self.agents: list[FakeAgent] = []
        self.leaves: dict[str, asyncio.Event] = {}
        self.may_build: dict[str, asyncio.Event] = {}
        self.wanted: dict[str, str] = {}
        self.users: dict[str, asyncio.Task[None]] = {}
        self.held: dict[str, FakeAgent] = {}

    async def make_bench(self) -> Bench:
        return Bench(CAPACITY, IDLE_SECONDS)

    def run(self, awaitable):
        return self.loop.run_until_complete(awaitable)

    @property
    def now(self) -> float:
        return self.bench.clock.now

    @rule(name=conversations, signature=signatures)
    def begin_run(self, name, signature):
        if name in self.users:
            return

        async def build() -> FakeAgent:
            await self.may_build[name].wait()
            agent = FakeAgent(name)
            self.agents.append(agent)
            return agent

        async def use() -> None:
            async with self.bench.pool.use(name, signature, build) as agent:
                self.held[name] = agent
                await self.leaves[name].wait()

        async def begin() -> None:
            self.leaves[name], self.may_build[name] = asyncio.Event(), asyncio.Event()
            self.users[name] = asyncio.create_task(use())
            await turn_loop()

        entry = self.model.entries.get(name)
        if entry is not None and entry.signature == signature:
            entry.is_active = True
            self.model.touch(name, self.now)
        else:
            if entry is not None:
                self.model.remove(name)
            self.model.building.add(name)
            self.wanted[name] = signature
        self.model.enforce()
        self.run(begin())

    @precondition(lambda self: self.model.building)
    @rule(data=st.data())
    def finish_build(self, data):
        name = data.draw(st.sampled_from(sorted(self.model.building)))
        self.model.building.remove(name)
        entry = self.model.entries[name] = Entry(self.wanted.pop(name))
        entry.is_active = True
        self.model.touch(name, self.now)
        self.model.enforce()

        async def finish() -> None:
            self.may_build[name].set()
            await turn_loop()

        self.run(finish())

    @precondition(lambda self: self.model.building)
    @rule(data=st.data())
    def cancel_build(self, data):
        name = data.draw(st.sampled_from(sorted(self.model.building)))
        self.model.building.remove(name)
        self.model.enforce()
        self.cancel(name)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), by_cancellation=st.booleans())
    def end_run(self, data, by_cancellation):
        name = data.draw(st.sampled_from(sorted(self.held)))
        entry = self.model.entries[name]
        entry.is_active = False
        self.model.touch(name, self.now)
        if entry.evict_reason:
            self.model.remove(name)
        self.model.enforce()
        if by_cancellation:
            self.cancel(name)
            return

        async def end() -> None:
            self.leaves[name].set()
            await self.users.pop(name)
            await turn_loop()

        self.run(end())
        self.held.pop(name)

    def cancel(self, name: str) -> None:
        async def cancel() -> None:
            task = self.users.pop(name)
            task.cancel()
            await asyncio.wait([task])
            await turn_loop()

        self.run(cancel())
        self.held.pop(name, None)

    @rule(name=conversations)
    def evict(self, name):
        entry = self.model.entries.get(name)
        is_free = entry is not None and not entry.is_active
        assert self.run(self.bench.pool.evict(name)) == is_free
        if is_free:
            self.model.remove(name)

    @rule(name=conversations)
    def end_conversation(self, name):
        entry = self.model.entries.get(name)
        is_free = entry is not None and not entry.is_active
        assert self.run(self.bench.pool.end(name)) == is_free
        if is_free:
            self.model.remove(name)
        self.run(turn_loop())

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def evict_when_free(self, data):
        name = data.draw(st.sampled_from(sorted(self.held)))
        self.model.entries[name].evict_reason = "fallback"
        assert self.bench.pool.evict_when_free(name, "fallback")

    @rule(seconds=st.sampled_from([1.0, 20.0, 61.0]))
    def pass_time(self, seconds):
        self.bench.clock.now += seconds

    @rule()
    def sweep(self):
        expired = [
            name
            for name, entry in self.model.entries.items()
            if not entry.is_active and self.now - entry.used_at > IDLE_SECONDS
        ]
        for name in expired:
            self.model.remove(name)
        assert self.run(self.bench.pool.sweep()) == len(expired)

    @invariant()
    def pool_and_model_agree(self):
        entries = self.bench.pool.entries()
        assert [entry.conversation_id for entry in entries if not entry.is_building] == self.model.order
        assert {entry.conversation_id for entry in entries if entry.is_building} == self.model.building
        assert {entry.conversation_id for entry in entries if entry.is_active} == set(self.held)
        assert self.bench.pool.stats().active == len(self.held)

    @invariant()
    def exactly_the_agents_in_the_pool_have_their_clients(self):
        self.run(self.bench.pool.drain())
        assert all(agent.has_client and agent.has_task for agent in self.held.values())
        assert sorted(agent.conversation for agent in self.agents if agent.has_client) == sorted(self.model.order)

    def teardown(self):
        async def leave() -> None:
            for task in self.users.values():
                task.cancel()
            if self.users:
                await asyncio.wait(self.users.values())
            await self.bench.pool.close()

        self.run(leave())
        assert self.bench.names() == []
        assert not [agent for agent in self.agents if agent.has_client]
        self.loop.close()


PoolMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestPoolAgainstModel = PoolMachine.TestCase
