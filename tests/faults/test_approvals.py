"""Approvals over the death of the real server: who waits goes on waiting, what was decided is done, and once."""

import asyncio

from tests.faults.calling import Caller, Gone, Started
from tests.faults.promises import (
    check_conversation_goes_on,
    check_run,
    has_seen,
    read_effects,
    tokens,
    tool_results,
)
from tests.serving import Served


def call(name: str, tool: str = "mark_if_approved") -> str:
    return f'#tool={tool} {{"name": "{name}"}}'


async def decide(caller: Caller, run: Started, **answers: bool) -> int:
    """By the names of the marks, each once."""
    waiting = {
        each["arguments"]["name"]: each["tool_call_id"] for each in (await caller.look(run))["pending_approvals"]
    }
    decisions = [{"tool_call_id": waiting[name], "approve": approve} for name, approve in answers.items()]
    status, _ = await caller.ask("POST", f"/v1/runs/{run.run_id}/approvals", {"decisions": decisions})
    return status


async def test_a_waiting_run_outlives_the_server_and_what_was_decided_is_done_once(
    site: Served, caller: Caller
) -> None:
    """R14, T4: killed while it waits, between two decisions, and right after the last one."""
    site.start()
    effects = site.environment["EFFECTS_FILE"]
    text = f"{call('a', 'mark')} {call('b')} {call('c')} {call('d', 'mark')} {call('e')} #tokens=3"
    runs = [await caller.start(text, agent=agent) for agent in ("sequential", "parallel") * 2]
    seen = {run: await caller.see(run, has_seen("approval.requested", 3)) for run in runs}
    await caller.die_and_restart()
    for run in runs:
        assert (await caller.look(run))["status"] == "requires_approval"
        assert await decide(caller, run, c=False) == 202
    await caller.die_and_restart()
    accepted = []
    for run in runs:
        try:
            assert await decide(caller, run, b=True, e=True) == 202
        except Gone:
            break
        accepted.append(run)
        if len(accepted) == 3:
            await caller.kill()
    assert len(accepted) == 3
    await caller.restart()
    assert await decide(caller, runs[3], b=True, e=True) == 202
    for run in runs:
        assert (await check_run(caller, run, seen[run]))["output"] == tokens(3)
        first, second, third, fourth, fifth = tool_results(await caller.messages(run))
        assert first == "marked a"
        assert third == "Denied by admin. It was not executed."
        for name, result in (("b", second), ("d", fourth), ("e", fifth)):
            assert result == f"marked {name}" or result.startswith("Interrupted, outcome unknown")
    marks = read_effects(effects)
    assert "c" not in marks
    assert marks.count("a") == 4
    # A call whose outcome is unknown may have been killed before its mark; nothing else is missing.
    unknown = [
        result
        for run in runs
        for result in tool_results(await caller.messages(run))
        if result.startswith("Interrupted")
    ]
    assert 16 - len(unknown) <= len(marks) <= 16
    await check_conversation_goes_on(caller, runs[0])


async def test_a_run_that_was_stopped_while_it_waited_is_used_again_after_a_restart(
    site: Served, caller: Caller
) -> None:
    """C7, C8."""
    site.start()
    runs = [
        await caller.start(f"{call('a')} {call('b')} #tokens=3", agent=agent, stream_tokens=streams)
        for agent in ("sequential", "parallel")
        for streams in (True, False)
    ]
    for run in runs:
        await caller.see(run, has_seen("approval.requested", 2))
    await caller.die_and_restart()
    assert await asyncio.gather(*(caller.stop(run) for run in runs)) == [200] * 4
    await caller.die_and_restart()
    for run in runs:
        found = await check_run(caller, run)
        assert (found["status"], found["pending_approvals"]) == ("cancelled", [])
        results = tool_results(await caller.messages(run))
        assert len(results) == 2
        assert all(result.startswith("Denied: the run was stopped") for result in results)
        await check_conversation_goes_on(caller, run)
    status, listed = await caller.ask("GET", "/v1/approvals?status=pending")
    assert (status, listed["counts"]) == (200, {"pending": 0})
    assert read_effects(site.environment["EFFECTS_FILE"]) == []
