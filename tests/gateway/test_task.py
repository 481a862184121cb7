"""Soft and hard (contract P8): what an agent owns, what its conversation owns, and who finds what afterwards."""

import shutil
from pathlib import Path

import pytest

from gateway.agent import Agent, AgentSetup, Fallback
from gateway.pool import AgentPool
from gateway.task import Tasks
from tests.gateway.test_background import make_tasks, marked_under
from tests.scripted import ScriptedProvider


class Bench:
    """A pool of real agents, each with a client of its own, for conversations with tasks."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        self.pool: AgentPool[Agent] = AgentPool(capacity=2, idle_seconds=60)
        self.providers: list[ScriptedProvider] = []

    async def use(self, conversation_id: str) -> Agent:
        async def build() -> Agent:
            first, second = ScriptedProvider(), ScriptedProvider()
            self.providers += [first, second]
            return Agent(AgentSetup("first"), first, {}, self.tasks.of(conversation_id), Fallback("second", second))

        async with self.pool.use(conversation_id, "signature", build) as agent:
            return agent


@pytest.mark.parametrize("way", ["evict", "capacity", "reset"])
async def test_the_next_agent_finds_the_files_and_the_running_process(tmp_path: Path, way: str) -> None:
    """P8, P10: eviction closes the clients and nothing else."""
    tasks = make_tasks(tmp_path)
    bench = Bench(tasks)
    agent = await bench.use("conv_1")
    agent.task.files.write("plan.txt", "mine")
    await agent.task.processes.start("countdown", ["1000"])
    match way:
        case "evict":
            assert await bench.pool.evict("conv_1")
        case "reset":
            assert bench.pool.evict_when_free("conv_1", "reset")
        case "capacity":
            await bench.use("conv_2")
            await bench.use("conv_3")
    await bench.pool.drain()
    assert all(provider.is_closed for provider in bench.providers[:2]), "both of its clients"
    again = await bench.use("conv_1")
    assert again is not agent
    assert again.task.files.read("plan.txt") == "mine"
    assert [state.is_running for state in await again.task.processes.states()] == [True]
    await tasks.close()


async def test_the_end_of_the_conversation_ends_both(tmp_path: Path) -> None:
    """P8: hard, and done when it returns."""
    tasks = make_tasks(tmp_path)
    bench = Bench(tasks)
    agent = await bench.use("conv_1")
    agent.task.files.write("plan.txt", "mine")
    await agent.task.processes.start("countdown", ["1000"])
    assert await bench.pool.end("conv_1")
    assert all(provider.is_closed for provider in bench.providers)
    assert agent.task.files.entries() == []
    assert await agent.task.processes.states() == []
    await tasks.close()


async def test_a_process_is_here_also_where_another_worker_has_removed_its_record(tmp_path: Path) -> None:
    """P8: workers may share a disk, and each has its own processes."""
    tasks = make_tasks(tmp_path)
    task = tasks.of("conv_1")
    assert not task.is_here
    await task.processes.start("countdown", ["1000"])
    shutil.rmtree(task.processes.directory)
    task.files.remove()
    assert tasks.of("conv_1").is_here
    assert not tasks.of("conv_2").is_here
    await task.end()
    assert marked_under(tmp_path) == []
    await tasks.close()


async def test_a_client_that_cannot_be_closed_keeps_no_task_alive(tmp_path: Path) -> None:
    """P8"""

    class Broken(ScriptedProvider):
        async def close(self) -> None:
            raise ConnectionError

    tasks = make_tasks(tmp_path)
    agent = Agent(AgentSetup("model"), Broken(), {}, tasks.of("conv_1"))
    agent.task.files.write("plan.txt", "mine")
    with pytest.raises(ConnectionError):
        await agent.close()
    assert agent.task.files.entries() == []
