"""Deleting, restoring and resetting a conversation: what goes at once, what later, and what never (contract P3, P8)."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from gateway.agent import Agent, AgentSetup
from gateway.pool import AgentPool
from runs import access, actions, caretaker
from runs.actions import Refused
from runs.actions import conversations as ending
from runs.caretaker import Caretaker
from runs.database import in_reader, in_writer
from runs.models import Conversation, Event, Message, Note, Run
from tests.gateway.test_background import make_tasks, marked_under
from tests.scripted import Gate, ScriptedProvider, call


async def delete(stage, run: Run) -> Conversation:
    return await in_reader(actions.delete_conversation, run.conversation, by="alice", via="api")


async def age(conversation: Conversation, **ago: float) -> None:
    """As if it had been deleted so long ago."""
    then = timezone.now() - timedelta(**ago)
    await in_writer(lambda: Conversation.objects.filter(pk=conversation.pk).update(deleted_at=then))


def is_visible(stage, run: Run) -> bool:
    found = [
        access.visible_conversations(user).filter(pk=run.conversation_id).exists()
        or access.visible_runs(user).filter(pk=run.pk).exists()
        or access.followable_runs(user).filter(pk=run.pk).exists()
        or access.writable_conversations(user).filter(pk=run.conversation_id).exists()
        for user in (stage.alice, stage.charlie)
    ]
    assert len(set(found)) == 1
    return found[0]


async def test_a_deleted_conversation_disappears_at_once_and_can_be_restored(working) -> None:
    run = await working.ended(await working.submit())
    await delete(working, run)
    assert not await in_reader(is_visible, working, run)
    with pytest.raises(Refused, match="There is no conversation"):
        await working.submit(conversation=run.conversation)
    with pytest.raises(Refused, match="There is no conversation"):
        await delete(working, run)
    await in_reader(actions.restore_conversation, run.conversation)
    assert await in_reader(is_visible, working, run)
    again = await working.ended(await working.submit(conversation=run.conversation))
    assert again.status == "completed"
    await working.check(again)


async def test_after_the_undo_time_there_is_no_way_back_also_where_nothing_was_removed_yet(working) -> None:
    run = await working.ended(await working.submit())
    conversation = await delete(working, run)
    await age(conversation, seconds=settings.AGENTSITE["UNDO_SECONDS"] + 0.1)
    with pytest.raises(Refused, match="There is no conversation"):
        await in_reader(actions.restore_conversation, conversation)


async def test_deleting_stops_what_runs_and_what_waits(working) -> None:
    """C2, C12: a normal stop, by whoever deleted it."""
    gate = Gate()
    working.script(["Hel", gate])
    running = await working.submit()
    waiting = await working.submit(conversation=running.conversation)
    await gate.reached.wait()
    await delete(working, running)
    for run in (running, waiting):
        run = await working.ended(run)
        assert (run.status, run.receipt["requested_by"], run.receipt["requested_via"]) == ("cancelled", "alice", "api")


async def test_deleting_denies_what_waits_for_approval_and_nobody_is_asked_any_more(working) -> None:
    """C7"""
    letter = {"to": "ada@example.com", "subject": "Lunch", "body": "At one?"}
    await working.change_agent(tools=["send_email"])
    working.script([call("send_email", letter)])
    run = await working.waiting(await working.submit())
    await delete(working, run)
    assert (await working.ended(run)).status == "cancelled"
    assert [approval.status for approval in await working.approvals(run)] == ["stopped"]
    assert await in_reader(access.decidable_approvals(working.alice).count) == 0
    assert await working.outbox() == []


async def test_runs_that_a_crash_in_a_deletion_left_are_stopped_later(working, monkeypatch) -> None:
    gate = Gate()
    working.script([gate])
    run = await working.submit()
    await gate.reached.wait()
    with monkeypatch.context() as crash:
        crash.setattr(ending, "_stop_runs", lambda *_: None)
        await delete(working, run)
    assert (await working.fresh(run)).stop_requested_at is None
    await working.worker.caretaker.end_deleted()
    assert (await working.ended(run)).receipt["requested_via"] == "deletion"


async def test_the_task_ends_after_the_undo_time_and_not_before(working) -> None:
    """P8: files, processes and live agent; hard, and only then."""
    run = await working.ended(await working.submit())
    agent = await working.live_agent(run)
    agent.task.files.write("plan.txt", "mine")
    await agent.task.processes.start("countdown", ["1000"])
    conversation = await delete(working, run)
    await working.worker.caretaker.end_deleted()
    assert agent.task.files.read("plan.txt") == "mine"
    assert run.conversation.public_id in working.worker.pool

    await age(conversation, seconds=settings.AGENTSITE["UNDO_SECONDS"] + 2)
    await working.worker.caretaker.end_deleted()
    assert working.provider.is_closed
    assert agent.task.files.entries() == []
    assert await agent.task.processes.states() == []
    assert run.conversation.public_id not in working.worker.pool
    ended = await in_reader(Conversation.objects.get, pk=conversation.pk)
    assert ended.task_ended_at is not None
    with pytest.raises(Refused, match="There is no conversation"):
        await in_reader(actions.restore_conversation, ended)
    assert await in_reader(Message.objects.filter(conversation=ended).count) == 2, "the rows stay for now"


async def test_a_task_without_a_live_agent_is_ended_as_well(working) -> None:
    """P8: after an eviction or a restart."""
    run = await working.ended(await working.submit())
    task = working.worker.tasks.of(run.conversation.public_id)
    task.files.write("plan.txt", "mine")
    assert await working.worker.pool.evict(run.conversation.public_id)
    conversation = await delete(working, run)
    await age(conversation, days=1)
    await working.worker.caretaker.end_deleted()
    assert task.files.entries() == []


async def test_whichever_worker_looks_first_the_others_end_what_they_have(working, tmp_path) -> None:
    """P8: an agent, processes and files may be with a worker on another machine."""
    run = await working.ended(await working.submit())
    conversation_id = run.conversation.public_id
    other = Caretaker(AgentPool(capacity=2, idle_seconds=60), make_tasks(tmp_path))
    provider = ScriptedProvider()

    async def build() -> Agent:
        return Agent(AgentSetup("scripted"), provider, {}, other.tasks.of(conversation_id))

    async with other.pool.use(conversation_id, "signature", build) as agent:
        agent.task.files.write("plan.txt", "mine")
        await agent.task.processes.start("countdown", ["1000"])
    await other.end_deleted()
    assert conversation_id in other.pool, "nobody has deleted anything"
    await age(await delete(working, run), days=1)
    await working.worker.caretaker.end_deleted()
    assert (await in_reader(Conversation.objects.get, pk=run.conversation_id)).task_ended_at is not None
    await other.end_deleted()
    assert conversation_id not in other.pool
    assert provider.is_closed
    assert not agent.task.is_here
    assert marked_under(tmp_path) == []


async def test_a_worker_that_was_away_ends_what_it_has_when_it_is_back(working, tmp_path) -> None:
    """P8"""
    run = await working.ended(await working.submit())
    tasks = make_tasks(tmp_path)
    tasks.of(run.conversation.public_id).files.write("plan.txt", "mine")
    await age(await delete(working, run), days=2)
    await working.worker.caretaker.end_deleted()
    long_ago = timezone.now() - timedelta(days=1)
    await in_writer(lambda: Conversation.objects.filter(pk=run.conversation_id).update(task_ended_at=long_ago))
    await Caretaker(AgentPool(capacity=2, idle_seconds=60), tasks).end_deleted()
    assert not tasks.of(run.conversation.public_id).is_here


async def test_a_task_in_use_is_left_until_its_run_has_ended(working) -> None:
    """P5: not even the end of a conversation takes an agent from under a run."""
    gate = Gate()

    async def hold(arguments, context):
        await gate.wait()
        return "held"

    working.change_tool("wait", function=hold)
    working.script([call("wait", {"seconds": 1})])
    run = await working.submit()
    await gate.reached.wait()
    await in_writer(
        lambda: Conversation.objects.filter(pk=run.conversation_id).update(
            deleted_at=timezone.now() - timedelta(days=1)
        )
    )
    task = working.worker.tasks.of(run.conversation.public_id)
    task.files.write("plan.txt", "mine")
    assert not await working.worker.pool.end(run.conversation.public_id)
    assert not await working.worker.caretaker._end_task(run.conversation)
    assert task.files.read("plan.txt") == "mine"
    await working.stop(run)
    await working.ended(run)
    await working.until(lambda: not working.worker.pool.is_active(run.conversation.public_id))
    await working.worker.caretaker.end_deleted()
    assert task.files.entries() == []


async def test_a_task_that_cannot_be_removed_is_tried_again_and_hurts_nobody(working, monkeypatch, caplog) -> None:
    runs = [await working.ended(await working.submit()) for _ in range(2)]
    for run in runs:
        working.worker.tasks.of(run.conversation.public_id).files.write("plan.txt", "mine")
        await age(await delete(working, run), days=1)
    broken = runs[0].conversation.public_id
    monkeypatch.setattr(caretaker, "ENDED_AT_ONCE", 1)
    of = working.worker.tasks.of

    def fail(conversation_id: str):
        if conversation_id == broken:
            raise PermissionError("not yours")
        return of(conversation_id)

    with monkeypatch.context() as broken_disk:
        broken_disk.setattr(working.worker.tasks, "of", fail)
        await working.worker.caretaker.end_deleted()
    assert f"What belonged to {broken} could not be removed" in caplog.text
    ended = await in_reader(lambda: list(Conversation.objects.order_by("pk").values_list("task_ended_at", flat=True)))
    assert [moment is None for moment in ended] == [True, False]
    await working.worker.caretaker.end_deleted()
    assert of(broken).files.entries() == []


async def test_after_the_days_in_the_trash_every_row_is_gone_and_no_other(working, monkeypatch) -> None:
    monkeypatch.setattr(ending, "PURGED_AT_ONCE", 3)
    kept, purged = [await working.ended(await working.submit()) for _ in range(2)]
    await in_writer(lambda: Note.objects.create(conversation=purged.conversation, key="k", text="t"))
    conversation = await delete(working, purged)
    await delete(working, kept)
    await age(conversation, days=settings.AGENTSITE["TRASH_DAYS"] + 1)
    assert not await in_writer(actions.purge_some), "its task was not ended yet"
    await working.worker.caretaker.end_deleted()
    await working.worker.caretaker.empty_trash()
    for table in (Run, Message, Event, Note):
        path = "run__conversation" if table is Event else "conversation"
        assert await in_reader(table.objects.filter(**{path: conversation.pk}).count) == 0, table
    assert await in_reader(Conversation.objects.filter(pk=conversation.pk).count) == 0
    assert await in_reader(Run.objects.filter(pk=kept.pk).count) == 1


# -- reset


async def test_a_reset_begins_a_fresh_context_and_keeps_what_was_said(working) -> None:
    """P3, C9: the live agent is evicted, the messages stay, and the model no longer sees them."""
    first = await working.ended(await working.submit("first"))
    agent = await working.live_agent(first)
    await in_reader(actions.reset_conversation, first.conversation)
    await working.until(lambda: first.conversation.public_id not in working.worker.pool)
    assert working.worker.pool.stats().evictions == {"reset": 1}
    second = await working.ended(await working.submit("second", conversation=first.conversation))
    assert [message.text for message in working.provider.requests[-1].messages] == ["second"]
    assert await working.live_agent(second) is not agent
    await working.check(second)
    third = await working.ended(await working.submit("third", conversation=first.conversation))
    assert [message.text for message in working.provider.requests[-1].messages] == ["second", "done", "third"]
    assert len(await working.messages(third)) == 6
    await working.check(third)


async def test_a_reset_holds_also_where_its_ring_was_lost(working, monkeypatch) -> None:
    """P3: the agent that is still there loads its history anew."""
    first = await working.ended(await working.submit("first"))
    agent = await working.live_agent(first)
    with monkeypatch.context() as deaf:
        deaf.setattr("runs.bell.ring", lambda *_: None)
        await in_reader(actions.reset_conversation, first.conversation)
    second = await working.ended(await working.submit("second", conversation=first.conversation))
    assert await working.live_agent(second) is agent
    assert [message.text for message in working.provider.requests[-1].messages] == ["second"]
    await working.check(second)


async def test_a_reset_waits_for_no_run_and_is_refused_while_one_is_active(working) -> None:
    gate = Gate()
    working.script([gate])
    run = await working.submit()
    await gate.reached.wait()
    with pytest.raises(Refused) as refused:
        await in_reader(actions.reset_conversation, run.conversation)
    assert (refused.value.status, refused.value.code) == (409, "run_active")
    gate.open()
    await working.ended(run)
    await in_reader(actions.reset_conversation, run.conversation)


async def test_a_run_that_is_taken_up_again_after_a_reset_sees_the_fresh_context_alone(stage) -> None:
    """T4, C9"""
    await stage.start_worker()
    first = await stage.ended(await stage.submit("first"))
    await in_reader(actions.reset_conversation, first.conversation)
    gate = Gate()
    stage.script(["Hel", gate])
    run = await stage.submit("second", conversation=first.conversation)
    await stage.shown(run, "Hel")
    await stage.stop_worker()
    stage.script("Hello.")
    await stage.start_worker()
    run = await stage.ended(run)
    assert [message.text for message in stage.provider.requests[-1].messages] == ["second"]
    await stage.check(run)
