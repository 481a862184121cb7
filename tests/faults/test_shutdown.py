"""SIGTERM while runs are under way: the server leaves in good order, and the next start goes on with them."""

from tests.faults.calling import Caller, until
from tests.faults.databases import read_statuses
from tests.faults.promises import (
    check_conversation_goes_on,
    check_run,
    has_seen,
    read_effects,
    shown_text,
    tokens,
    tool_results,
    words_shown,
)
from tests.serving import Served


def three_calls(*names: str) -> str:
    """Of which the second never comes back."""
    tools = zip(("mark", "mark_and_hang", "mark"), names, strict=True)
    return " ".join(f'#tool={tool} {{"name": "{name}"}}' for tool, name in tools) + " #tokens=3"


async def test_a_shutdown_in_streams_and_tools_hands_everything_back(site: Served, caller: Caller) -> None:
    """T4, T5, R5: exit code 0, no traceback, nothing repeated, nothing executed twice."""
    site.start()
    stream = await caller.start("#tokens=60 #rate=60")
    behind = await caller.start("#tokens=2", conversation=stream.conversation_id)
    one_by_one = await caller.start(three_calls("a", "b", "c"), agent="sequential")
    at_once = await caller.start(three_calls("x", "y", "z"), agent="parallel")
    blocked = await caller.start('#tool=mark_and_block {"name": "thread"} #tokens=3', agent="sequential")
    effects = site.environment["EFFECTS_FILE"]
    await until(lambda: sorted(read_effects(effects)) == ["a", "b", "thread", "x", "y", "z"])
    seen = await caller.see(stream, words_shown(5))
    seen_at_once = await caller.see(at_once, has_seen("tool.completed", 2))
    assert site.stop() == 0
    assert set(read_statuses(site).values()) == {"queued"}
    site.start()

    found = await check_run(caller, stream, seen)
    assert (found["status"], found["output"]) == ("completed", tokens(60))
    assert shown_text(await caller.log(stream)) == tokens(60)
    assert (await check_run(caller, behind))["output"] == tokens(2)
    for run, names, before in ((one_by_one, "abc", ()), (at_once, "xyz", seen_at_once)):
        assert (await check_run(caller, run, before))["output"] == tokens(3)
        first, second, third = tool_results(await caller.messages(run))
        assert (first, third) == (f"marked {names[0]}", f"marked {names[2]}")
        assert second.startswith("Interrupted, outcome unknown")
        await check_conversation_goes_on(caller, run)
    assert (await check_run(caller, blocked))["status"] == "completed"
    assert sorted(read_effects(effects)) == ["a", "b", "c", "thread", "x", "y", "z"]
