"""`kill -9` while the model speaks: the run goes on after the restart, and nobody notices more than a pause."""

from tests.faults.calling import Caller
from tests.faults.promises import (
    check_conversation_goes_on,
    check_run,
    has_seen,
    shown_text,
    tokens,
    words_shown,
)
from tests.serving import Served


async def test_a_run_that_is_killed_again_and_again_goes_on_and_repeats_no_word(site: Served, caller: Caller) -> None:
    """T4, T5, R5, C2, C8: before the first word, after the first, and in the middle."""
    site.start()
    run = await caller.start("#tokens=60 #rate=60")
    silent = await caller.start("#ttft=1 #tokens=3")
    seen = [await caller.see(run, words_shown(1))]
    seen_of_silent = await caller.see(silent, has_seen("run.started"))
    await caller.die_and_restart()
    seen.append(await caller.see(run, words_shown(20)))
    await caller.die_and_restart()

    found = await check_run(caller, run)
    assert (found["status"], found["output"], found["attempt"]) == ("completed", tokens(60), 3)
    log = await caller.log(run)
    assert all(log[: len(before)] == before for before in seen)
    assert shown_text(log) == tokens(60)
    assert [message["content"] for message in await caller.messages(run)][1:] == [tokens(60)]
    await check_conversation_goes_on(caller, run)
    assert (await check_run(caller, silent, seen_of_silent))["output"] == tokens(3)


async def test_runs_that_wait_behind_a_killed_one_come_after_it_in_order(site: Served, caller: Caller) -> None:
    """T4, R16, C8: one of them is stopped while it waits, and its input still stands where its turn was."""
    site.start()
    first = await caller.start("#tokens=40 #rate=40")
    stopped, waiting = [await caller.start(f"#tokens={count}", conversation=first.conversation_id) for count in (2, 3)]
    whole = await caller.start("#tokens=40 #rate=40", stream_tokens=False)
    thoughtful = await caller.start("#reasoning=5 #tokens=30 #rate=30")
    seen = await caller.see(first, words_shown(3))
    seen_of_thoughtful = await caller.see(thoughtful, words_shown(1))
    assert await caller.stop(stopped) == 200
    await caller.die_and_restart()

    assert (await check_run(caller, first, seen))["output"] == tokens(40)
    assert (await check_run(caller, stopped))["status"] == "cancelled"
    assert (await check_run(caller, waiting))["output"] == tokens(3)
    said = [(message["role"], message["content"]) for message in await caller.messages(first)]
    assert said == [
        ("user", "#tokens=40 #rate=40"),
        ("assistant", tokens(40)),
        ("user", "#tokens=2"),
        ("user", "#tokens=3"),
        ("assistant", tokens(3)),
    ]
    await check_conversation_goes_on(caller, first)

    # Without token streaming nothing of the answer that was cut is shown (C4); thoughts are shown once.
    assert (await check_run(caller, whole))["output"] == tokens(40)
    assert shown_text(await caller.log(whole)) == ""
    assert (await check_run(caller, thoughtful, seen_of_thoughtful))["output"] == tokens(30)
    log = await caller.log(thoughtful)
    assert shown_text(log, "reasoning.delta") == "".join(f"think{number} " for number in range(5))
    assert shown_text(log) == tokens(30)
