"""`kill -9` while a tool with an effect runs: nothing that was done is done again, nothing that was stored is lost."""

from tests.faults.calling import Caller, until
from tests.faults.promises import (
    check_conversation_goes_on,
    check_run,
    has_seen,
    read_effects,
    tokens,
    tool_results,
)
from tests.serving import Served

KILLED = -9


def call(tool: str, name: str) -> str:
    return f'#tool={tool} {{"name": "{name}"}}'


def is_interrupted(result: str) -> bool:
    return result.startswith("Interrupted, outcome unknown")


async def test_a_kill_in_a_tool_repeats_no_effect_and_keeps_every_result(site: Served, caller: Caller) -> None:
    """T1, T2, T3, T4: one after another and in parallel."""
    site.start()
    one_by_one = await caller.start(
        f"{call('mark', 'a')} {call('mark_and_hang', 'b')} {call('mark', 'c')} #tokens=3", agent="sequential"
    )
    # The first two hang, so that the one result there is stands behind calls without any.
    at_once = await caller.start(
        f"{call('mark_and_hang', 'x')} {call('mark_and_hang', 'y')} {call('mark', 'z')} #tokens=3", agent="parallel"
    )
    effects = site.environment["EFFECTS_FILE"]
    await until(lambda: sorted(read_effects(effects)) == ["a", "b", "x", "y", "z"])
    seen = await caller.see(one_by_one, has_seen("tool.started", 2))
    seen_at_once = await caller.see(at_once, has_seen("tool.completed"))
    await caller.die_and_restart()

    assert (await check_run(caller, one_by_one, seen))["output"] == tokens(3)
    first, second, third = tool_results(await caller.messages(one_by_one))
    assert (first, third) == ("marked a", "marked c")
    assert is_interrupted(second)

    assert (await check_run(caller, at_once, seen_at_once))["output"] == tokens(3)
    first, second, third = tool_results(await caller.messages(at_once))
    assert third == "marked z"
    assert is_interrupted(first)
    assert is_interrupted(second)
    assert sorted(read_effects(effects)) == ["a", "b", "c", "x", "y", "z"]
    await check_conversation_goes_on(caller, one_by_one)
    await check_conversation_goes_on(caller, at_once)


async def test_a_tool_that_kills_its_process_is_survived_but_not_for_ever(site: Served, caller: Caller) -> None:
    """T4, E1: once is survived; a run that takes its worker along every time ends as `worker_lost`."""
    site.environment["AGENTSITE_MAX_ATTEMPTS"] = "2"
    site.start()
    run = await caller.start(
        f"{call('mark', 'a')} {call('mark_and_die', 'b')} {call('mark', 'c')} #tokens=3", agent="sequential"
    )
    behind = await caller.start("#tokens=1", conversation=run.conversation_id)
    assert await caller.found_dead() == KILLED
    await caller.restart()
    assert (await check_run(caller, run))["output"] == tokens(3)
    first, second, third = tool_results(await caller.messages(run))
    assert (first, third) == ("marked a", "marked c")
    assert is_interrupted(second)
    assert (await check_run(caller, behind))["output"] == tokens(1)
    effects = site.environment["EFFECTS_FILE"]
    assert read_effects(effects) == ["a", "b", "c"]

    deadly = await caller.start(
        f"{call('die_and_mark', 'd')} {call('mark_and_die', 'e')} {call('mark', 'f')}", agent="sequential"
    )
    assert await caller.found_dead() == KILLED
    caller.site.launch()  # it may be dead again before anybody could see it up
    assert await caller.found_dead() == KILLED
    await caller.restart()
    found = await check_run(caller, deadly)
    assert (found["status"], found["error"]["error_type"]) == ("failed", "worker_lost")
    first, second, third = tool_results(await caller.messages(deadly))
    assert is_interrupted(first)
    assert is_interrupted(second)
    assert third.startswith("Not executed")
    assert read_effects(effects) == ["a", "b", "c", "e"]
    await check_conversation_goes_on(caller, deadly)
