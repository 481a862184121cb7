"""Waiting for days: over restarts and crashes, and what happens when nobody decides."""

import asyncio
from datetime import timedelta

import pytest
from django.utils import timezone

from gateway.outcomes import NeedsApproval
from runs import actions, assembly
from runs.actions import Decision, Refused, approvals
from runs.database import in_reader, in_writer
from runs.execution import Execution
from runs.journal import RunJournal
from runs.models import Approval, Run
from tests.factories import waiting_run
from tests.runs.emails import email, letter
from tests.runs.test_approval_stop import answers
from tests.runs.test_stop import goes_on
from tests.scripted import Gate, call


async def completed(stage, run: Run) -> Run:
    run = await stage.ended(run)
    await stage.check(run)
    assert (run.status, run.stop_reason) == ("completed", "end_turn")
    return run


async def pass_the_time(run: Run, **fields: object) -> None:
    past = timezone.now() - timedelta(seconds=1)
    await in_writer(lambda: Approval.objects.filter(run=run, status="pending").update(expires_at=past, **fields))


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_a_run_waits_over_restarts_and_can_be_decided_without_a_worker(working, is_streaming: bool) -> None:
    """R14, T4."""
    working.script(["May I?", email("ada")], "done")
    run = await working.waiting(await working.submit(has_token_streaming=is_streaming))
    await working.stop_worker()
    await working.start_worker()
    assert (await working.fresh(run)).status == "requires_approval"
    await working.stop_worker()
    await working.approve(run, "ada")
    assert (await working.fresh(run)).status == "queued"
    await working.start_worker()
    run = await completed(working, run)
    assert (run.output, await working.outbox()) == ("done", ["ada@example.com"])
    await goes_on(working, run)


async def test_a_worker_that_dies_between_the_decision_and_the_execution_loses_nothing(working, monkeypatch) -> None:
    """T4: the decision stands, and the call executes once."""
    working.script(["", email("ada")], "done")
    run = await working.waiting(await working.submit())
    gate = Gate()
    flush = RunJournal.flush

    async def held(journal) -> None:
        await gate.wait()
        await flush(journal)

    monkeypatch.setattr(RunJournal, "flush", held)
    await working.decide(run, Decision("ada", True, arguments=letter("bob")))
    await gate.reached.wait()  # taken, and about to store that the call starts
    await working.lose_worker(run)
    monkeypatch.setattr(RunJournal, "flush", flush)
    await working.start_worker()
    run = await completed(working, run)
    gate.open()
    await working.thaw()
    assert await working.outbox() == ["bob@example.com"]
    assert run.attempt == 3


async def test_a_worker_that_dies_in_an_approved_call_leaves_its_outcome_unknown(working) -> None:
    """T4: as with any tool that may not be repeated; no second question, no second e-mail."""
    begun = asyncio.Event()
    send = working.worker.registry.get("send_email").function

    async def sends_and_hangs(arguments, context):
        await send(arguments, context)
        begun.set()
        await asyncio.Event().wait()

    working.change_tool("send_email", function=sends_and_hangs)
    working.script(["", email("ada"), call("recall", id="next")], "done")
    run = await working.waiting(await working.submit())
    await working.decide(run, Decision("ada", True, arguments=letter("bob")))
    await begun.wait()
    await working.lose_worker(run)
    await working.start_worker()
    run = await completed(working, run)
    found = await answers(working, run)
    assert found["ada"].startswith("Interrupted, outcome unknown")
    assert "bob@example.com" in found["ada"], "the model knows what may have happened"
    assert list(found) == ["ada", "next"]
    assert await working.outbox() == ["bob@example.com"]
    assert len(await working.approvals(run)) == 1


