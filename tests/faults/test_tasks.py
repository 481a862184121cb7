"""What belongs to a conversation, on a real server: it survives its agent, dies with its conversation, and none of its
processes survives the server, however that ends."""

import asyncio
import json
import os
import signal
from typing import Any

import pytest

from tests.faults.calling import Caller, Started, until
from tests.faults.promises import tool_results
from tests.gateway.test_background import marked_under, marked_with
from tests.serving import Served

STUBBORN = "trap '' TERM; setsid sleep 1000 & (setsid sleep 1000 &); echo ready; while :; do sleep 1; done"


def call(tool: str, **arguments: Any) -> str:
    return f"#tool={tool} {json.dumps(arguments)}"


async def ask(caller: Caller, words: str, conversation: str | None = None) -> tuple[Started, list[str]]:
    """A run to its end, and what its tools answered."""
    place = {"conversation": conversation} if conversation else {}
    run = await caller.start(f"{words} #tokens=1", agent="tasks", **place)
    await caller.log(run)
    found = await caller.look(run)
    assert found["status"] == "completed", found
    messages = [message for message in await caller.messages(run) if message["run_id"] == run.run_id]
    return run, tool_results(messages)


@pytest.fixture
def tasks_site(site: Served) -> Served:
    """A site whose agent `tasks` has files and processes, and that forgets idle agents soon."""
    site.environment |= {
        "AGENTSITE_BACKGROUND_COMMANDS": "stubborn=/bin/sh -c *",
        "AGENTSITE_BACKGROUND_GRACE_SECONDS": "0.5",
        "AGENTSITE_POOL_IDLE_SECONDS": "0.1",
        "AGENTSITE_UNDO_SECONDS": "1",
    }
    site.start()
    tools = ["write_file", "read_file", "list_files", "start_process", "check_process", "end_process"]
    script = (
        "from runs import actions; from runs.models import Agent, Provider; "
        f"actions.save_agent(Agent(slug='tasks', name='Tasks', provider=Provider.objects.get(kind='demo'), "
        f"model='demo', tools={tools!r}))"
    )
    made = site.manage("shell", "-c", script)
    assert made.returncode == 0, made.stderr
    return site


async def pool_is_empty(caller: Caller) -> bool:
    status, answer = await caller.ask("GET", "/v1/pool")
    assert status == 200, answer
    return [pool["size"] for pool in answer["data"]] == [0]


async def begin(caller: Caller, site: Served) -> Started:
    """A conversation with a file and a process that does not want to end."""
    write = call("write_file", path="plan.txt", content="mine")
    start = call("start_process", command="stubborn", arguments=[STUBBORN])
    run, (written, started) = await ask(caller, f"{write} {start}")
    assert written == "Written: plan.txt, 4 bytes."
    assert started.startswith("Started as p1")
    await until(lambda: len(marked_under(site.data)) >= 4)
    return run


async def test_files_and_process_are_there_after_an_idle_eviction(tasks_site: Served, caller: Caller) -> None:
    """P7, P8, P10: resumed by another agent."""
    run = await begin(caller, tasks_site)
    await until(lambda: pool_is_empty(caller))
    _, (text, state) = await ask(
        caller, f"{call('read_file', path='plan.txt')} {call('check_process', id='p1')}", run.conversation_id
    )
    assert text == "mine"
    assert " runs since " in state
    assert state.endswith("ready\n")

    status, answer = await caller.ask("DELETE", f"/v1/conversations/{run.conversation_id}")
    assert status == 200, answer
    # After the undo time both go, and nothing is left behind.
    await until(lambda: not (tasks_site.data / "files" / run.conversation_id).exists())
    assert marked_under(tasks_site.data) == []
    assert not (tasks_site.data / "background" / run.conversation_id).exists()


async def test_a_killed_server_leaves_no_process_and_keeps_the_files(tasks_site: Served, caller: Caller) -> None:
    """P8: `kill -9` of the server alone; nobody tells the processes."""
    run = await begin(caller, tasks_site)
    await caller.kill()
    await until(lambda: marked_under(tasks_site.data) == [])
    await caller.restart()
    _, (text, state) = await ask(
        caller, f"{call('read_file', path='plan.txt')} {call('check_process', id='p1')}", run.conversation_id
    )
    assert text == "mine"
    assert "was ended because the server ended" in state


@pytest.mark.expects_log("background processes of a worker that is gone were ended")
async def test_what_survived_a_kill_of_server_and_keeper_is_ended_at_the_next_start(
    tasks_site: Served, caller: Caller
) -> None:
    """P8: cleaned at the next start."""
    await begin(caller, tasks_site)
    keepers = marked_with(tasks_site.data, b"keeper.py")
    tasks_site.process.send_signal(signal.SIGSTOP)
    for keeper in keepers:
        os.kill(keeper, signal.SIGKILL)
    await caller.kill()
    assert len(marked_under(tasks_site.data)) >= 2, "children that left the command's group"
    await caller.restart()
    await until(lambda: marked_under(tasks_site.data) == [])


async def test_a_server_that_ends_in_good_order_ends_its_processes(tasks_site: Served, caller: Caller) -> None:
    """P8"""
    await begin(caller, tasks_site)
    assert await asyncio.to_thread(tasks_site.stop) == 0
    assert marked_under(tasks_site.data) == []
