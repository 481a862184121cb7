"""A person decides before a risky tool runs: asking, deciding, going on."""

import asyncio
import json
from datetime import timedelta

import pytest
from django.utils import timezone

from gateway.messages import Message as Said
from runs import access, actions
from runs.actions import Decision, Refused
from runs.actions.approvals import digest_of
from runs.actions.deciding import settle_approval
from runs.actions.log import Log
from runs.database import in_reader, in_writer
from runs.models import Approval, ApprovalStatus, Run
from tests.runs.emails import as_made, email, letter
from tests.scripted import Gate, call


async def completed(stage, run: Run) -> Run:
    run = await stage.ended(run)
    await stage.check(run)
    assert (run.status, run.stop_reason) == ("completed", "end_turn")
    return run


async def tool_texts(stage, run: Run) -> list[tuple[str | None, str]]:
    return [(said.tool_call_id, said.text) for said in await stage.messages(run) if said.role == "tool"]


async def test_a_call_that_needs_approval_makes_the_run_wait_without_a_worker(working) -> None:
    """R14: stored, shown, and no task, no lease and no agent held."""
    working.script(["I would like to write to Ada.", email("ada")])
    run = await working.waiting(await working.submit())
    assert (run.worker, run.lease_expires_at, run.stop_reason) == ("", None, "")
    assert (run.steps, run.prompt_tokens > 0) == (1, True)
    await working.until(lambda: not working.worker.executions and not working.worker._running)
    assert not any(entry.is_active for entry in working.worker.pool.entries())
    [approval] = await working.approvals(run)
    assert (approval.name, approval.tool_call_id, approval.status) == ("send_email", "ada", "pending")
    assert (approval.arguments, approval.why) == (letter("ada"), "I would like to write to Ada.")
    assert approval.description.startswith("Send an e-mail")
    assert approval.arguments_digest == digest_of(letter("ada"))
    assert approval.expires_at - approval.requested_at == timedelta(hours=168)
    assert approval.on_expiry == "deny"
    assert await working.types(run) == [
        "run.queued",
        "run.started",
        "message.delta",
        "message.completed",
        "approval.requested",
    ]
    asked = (await working.events(run))[-1]
    assert asked["arguments"] == letter("ada")
    assert asked["schema"]["properties"].keys() == {"to", "subject", "body"}
    assert (asked["tool_call_id"], asked["name"], asked["on_expiry"]) == ("ada", "send_email", "deny")
    assert asked["expires_at"] == approval.expires_at.isoformat()
    assert await working.outbox() == []


async def test_an_approved_call_runs_and_the_model_goes_on(working) -> None:
    """R14, T1, T2, C9."""
    working.script(["May I?", email("ada")], "It is done.")
    run = await working.waiting(await working.submit())
    agent = await working.live_agent(run)
    decided, pending = await working.approve(run, "ada")
    assert (decided.status, pending) == ("queued", 0)
    run = await completed(working, run)
    assert await working.outbox() == ["ada@example.com"]
    assert await working.messages(run) == [
        Said("user", "hello"),
        Said("assistant", "May I?", tool_calls=(as_made("ada"),)),
        Said("tool", "It is in the outbox, addressed to ada@example.com.", tool_call_id="ada", name="send_email"),
        Said("assistant", "It is done."),
    ]
    types = await working.types(run)
    assert [name for name in types if not name.startswith("message")] == [
        "run.queued",
        "run.started",
        "approval.requested",
        "approval.decided",
        "run.started",
        "tool.started",
        "tool.completed",
        "run.completed",
    ]
    assert (run.attempt, run.steps) == (2, 2)
    assert await working.live_agent(run) is agent, "P1: the agent went back to the pool and came again"
    [approval] = await working.approvals(run)
    assert (approval.status, approval.decided_by, approval.decided_via) == ("approved", "alice", "api")
    decided = next(event for event in await working.events(run) if event["type"] == "approval.decided")
    expected = {"decision": "approved", "edited": False, "arguments": letter("ada"), "reason": ""}
    expected |= {"decided_by": "alice", "decided_via": "api", "decided_at": approval.decided_at.isoformat()}
    assert decided | expected == decided