async def test_a_worker_that_dies_before_it_asked_is_replaced_by_one_that_asks(working, monkeypatch) -> None:
    """T1, T4: the call is stored, so the model is not asked again."""
    gate = Gate()
    leave = RunJournal.leave

    async def held(journal, decide) -> None:
        await gate.wait()
        await leave(journal, decide)

    monkeypatch.setattr(RunJournal, "leave", held)
    working.script(["May I?", email("ada")], "done")
    run = await working.submit()
    await gate.reached.wait()
    await working.lose_worker(run)
    monkeypatch.setattr(RunJournal, "leave", leave)
    await working.start_worker()
    run = await working.waiting(run)
    assert len(working.provider.requests) == 1
    await working.approve(run, "ada")
    await completed(working, run)
    gate.open()
    await working.thaw()
    assert await working.outbox() == ["ada@example.com"]


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_run_that_cannot_go_on_after_its_decision_leaves_no_call_unanswered(
    working, monkeypatch, is_stopped: bool
) -> None:
    """E1, C8, C12: for example because its provider was changed meanwhile to one that cannot be built."""
    working.script(["May I?", email("ada"), email("bob")])
    run = await working.waiting(await working.submit(), calls=2)
    await working.stop_worker()
    await working.deny(run, "bob")
    await working.approve(run, "ada")
    gate = Gate()
    signature_of = assembly.signature_of

    def refuse(*parts: object) -> str:
        raise RuntimeError("No such provider.")

    async def held(execution: Execution, error: Exception) -> None:
        await gate.wait()
        await fail(execution, error)

    fail = Execution.fail
    monkeypatch.setattr(Execution, "fail", held)
    monkeypatch.setattr(assembly, "signature_of", refuse)
    await working.start_worker()
    await gate.reached.wait()
    if is_stopped:
        await working.stop(run)
    gate.open()
    run = await working.ended(run)
    await working.check(run)
    assert (run.status, run.output) == ("cancelled" if is_stopped else "failed", "May I?")
    found = await answers(working, run)
    assert found["ada"] == "Not executed: the run ended before this call started."
    assert found["bob"].startswith("Denied by alice")
    if is_stopped:
        assert run.receipt["tools_not_started"] == ["send_email", "send_email"]
    else:
        assert (run.error["error_type"], run.error["message"]) == ("internal_error", "No such provider.")
    monkeypatch.setattr(assembly, "signature_of", signature_of)
    await goes_on(working, run)


async def test_a_decision_in_the_moment_in_which_the_worker_lets_go_is_taken_up(working, monkeypatch) -> None:
    """R14, C1: the same run is in this worker's hands twice for a moment. The old one must not drop the new one, which
    would then hear of no stop and have no lease."""
    letting_go, in_tool = Gate(), Gate()
    leave = Execution._leave

    async def lingering(execution, outcome) -> bool:
        is_written = await leave(execution, outcome)
        if isinstance(outcome, NeedsApproval):
            await letting_go.wait()
        return is_written

    async def gated(arguments, context) -> str:
        await in_tool.wait()
        return "sent"

    monkeypatch.setattr(Execution, "_leave", lingering)
    working.change_tool("send_email", function=gated)
    working.script(["", email("ada")], "done")
    run = await working.submit()
    await letting_go.reached.wait()
    old = working.worker.executions[run.pk]
    await working.approve(run, "ada")
    await working.until(lambda: working.worker.executions[run.pk] is not old)
    letting_go.open()
    await in_tool.reached.wait()
    assert run.pk in working.worker.executions
    await working.stop(run)
    run = await working.ended(run)
    await working.check(run)
    assert run.status == "cancelled"


# -- when nobody decides


async def test_what_nobody_decides_on_in_time_is_denied_and_the_run_goes_on(working) -> None:
    """R14."""
    working.script(["", email("ada"), email("bob")], "Nobody answered.")
    run = await working.waiting(await working.submit(), calls=2)
    await working.approve(run, "bob")
    await pass_the_time(run)
    run = await completed(working, run)
    found = await answers(working, run)
    assert found["ada"] == "Denied: nobody decided on this call before it expired. It was not executed."
    assert await working.outbox() == ["bob@example.com"]
    [ada, bob] = await working.approvals(run)
    assert (ada.status, ada.decided_by, ada.decided_via) == ("expired", "", "expiry")
    assert (bob.status, bob.decided_by) == ("approved", "alice")
    decided = [event for event in await working.events(run) if event["type"] == "approval.decided"]
    assert [(event["decision"], event["decided_via"]) for event in decided] == [
        ("approved", "api"),
        ("denied", "expiry"),
    ]


