"""Stop while approvals wait, and when decisions come at the same moment (C7 and what it must leave behind)."""

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.messages import Message as Said
from runs import actions
from runs.actions import Decision, Refused
from runs.database import in_reader
from runs.models import Run
from runs.models.approvals import DENIED_BY_STOP
from tests.runs.emails import email, letter
from tests.runs.moments import ELSEWHERE, IN_WORK, Moments
from tests.runs.test_stop import goes_on, hold_before_the_last_write, stop_when_held, stopped
from tests.scripted import Gate, call


async def answers(stage, run: Run) -> dict[str | None, str]:
    return {said.tool_call_id: said.text for said in await stage.messages(run) if said.role == "tool"}


@pytest.mark.parametrize("is_streaming", [True, False])
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_stop_denies_every_call_that_waits_and_the_conversation_goes_on(
    working, is_streaming: bool, is_restarted: bool
) -> None:
    """C7, C8, C9, C12: in token mode, in whole-message mode, and after a restart."""
    working.script(["Three letters.", email("ada"), email("bob"), email("eve")])
    run = await working.waiting(await working.submit(has_token_streaming=is_streaming), calls=3)
    ended = await working.stop(run, by="charlie", via="console")
    assert ended.status == "cancelled", "in that very transaction"
    run = await stopped(working, run)
    assert await answers(working, run) == dict.fromkeys(("ada", "bob", "eve"), DENIED_BY_STOP)
    for approval in await working.approvals(run):
        assert (approval.status, approval.decided_by, approval.decided_via) == ("stopped", "charlie", "stop")
    decided = [event for event in await working.events(run) if event["type"] == "approval.decided"]
    assert [event["tool_call_id"] for event in decided] == ["ada", "bob", "eve"]
    assert {(event["decision"], event["decided_via"]) for event in decided} == {("denied", "stop")}
    assert run.receipt["tools_not_started"] == ["send_email"] * 3
    assert (run.output, run.receipt["kept_words"], run.receipt["kept_characters"]) == ("Three letters.", 2, 14)
    assert (run.receipt["requested_by"], run.receipt["requested_via"]) == ("charlie", "console")
    assert run.receipt["ended_ms"] >= 0
    if is_restarted:
        await working.stop_worker()
        await working.start_worker()
    await goes_on(working, run)
    assert await working.outbox() == []


async def test_a_stop_of_a_waiting_run_needs_no_worker(working) -> None:
    """C7."""
    working.script(["", email("ada")])
    run = await working.waiting(await working.submit())
    await working.stop_worker()
    await working.stop(run)
    await stopped(working, run)
    assert await answers(working, run) == {"ada": DENIED_BY_STOP}


async def test_a_decision_after_the_stop_is_refused_and_executes_nothing(working) -> None:
    """C7."""
    working.script(["", email("ada")])
    run = await working.waiting(await working.submit())
    await working.stop(run)
    with pytest.raises(Refused) as refusal:
        await working.approve(run, "ada")
    assert (refusal.value.status, refusal.value.code) == (409, "not_awaiting_approval")
    assert "stopped" in refusal.value.message
    run = await stopped(working, run)
    assert await in_reader(actions.claim_runs, "somebody", 10) == []
    assert await working.outbox() == []
    await goes_on(working, run)


async def test_a_stop_keeps_what_was_decided_before_it(working) -> None:
    """C7, C12: denied stays denied with its reason, approved was not executed, the rest is denied by the stop."""
    note = call("remember", {"key": "k", "text": "t"}, id="note")
    working.script(["", note, email("ada"), email("bob"), email("eve"), call("recall", id="last")])
    run = await working.waiting(await working.submit(), calls=3)
    await working.deny(run, "ada", reason="No.")
    await working.approve(run, "bob")
    await working.stop(run)
    run = await stopped(working, run)
    found = await answers(working, run)
    assert list(found) == ["note", "ada", "bob", "eve", "last"]
    assert found["ada"] == "Denied by alice. It was not executed. Reason: No."
    assert found["bob"] == found["last"] == "Not executed: the run ended before this call started."
    assert found["eve"] == DENIED_BY_STOP
    assert [approval.status for approval in await working.approvals(run)] == ["denied", "approved", "stopped"]
    assert run.receipt["tools_finished"] == ["remember"]
    assert sorted(run.receipt["tools_not_started"]) == ["recall", "send_email", "send_email", "send_email"]
    await goes_on(working, run)