async def test_a_denied_call_does_not_run_and_the_model_is_told_who_and_why(working) -> None:
    """R14."""
    working.script(["", email("ada")], "As you wish.")
    run = await working.waiting(await working.submit())
    await working.deny(run, "ada", reason="She is on holiday.", by=working.charlie)
    run = await completed(working, run)
    text = "Denied by charlie. It was not executed. Reason: She is on holiday."
    assert await tool_texts(working, run) == [("ada", text)]
    assert working.provider.requests[-1].messages[-1].text == text
    assert await working.outbox() == []
    assert "tool.started" not in await working.types(run)
    result = next(event for event in await working.events(run) if event["type"] == "tool.completed")
    assert (result["state"], result["is_error"]) == ("not_started", True)


async def test_edited_arguments_are_what_runs_and_the_model_is_told(working) -> None:
    """R14, C9: both versions are kept, and the call stays in the history as the model made it."""
    working.script(["", email("ada")], "Thank you.")
    run = await working.waiting(await working.submit())
    await working.decide(run, Decision("ada", True, arguments=letter("bob"), reason="Bob knows."))
    run = await completed(working, run)
    assert await working.outbox() == ["bob@example.com"]
    [(_, text)] = await tool_texts(working, run)
    assert text.startswith("It is in the outbox, addressed to bob@example.com.\n\n[alice approved this call with other")
    assert json.dumps(letter("bob")) in text
    assert (await working.messages(run))[1].tool_calls == (as_made("ada"),)
    [approval] = await working.approvals(run)
    assert (approval.arguments, approval.edited_arguments) == (letter("ada"), letter("bob"))
    told = {event["type"]: event for event in await working.events(run)}
    assert (told["approval.decided"]["edited"], told["approval.decided"]["arguments"]) == (True, letter("bob"))
    assert json.loads(told["tool.started"]["arguments"]) == letter("bob")
    assert told["tool.completed"]["result"] == text


async def test_the_same_arguments_sent_back_are_no_edit(working) -> None:
    """R14."""
    working.script(["", email("ada")])
    run = await working.waiting(await working.submit())
    await working.decide(run, Decision("ada", True, arguments=dict(reversed(letter("ada").items()))))
    run = await completed(working, run)
    assert (await working.approvals(run))[0].edited_arguments is None
    assert "other arguments" not in (await tool_texts(working, run))[0][1]


@pytest.mark.parametrize(
    ("arguments", "place"),
    [({}, ""), ({"to": "nobody"}, ""), ({**letter("ada"), "cc": "x"}, ""), ({**letter("ada"), "to": 7}, ".to")],
)
async def test_edited_arguments_that_break_the_schema_are_refused_and_it_waits_on(working, arguments, place) -> None:
    """R14."""
    working.script(["", email("ada"), email("bob")])
    run = await working.waiting(await working.submit(), calls=2)
    with pytest.raises(Refused) as refusal:
        await working.decide(run, Decision("bob", True), Decision("ada", True, arguments=arguments))
    assert (refusal.value.status, refusal.value.param) == (400, f"decisions.1.arguments{place}")
    assert "do not fit" in refusal.value.message
    assert [approval.status for approval in await working.approvals(run)] == ["pending", "pending"]
    assert (await working.fresh(run)).status == "requires_approval"
    assert "approval.decided" not in await working.types(run)


