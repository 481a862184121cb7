"""A stop that was accepted holds, whatever happens to the server in the next moment."""

import asyncio
import signal

import pytest

from tests.faults.calling import Caller, Gone, Started
from tests.faults.databases import read_statuses
from tests.faults.promises import check_conversation_goes_on, check_run, has_seen, tokens, words_shown
from tests.serving import Served

HANGING = '#tool=mark {"name": "a"} #tool=mark_and_hang {"name": "b"} #tool=mark {"name": "c"}'


async def stop_all_and(site: Served, number: signal.Signals, caller: Caller, runs: list[Started]) -> list[Started]:
    """Stop all of them at once, and signal the server as soon as it has said yes to one; those it said yes to."""
    accepted: list[Started] = []

    async def stop(run: Started) -> None:
        try:
            status = await caller.stop(run)
        except Gone:
            return
        assert status == 200
        accepted.append(run)
        site.process.send_signal(number)

    await asyncio.gather(*(stop(run) for run in runs))
    return accepted


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_stop_that_was_accepted_survives_the_servers_end(
    site: Served, caller: Caller, number: signal.Signals
) -> None:
    """R7, C2, C3, C6, C8"""
    site.start()
    streams = [await caller.start("#tokens=400 #rate=40") for _ in range(4)]
    tools = [await caller.start(HANGING, agent=agent) for agent in ("sequential", "parallel") * 2]
    queued = [await caller.start("#tokens=2", conversation=run.conversation_id) for run in streams[:2]]
    seen = {run: await caller.see(run, words_shown(3)) for run in streams}
    seen |= {run: await caller.see(run, has_seen("tool.completed")) for run in tools}
    accepted = await stop_all_and(site, number, caller, [*streams, *tools, *queued])
    assert accepted
    code = await asyncio.to_thread(site.process.wait, 20)
    assert code == (0 if number == signal.SIGTERM else -number)
    if number == signal.SIGTERM:
        statuses = read_statuses(site)
        assert {statuses[run.run_id] for run in accepted} == {"cancelled"}
        assert "running" not in statuses.values()
    await caller.restart()

    # What the server did not say yes to goes on; let it end as well.
    for run in {*streams, *tools, *queued} - {*accepted}:
        await caller.stop(run)
    for run in [*streams, *tools, *queued]:
        found = await check_run(caller, run, seen.get(run, []))
        if run in accepted:
            assert (found["status"], found["stop_reason"]) == ("cancelled", "cancelled")
            assert found["receipt"]["requested_by"] == "admin"
    for run in streams:
        said = [message for message in await caller.messages(run) if message["role"] == "assistant"]
        assert said[0]["partial"]
        assert tokens(400).startswith(said[0]["content"])
        assert len(said[0]["content"].split()) >= 3
    for run in [streams[0], tools[0], tools[1]]:
        await check_conversation_goes_on(caller, run)