async def test_a_stop_after_the_last_decision_and_before_a_worker_took_it(working) -> None:
    """C5, C7: decided, but not executed."""
    working.script(["", email("ada"), email("bob")])
    run = await working.waiting(await working.submit(), calls=2)
    await working.stop_worker()
    await working.approve(run, "ada")
    await working.deny(run, "bob")
    await working.stop(run)
    run = await stopped(working, run)
    found = await answers(working, run)
    assert found["ada"].startswith("Not executed")
    assert found["bob"].startswith("Denied by alice")
    await working.start_worker()
    await goes_on(working, run)
    assert await working.outbox() == []


async def test_a_stop_that_comes_while_the_worker_is_about_to_ask_leaves_nobody_waiting(working, monkeypatch) -> None:
    """C7, C9: the run ends in the transaction in which it would have begun to wait."""
    gate = await hold_before_the_last_write(monkeypatch)
    working.script(["May I?", email("ada"), email("bob")])
    run = await working.submit()
    await gate.reached.wait()
    await working.stop(run)
    gate.open()
    run = await stopped(working, run)
    assert await answers(working, run) == dict.fromkeys(("ada", "bob"), DENIED_BY_STOP)
    assert [approval.status for approval in await working.approvals(run)] == ["stopped", "stopped"]
    assert run.output == "May I?"
    await goes_on(working, run)


async def test_a_shutdown_while_the_worker_is_about_to_ask_asks_once(working, monkeypatch) -> None:
    """T4: handed back or asked, and after the restart it waits."""
    gate = await hold_before_the_last_write(monkeypatch)
    working.script(["May I?", email("ada")], "done")
    run = await working.submit()
    await gate.reached.wait()
    leaving = asyncio.create_task(working.stop_worker())
    await working.until(lambda: working.worker._closing.is_set())
    gate.open()
    await leaving
    monkeypatch.undo()
    monkeypatch.setattr("runs.assembly.make_provider", lambda provider: working.provider)
    await working.start_worker()
    await working.waiting(run)
    await working.approve(run, "ada")
    run = await working.ended(run)
    await working.check(run)
    assert (run.status, await working.outbox()) == ("completed", ["ada@example.com"])


async def test_a_stop_in_an_approved_tool_interrupts_it_and_tells_of_the_edit(working) -> None:
    """C6, C12."""
    begun = asyncio.Event()

    async def endless(arguments, context):
        begun.set()
        await asyncio.Event().wait()

    working.change_tool("send_email", function=endless)
    working.script(["Just three words.", call("recall", id="first"), email("ada"), email("bob")])
    run = await working.waiting(await working.submit(), calls=2)
    await working.decide(run, Decision("ada", True, arguments=letter("eve")), Decision("bob", True))
    await begun.wait()
    await working.stop(run)
    run = await stopped(working, run)
    found = await answers(working, run)
    assert found["ada"].startswith("Interrupted")
    assert "eve@example.com" in found["ada"]
    assert found["bob"].startswith("Not executed")
    assert run.receipt["tools_finished"] == ["recall"], "what an earlier attempt did counts too"
    assert (run.receipt["kept_words"], run.output) == (3, "Just three words.")
    assert (run.receipt["tools_interrupted"], run.receipt["tools_not_started"]) == (["send_email"], ["send_email"])
    await goes_on(working, run)


async def test_a_decision_and_a_stop_at_the_same_instant(working) -> None:
    """C7, R14: exactly one wins, and the loser is told."""
    for _ in range(15):
        working.script(["", email("ada")], "done")
        run = await working.waiting(await working.submit())
        results: Any = await asyncio.gather(working.deny(run, "ada"), working.stop(run), return_exceptions=True)
        decision, stop = results
        run = await working.ended(run)
        await working.check(run)
        [approval] = await working.approvals(run)
        if isinstance(decision, Refused):
            assert (decision.status, decision.code) == (409, "not_awaiting_approval")
            assert (run.status, approval.status) == ("cancelled", "stopped")
            assert await answers(working, run) == {"ada": DENIED_BY_STOP}
        else:
            assert approval.status == "denied"
            assert (run.status == "completed") == isinstance(stop, Refused)
            assert (await answers(working, run))["ada"].startswith("Denied by alice")