@pytest.mark.parametrize("is_parallel", [False, True])
async def test_three_at_once_with_mixed_decisions_are_answered_in_the_order_of_the_calls(
    working, is_parallel: bool
) -> None:
    """R14, T3: part of them can be decided; the run goes on when the last one is."""
    await working.change_agent(has_parallel_tools=is_parallel)
    working.script(["Three letters.", email("ada"), email("bob"), email("eve")], "Two are out.")
    run = await working.waiting(await working.submit(), calls=3)
    assert (await working.deny(run, "eve", reason="No."))[1] == 2
    assert (await working.approve(run, "bob"))[1] == 1
    assert (await working.fresh(run)).status == "requires_approval"
    assert await working.outbox() == []
    assert (await working.approve(run, "ada", by=working.charlie))[1] == 0
    run = await completed(working, run)
    assert [name for name, _ in await tool_texts(working, run)] == ["ada", "bob", "eve"]
    assert sorted(await working.outbox()) == ["ada@example.com", "bob@example.com"]
    requested = [event["tool_call_id"] for event in await working.events(run) if event["type"] == "approval.requested"]
    assert requested == ["ada", "bob", "eve"]
    assert [approval.decided_by for approval in await working.approvals(run)] == ["charlie", "alice", "alice"]


@pytest.mark.parametrize("is_parallel", [False, True])
async def test_calls_before_the_first_that_waits_run_at_once_and_those_behind_it_wait(
    working, is_parallel: bool
) -> None:
    """The order of effects is kept."""
    await working.change_agent(has_parallel_tools=is_parallel)
    note = {"key": "a", "text": "before"}
    working.script(["", call("remember", note, id="1"), email("ada"), call("recall", id="3"), email("eve")], "done")
    run = await working.waiting(await working.submit(), calls=2)
    started = [event["tool_call_id"] for event in await working.events(run) if event["type"] == "tool.started"]
    assert started == ["1"]
    await working.approve(run, "ada", "eve")
    run = await completed(working, run)
    assert [name for name, _ in await tool_texts(working, run)] == ["1", "ada", "3", "eve"]
    started = [event["tool_call_id"] for event in await working.events(run) if event["type"] == "tool.started"]
    assert started == ["1", "ada", "3", "eve"]


async def test_a_run_can_wait_more_than_once_and_its_steps_are_counted_across(working) -> None:
    """L1: the limit of steps holds over the waits, and waiting takes none of the run's time."""
    working.script(["", email("ada")], ["", email("bob")], "never said")
    run = await working.waiting(await working.submit(max_steps=2, max_seconds=60))
    then = {name: getattr(run, name) - timedelta(days=3) for name in ("queued_at", "started_at")}
    await in_reader(lambda: Run.objects.filter(pk=run.pk).update(**then))
    await working.approve(run, "ada")
    run = await working.waiting(run, calls=2)
    assert run.active_seconds < 60
    await working.approve(run, "bob")
    run = await working.ended(run)
    await working.check(run)
    assert (run.status, run.stop_reason, run.steps) == ("completed", "max_steps", 2)
    assert await working.outbox() == ["ada@example.com", "bob@example.com"]


async def test_arguments_that_do_not_fit_need_no_approval(working) -> None:
    """E3: they go back to the model."""
    working.script(["", call("send_email", {"to": "nobody"}), call("send_email", "rubbish")], "sorry")
    run = await completed(working, await working.submit())
    assert await working.approvals(run) == []
    assert ["arguments" in text for _, text in await tool_texts(working, run)] == [True, True]


async def test_a_rule_on_the_arguments_asks_only_for_those_it_fits(working) -> None:
    """R14, P2: a cached agent obeys the newest rule."""
    over = {"properties": {"seconds": {"exclusiveMinimum": 0.5}}, "required": ["seconds"]}
    await working.change_agent(approvals={"wait": over})
    working.script(["", call("wait", {"seconds": 0}, id="short")], "first")
    run = await completed(working, await working.submit())
    agent = await working.live_agent(run)
    working.script(["", call("wait", {"seconds": 0.6}, id="long")], "second")
    run = await working.waiting(await working.submit(conversation=run.conversation))
    await working.deny(run, "long")
    await completed(working, run)
    await working.change_agent(approvals={"wait": "always"})
    working.script(["", call("wait", {"seconds": 0}, id="short again")], "third")
    run = await working.waiting(await working.submit(conversation=run.conversation))
    assert await working.live_agent(run) is agent, "the rule is no part of the signature"
    await working.change_agent(approvals={"wait": "never", "send_email": "never"})
    await working.approve(run, "short again")
    await completed(working, run)
    working.script(["", email("ada")], "fourth")
    await completed(working, await working.submit(conversation=run.conversation))
    assert await working.outbox() == ["ada@example.com"]