async def test_what_nobody_decides_on_in_time_can_stop_the_run(working) -> None:
    """R14, C7."""
    await working.change_agent(on_expiry="stop", approval_hours=1)
    working.script(["", email("ada"), email("bob")])
    run = await working.waiting(await working.submit(), calls=2)
    [ada, _] = await working.approvals(run)
    assert (ada.on_expiry, ada.expires_at - ada.requested_at) == ("stop", timedelta(hours=1))
    await pass_the_time(run)
    run = await working.ended(run)
    await working.check(run)
    assert (run.status, run.stop_reason, run.receipt["requested_via"]) == ("cancelled", "cancelled", "expiry")
    assert set((await answers(working, run)).values()) == {
        "Denied: nobody decided on this call before it expired. It was not executed."
    }
    await goes_on(working, run)


async def test_an_agent_can_wait_for_ever(working) -> None:
    """R14."""
    await working.change_agent(approval_hours=None)
    working.script(["", email("ada")])
    run = await working.waiting(await working.submit())
    assert (await working.approvals(run))[0].expires_at is None
    assert (
        next(event for event in await working.events(run) if event["type"] == "approval.requested")["expires_at"]
        is None
    )
    await in_writer(actions.expire_approvals)
    assert (await working.fresh(run)).status == "requires_approval"


async def test_a_decision_that_comes_too_late_is_refused_even_before_anybody_looked(stage) -> None:
    """R14."""
    await stage.start_worker()
    stage.script(["", email("ada")])
    run = await stage.waiting(await stage.submit())
    await stage.stop_worker()
    await pass_the_time(run)
    with pytest.raises(Refused) as refusal:
        await stage.approve(run, "ada")
    assert (refusal.value.status, refusal.value.code) == (409, "already_decided")
    assert "expired" in refusal.value.message


async def test_several_workers_that_look_at_once_expire_once(working) -> None:
    """R14."""
    for _ in range(5):
        working.script(["", email("ada")], "done")
        run = await working.waiting(await working.submit())
        await pass_the_time(run)
        await asyncio.gather(*(in_reader(actions.expire_approvals) for _ in range(4)))
        run = await completed(working, run)
        assert (await working.types(run)).count("approval.decided") == 1


async def test_expiry_and_decision_at_the_same_instant(working) -> None:
    """R14: one of them wins."""
    working.script(["", email("ada"), email("bob")], "done")
    run = await working.waiting(await working.submit(), calls=2)
    await in_writer(
        lambda: Approval.objects.filter(run=run, tool_call_id="ada").update(expires_at=timezone.now() - timedelta(1))
    )
    outcomes = await asyncio.gather(
        working.approve(run, "bob"), in_reader(actions.expire_approvals), return_exceptions=True
    )
    assert not [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    run = await completed(working, run)
    assert [approval.status for approval in await working.approvals(run)] == ["expired", "approved"]
    assert await working.outbox() == ["bob@example.com"]


async def test_all_that_is_due_expires_in_one_look(stage, monkeypatch) -> None:
    """R14: however much it is."""
    monkeypatch.setattr("runs.worker.LOOK_SECONDS", 3600)
    runs = await in_writer(lambda: [waiting_run(stage.alice, f"call_{number}") for number in range(25)])
    for run in runs:
        await pass_the_time(run)
    await stage.start_worker()
    for run in runs:
        assert (await stage.ended(run)).status == "completed"


async def test_a_run_that_somebody_holds_keeps_no_other_from_expiring(stage, monkeypatch) -> None:
    """R14: a look that finds nothing to do in one run goes on with the next, and ends."""
    monkeypatch.setattr("runs.actions.approvals.EXPIRED_AT_ONCE", 2)
    runs = await in_writer(lambda: [waiting_run(stage.alice, f"call_{number}") for number in range(5)])
    for run in runs:
        await pass_the_time(run)
    held = {run.pk for run in runs[:2]}
    expire = approvals._expire
    monkeypatch.setattr(approvals, "_expire", lambda pk, now: None if pk in held else expire(pk, now))
    after = await in_writer(actions.expire_approvals)
    assert after == runs[1].pk
    assert await in_writer(actions.expire_approvals, after) == runs[3].pk
    assert await in_writer(actions.expire_approvals, runs[3].pk) is None
    assert [(await stage.fresh(run)).status for run in runs] == ["requires_approval"] * 2 + ["queued"] * 3