async def test_a_second_stop_of_a_run_that_waited_is_refused(working) -> None:
    """C10, R9."""
    working.script(["", email("ada")])
    run = await working.waiting(await working.submit())
    await working.stop(run)
    with pytest.raises(Refused) as refusal:
        await working.stop(run)
    assert refusal.value.code == "run_not_active"
    await stopped(working, run)


async def test_inputs_that_wait_behind_a_stopped_approval_take_their_turn(working) -> None:
    """R16, C8."""
    gate = Gate()
    working.script([gate, email("ada")], "behind")
    run = await working.submit("1")
    await gate.reached.wait()
    behind = await working.submit("2", conversation=run.conversation)
    gate.open()
    await working.waiting(run)
    await working.stop(run)
    behind = await working.ended(behind)
    await working.check(behind)
    assert behind.status == "completed"
    assert [said.role for said in await working.messages(run)] == ["user", "assistant", "tool", "user", "assistant"]


# -- any script, any decisions, a stop or a restart at any moment

items = st.sampled_from(
    [
        "text",
        ("send_email", letter("ada")),
        ("send_email", letter("ada")),
        ("send_email", letter("eve")),
        ("send_email", {"to": "nobody"}),
        ("current_time", {}),
        ("wait", {"seconds": 0}),
        ("nobody", {}),
    ]
)
decisions = st.lists(st.sampled_from(["approve", "edit", "deny"]), min_size=1, max_size=6)


@given(
    script=st.lists(st.lists(items, min_size=1, max_size=4), min_size=1, max_size=3),
    choices=decisions,
    moment=st.tuples(st.sampled_from((*IN_WORK, *ELSEWHERE, "decision", "end")), st.sampled_from((1, 1, 2, 3, 5))),
    parallel=st.booleans(),
    streaming=st.booleans(),
)
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
async def test_any_decisions_and_a_stop_at_any_moment_leave_the_promises_kept(
    property_stage,
    moments: Moments,
    script,
    choices: list[str],
    moment: tuple[str, int],
    parallel: bool,
    streaming: bool,
) -> None:
    """C2, C7, C8, C9, T3: nobody is left waiting, every e-mail that was sent was approved, and sent once."""
    stage = property_stage
    await stage.change_agent(has_parallel_tools=parallel)
    before = len(await stage.outbox())
    stage.script(*[[call(*item) if isinstance(item, tuple) else item for item in answer] for answer in script])
    moments.hold_at(*moment)
    run = await stage.submit(has_token_streaming=streaming, max_steps=4)
    deciding = asyncio.create_task(decide_whatever_waits(stage, run, choices, moments))
    run, was_stopped = await stop_when_held(stage, run, moments)
    await deciding
    await stage.check(run)
    assert (run.status == "cancelled") == was_stopped
    approved = [approval for approval in await stage.approvals(run) if approval.status == "approved"]
    sent = (await stage.outbox())[before:]
    assert len(sent) <= len(approved)
    if not was_stopped:
        assert sorted(sent) == sorted(approval.decided_arguments["to"] for approval in approved)
    await goes_on(stage, run)


async def decide_whatever_waits(stage, run: Run, choices: list[str], moments: Moments) -> None:
    """One call after another, as somebody does who looks now and then, until the run has ended."""
    count = 0
    while (await stage.fresh(run)).is_active:
        for approval in await stage.approvals(run):
            if approval.status != "pending":
                continue
            choice = choices[count % len(choices)]
            count += 1
            edited = letter("bob") if choice == "edit" else None
            await moments.pass_by("decision")
            with contextlib.suppress(Refused):
                await stage.decide(run, Decision(approval.tool_call_id, choice != "deny", edited))


async def test_the_text_of_the_denial_is_one_constant(working) -> None:
    """C7: the model reads the same words, whoever stopped and whenever."""
    assert DENIED_BY_STOP == "Denied: the run was stopped while this call waited for approval. It was not executed."
    working.script(["", email("ada")])
    run = await working.waiting(await working.submit())
    await working.stop(run)
    answer = (await working.messages(run))[-1]
    assert answer == Said("tool", DENIED_BY_STOP, tool_call_id="ada", name="send_email")