async def test_a_rule_that_became_tighter_while_the_run_waited_is_asked_for_too(working) -> None:
    """R14: whoever approved one call has not approved the other."""
    working.script(["", email("ada"), call("remember", {"key": "k", "text": "t"}, id="note")], "done")
    run = await working.waiting(await working.submit())
    await working.change_agent(approvals={"remember": "always"})
    await working.approve(run, "ada")
    run = await working.waiting(run, calls=2)
    assert await working.outbox() == ["ada@example.com"]
    await working.deny(run, "note")
    run = await completed(working, run)
    assert [approval.status for approval in await working.approvals(run)] == ["approved", "denied"]
    assert [name for name, _ in await tool_texts(working, run)] == ["ada", "note"]


async def test_what_no_database_takes_is_shown_as_what_will_run(working) -> None:
    """R14: what was approved is what runs; a model's rubbish neither fails the run nor slips through unseen."""
    body = '"nul \\u0000, half \\ud800, fine"'
    raw = f'{{"to": "ada@example.com", "subject": "x", "body": {body}}}'
    await working.change_agent(approvals={"wait": "always"})
    huge = call("wait", '{"seconds": 1e999}', id="endless")
    working.script(["", call("send_email", raw, id="odd"), huge], "done")
    run = await working.waiting(await working.submit())
    [approval] = await working.approvals(run)
    assert approval.arguments["body"] == "nul , half ?, fine"
    await working.approve(run, "odd")
    run = await completed(working, run)
    assert (await tool_texts(working, run))[1][1].startswith("The arguments do not fit")


async def test_what_was_queued_before_waits_on_and_nothing_new_gets_in(working) -> None:
    """R16."""
    gate = Gate()
    working.script(["first", gate, email("ada")], "sent", "behind")
    run = await working.submit()
    await gate.reached.wait()
    behind = await working.submit("behind", conversation=run.conversation)
    gate.open()
    await working.waiting(run)
    with pytest.raises(Refused) as refusal:
        await working.submit("too late", conversation=run.conversation)
    assert (refusal.value.status, refusal.value.code) == (409, "pending_approval")
    assert (await working.fresh(behind)).status == "queued"
    await working.approve(run, "ada")
    assert (await working.ended(run)).status == "completed"
    behind = await completed(working, behind)
    assert behind.output == "behind"


# -- who decides, and who comes second


async def test_the_first_decision_wins_and_the_second_is_told(working) -> None:
    """R14."""
    working.script(["", email("ada"), email("bob")])
    run = await working.waiting(await working.submit(), calls=2)
    await working.deny(run, "ada", by=working.charlie)
    with pytest.raises(Refused) as refusal:
        await working.approve(run, "bob", "ada")
    assert (refusal.value.status, refusal.value.code) == (409, "already_decided")
    assert "charlie denied it" in refusal.value.message
    assert [approval.status for approval in await working.approvals(run)] == ["denied", "pending"]
    await working.decide(run, Decision("bob", True, arguments=letter("eve")))
    await completed(working, run)
    with pytest.raises(Refused) as refusal:
        await working.deny(run, "bob")
    assert (refusal.value.code, "alice approved it with other" in refusal.value.message) == ("already_decided", True)
    with pytest.raises(Refused) as refusal:
        await working.deny(run, "unknown")
    assert (refusal.value.status, refusal.value.code) == (409, "not_awaiting_approval")


async def test_two_deciders_at_the_same_instant(working) -> None:
    """R14: exactly one wins, the loser is told, and the call runs or does not, as the winner said."""
    for number in range(15):
        working.script(["", email("ada")], "done")
        run = await working.waiting(await working.submit())
        sent = len(await working.outbox())
        answers = await asyncio.gather(
            working.approve(run, "ada"), working.deny(run, "ada", by=working.charlie), return_exceptions=True
        )
        lost = [answer for answer in answers if isinstance(answer, Refused)]
        assert [(refusal.status, refusal.code) for refusal in lost] == [(409, "already_decided")]
        is_approved = answers[1] is lost[0]
        assert ("alice approved" if is_approved else "charlie denied") in lost[0].message
        run = await completed(working, run)
        assert len(await working.outbox()) - sent == is_approved, number
        assert (await working.types(run)).count("approval.decided") == 1


async def test_only_who_may_decide_sees_and_decides(working) -> None:
    """R14, R6."""
    working.script(["", email("ada")])
    run = await working.waiting(await working.submit())
    with pytest.raises(Refused) as refusal:
        await working.approve(run, "ada", by=working.bob)
    assert (refusal.value.status, refusal.value.code) == (404, "run_not_found")

    def who_sees() -> list[str]:
        people = (working.alice, working.bob, working.charlie)
        return [person.username for person in people if access.decidable_approvals(person).exists()]

    assert await in_reader(who_sees) == ["alice", "charlie"]
    assert [approval.status for approval in await working.approvals(run)] == ["pending"]


async def test_a_decision_must_name_each_call_once_and_only_calls_that_wait(working) -> None:
    """R14."""
    working.script(["", email("ada")])
    run = await working.waiting(await working.submit())
    for decisions, where in (
        ((), "decisions"),
        ((Decision("ada", True), Decision("nobody", True)), "decisions.1.tool_call_id"),
        ((Decision("ada", True), Decision("ada", False)), "decisions.1.tool_call_id"),
        ((Decision("ada", False, arguments=letter("bob")),), "decisions.0.arguments"),
        ((Decision("ada", True, arguments=letter("bob", body="x" * 300_000)),), "decisions.0.arguments"),
        ((Decision("ada", True, arguments=letter("bob", body="half \ud800")),), "decisions.0.arguments"),
    ):
        with pytest.raises(Refused) as refusal:
            await working.decide(run, *decisions)
        assert (refusal.value.status, refusal.value.param) == (400, where)
    assert await in_reader(Approval.objects.filter(status="pending").count) == 1


# -- the rules of an agent


async def test_only_staff_have_a_tool_ask_for_less_than_it_does_itself(stage) -> None:
    """R14."""

    def save(by, **rules) -> None:
        stage.agent.approvals = rules
        actions.save_agent(stage.agent, by)

    condition = {"properties": {"to": {"pattern": "@example.com$"}}}
    for loosened in ("never", condition):
        with pytest.raises(Refused) as refusal:
            await in_reader(save, stage.alice, send_email=loosened)
        assert (refusal.value.status, refusal.value.param) == (403, "approvals")
    await in_reader(lambda: save(stage.alice, send_email="always", wait="always"))
    await in_reader(lambda: save(stage.alice, wait={"properties": {"seconds": {"minimum": 1}}}))
    await in_reader(lambda: save(stage.charlie, send_email="never"))
    await in_reader(lambda: save(stage.alice, send_email="never", wait="always"))  # not her doing
    await in_reader(lambda: save(None, send_email=condition))


async def test_a_decision_that_is_no_longer_pending_changes_nothing_whatever_was_read_before(working) -> None:
    """R14: the compare-and-set itself, below the checks."""
    working.script(["", email("ada"), email("bob")])
    run = await working.waiting(await working.submit(), calls=2)
    [stale, _] = await working.approvals(run)
    await working.approve(run, "ada", by=working.charlie)

    def decide_again() -> None:
        settle_approval(Log(run, timezone.now()), stale, ApprovalStatus.DENIED, by="alice", via="api")

    with pytest.raises(Refused, match="charlie approved it"):
        await in_writer(decide_again)
    assert [approval.status for approval in await working.approvals(run)] == ["approved", "pending"]
