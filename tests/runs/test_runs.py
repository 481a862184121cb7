"""Runs from submission to their end, with a real worker, journal and database, and a scripted model."""

import asyncio
import gc
import weakref
from decimal import Decimal

import pytest
from channels.layers import get_channel_layer

from gateway.errors import ProviderError
from gateway.messages import Message as Said
from runs import actions, events
from runs.database import in_reader, in_writer
from runs.execution import Execution
from runs.models import Event, Message, Note, Worker
from tests.scripted import Gate, call, thought, used


async def test_a_run_goes_from_queued_to_completed_and_everything_is_stored(working) -> None:
    working.script(["Hello ", "alice", used(7, 2)])
    run = await working.submit("hi")
    assert run.status == "queued"
    run = await working.ended(run)
    await working.check(run)
    assert (run.status, run.stop_reason, run.output) == ("completed", "end_turn", "Hello alice")
    assert (run.prompt_tokens, run.completion_tokens, run.is_usage_estimated) == (7, 2, False)
    assert run.queued_at <= run.started_at <= run.first_token_at <= run.ended_at
    assert await working.messages(run) == [Said("user", "hi"), Said("assistant", "Hello alice")]
    types = await working.types(run)
    assert types[:2] == ["run.queued", "run.started"]
    assert types[-2:] == ["message.completed", "run.completed"]
    told = await working.events(run)
    assert "".join(event["text"] for event in told if event["type"] == "message.delta") == "Hello alice"
    assert told[-1]["output"] == "Hello alice"
    assert told[-1]["usage"]["total_tokens"] == 9


async def test_reasoning_tools_and_progress_are_events(working) -> None:
    async def half_done(arguments, context):
        context.report("half way", 0.5)
        return "waited"

    working.change_tool("wait", function=half_done)
    working.script([thought("hm"), "let me see", call("wait", {"seconds": 0}, id="c1")], "done waiting")
    run = await working.ended(await working.submit())
    await working.check(run)
    told = await working.events(run)
    by_type = {event["type"]: event for event in told}
    assert by_type["reasoning.delta"]["text"] == "hm"
    assert by_type["tool.started"]["tool_call_id"] == "c1"
    assert by_type["tool.started"]["name"] == "wait"
    assert by_type["tool.started"]["arguments"] == '{"seconds": 0}'
    progress = by_type["tool.progress"]
    assert (progress["tool_call_id"], progress["text"], progress["fraction"]) == ("c1", "half way", 0.5)
    completed = by_type["tool.completed"]
    assert (completed["state"], completed["result"], completed["is_error"]) == ("finished", "waited", False)
    assert completed["seconds"] >= 0
    order = [event["type"] for event in told if event["type"].startswith(("message.completed", "tool"))]
    assert order == ["message.completed", "tool.started", "tool.progress", "tool.completed", "message.completed"]


async def test_each_message_tells_what_the_run_has_used_until_then(working) -> None:
    working.script(["a", call("current_time"), used(10, 5)], ["b", used(20, 5)])
    run = await working.ended(await working.submit())
    told = [event for event in await working.events(run) if event["type"] == "message.completed"]
    assert [event["usage"]["total_tokens"] for event in told] == [15, 40]


async def test_the_next_run_sees_all_messages_of_the_earlier_ones_with_the_same_agent(working) -> None:
    """P1, C8."""
    first = await working.ended(await working.submit("one"))
    agent = weakref.ref(await working.live_agent(first))
    second = await working.ended(await working.submit("two", conversation=first.conversation))
    await working.check(second)
    assert [message.content for message in working.provider.requests[-1].messages] == ["one", "done", "two"]
    assert await working.live_agent(second) is agent()


async def test_a_live_agent_reads_nothing_that_it_knows(working, monkeypatch) -> None:
    """P1: its history is loaded once, not at every run."""
    first = await working.ended(await working.submit())
    monkeypatch.setattr("runs.execution._context_of", lambda conversation: [])
    second = await working.ended(await working.submit("again", conversation=first.conversation))
    await working.check(second)
    assert [said.text for said in working.provider.requests[-1].messages] == ["hello", "done", "again"]


async def test_runs_of_one_conversation_wait_for_each_other_in_order(working) -> None:
    """R16."""
    gate = Gate()
    working.script(["first", gate], "second", "third")
    one = await working.submit("1")
    await gate.reached.wait()
    two = await working.submit("2", conversation=one.conversation)
    three = await working.submit("3", conversation=one.conversation)
    assert (await working.fresh(two)).status == (await working.fresh(three)).status == "queued"
    gate.open()
    for run in (one, two, three):
        assert (await working.ended(run)).status == "completed"
    await working.check(three)
    contents = [message.content for message in await working.messages(one)]
    assert contents == ["1", "first", "2", "second", "3", "third"]


async def test_no_worker_can_take_two_runs_of_one_conversation(stage) -> None:
    """R16: whoever asks, and however many it could take."""
    first = await stage.submit("first")
    second = await stage.submit("second", conversation=first.conversation)
    other = await stage.submit("other")
    runs = [first.pk, second.pk, other.pk]
    taken = await in_writer(actions.claim_runs, "one", 10)
    assert [claim.run.pk for claim in taken] == [first.pk, other.pk]
    assert await in_writer(actions.claim_runs, "two", 10) == []
    assert await in_writer(lambda: actions.claim_runs("two", 10, rung=runs)) == []


async def test_a_run_tells_the_version_of_the_agent_that_did_it(stage) -> None:
    """R11: the one of its turn, not of its submission."""
    run = await stage.submit()
    await stage.change_agent(instructions="Be brief.")
    await stage.start_worker()
    run = await stage.ended(run)
    assert run.agent_version == run.agent.version == 2
    [started] = [event for event in await stage.events(run) if event["type"] == "run.started"]
    assert (started["agent"], started["agent_version"], started["input"]) == ("agent", 2, "hello")
    assert run.is_usage_estimated, "this model tells nothing of it"


async def test_runs_of_different_conversations_work_side_by_side(working) -> None:
    gates = [Gate() for _ in range(30)]
    working.script(*[["x", gate] for gate in gates])
    runs = [await working.submit(str(number)) for number in range(30)]
    for gate in gates:
        await gate.reached.wait()
    assert len(working.worker.executions) == 30
    for gate in gates:
        gate.open()
    for run in runs:
        assert (await working.ended(run)).status == "completed"


async def test_after_the_end_the_worker_holds_nothing_of_the_run(working) -> None:
    """R10, C11."""
    gate = Gate()
    working.script(["x", gate])
    run = await working.submit()
    await gate.reached.wait()
    execution: weakref.ref[Execution] = weakref.ref(working.worker.executions[run.pk])
    work = weakref.ref(working.worker.executions[run.pk].work)
    await working.stop(run)
    await working.ended(run)
    # The thread that wrote the end may need a moment more to let go of what it wrote.
    await working.until(lambda: gc.collect() >= 0 and execution() is None and work() is None)
    assert not working.worker.executions
    assert not working.worker._running
    assert working.provider.open_streams == 0
    assert not any(task.get_name().startswith(("run ", "work ", "tool ")) for task in asyncio.all_tasks())


async def test_a_failed_run_keeps_its_error_and_what_was_said(working) -> None:
    """E1."""
    working.script(["so far", ProviderError("llm_authentication", "The provider refused the key.", "401")])
    run = await working.ended(await working.submit())
    await working.check(run)
    assert (run.status, run.stop_reason, run.output) == ("failed", "error", "so far")
    assert run.error == {
        "error_type": "llm_authentication",
        "message": "The provider refused the key.",
        "detail": "401",
    }
    assert (await working.messages(run))[-1] == Said("assistant", "so far", partial=True)
    again = await working.ended(await working.submit("again", conversation=run.conversation))
    assert again.status == "completed"


async def test_the_traceback_of_an_unexpected_error_stays_out_of_the_log(working) -> None:
    """E1."""
    working.script([ZeroDivisionError("secret")])
    run = await working.ended(await working.submit())
    assert run.error["error_type"] == "internal_error"
    assert "ZeroDivisionError" in run.error["detail"]
    assert "detail" not in (await working.events(run))[-1]["error"]


async def test_every_retry_is_an_event(working) -> None:
    """E2."""
    working.script([ProviderError("llm_rate_limit", "Slow down.", transient=True, retry_after=0)], "there")
    run = await working.ended(await working.submit())
    assert run.output == "there"
    retries = [event for event in await working.events(run) if event["type"] == "retry.scheduled"]
    assert [(event["number"], event["error"]["error_type"]) for event in retries] == [(1, "llm_rate_limit")]


async def test_limits_end_a_run_as_completed_and_the_conversation_goes_on(working) -> None:
    """L1, L2: the caller lowers a limit and never raises it."""
    working.script(["a", call("current_time")], "never", "next")
    run = await working.submit(max_steps=1)
    run = await working.ended(run)
    await working.check(run)
    assert (run.status, run.stop_reason) == ("completed", "max_steps")
    raised = await working.submit(max_steps=10_000, max_seconds=1e9, conversation=run.conversation)
    assert raised.max_steps == working.agent.max_steps
    assert raised.max_seconds == working.agent.max_seconds
    assert (await working.ended(raised)).status == "completed"


async def test_a_cost_limit_ends_a_run_as_budget(working) -> None:
    """L1."""
    await in_writer(
        lambda: type(working.agent).objects.update(
            prompt_price=Decimal(1), completion_price=Decimal(1), max_cost="0.00001"
        )
    )
    working.script(["a", call("current_time"), used(10, 10)], "never")
    run = await working.ended(await working.submit())
    assert (run.status, run.stop_reason, run.cost) == ("completed", "budget", Decimal("0.00002"))


async def test_a_cost_past_all_bounds_can_still_be_written(working) -> None:
    """E1: a run must not fail because of what its provider says that it used."""
    await in_writer(lambda: type(working.agent).objects.update(prompt_price=Decimal(999999)))
    working.script(["a", used(2**31 - 1, 2**31 - 1)])
    run = await working.ended(await working.submit())
    assert (run.status, run.output, run.cost) == ("completed", "a", Decimal("999999.99999999"))


async def test_a_time_limit_ends_a_run_as_max_time_and_keeps_the_text(working) -> None:
    """L1, L2."""
    working.script(["so far", Gate()])
    run = await working.ended(await working.submit(max_seconds=0.05))
    await working.check(run)
    assert (run.status, run.stop_reason, run.output) == ("completed", "max_time", "so far")


async def test_the_assistant_message_is_committed_before_its_tool_starts(working) -> None:
    """T1, T2: seen from inside the tools."""
    stored = []

    async def look(arguments, context):
        stored.append(
            await in_reader(lambda: list(Message.objects.order_by("position").values_list("role", "content")))
        )
        return "looked"

    working.change_tool("current_time", function=look)
    working.script(["see", call("current_time"), call("current_time")])
    run = await working.ended(await working.submit())
    await working.check(run)
    assert [[role for role, _ in rows] for rows in stored] == [["user", "assistant"], ["user", "assistant", "tool"]]


async def test_what_is_shown_is_stored(working) -> None:
    """T5: whatever a watcher gets is in the log at that moment."""
    working.script(["a", "b", call("calculator", {"expression": "1+1"})], ["c", "d"])
    run = await working.submit()
    seen = []
    async for batch in events.follow_run(run):
        logged = await in_reader(lambda: dict(Event.objects.filter(run=run).values_list("seq", "line")))
        for line in batch:
            assert logged[line.seq] == line.text
            seen.append(line.seq)
    assert seen == list(range(1, len(seen) + 1))


async def test_notes_are_kept_for_the_conversation(working) -> None:
    working.script(["", call("remember", {"key": "cat", "text": "Minka"})], ["", call("recall")], "Minka it is")
    run = await working.ended(await working.submit())
    await working.check(run)
    assert "Minka" in str((await working.messages(run))[4].content)
    assert await in_reader(Note.objects.filter(conversation=run.conversation).count) == 1


async def test_nul_characters_of_a_model_do_no_harm(working) -> None:
    working.script(["a\0b", call("calculator", '{"expression": "1\0"}'), call("no\0tool")], "fine\0")
    run = await working.ended(await working.submit())
    await working.check(run)
    assert run.output == "fine"


async def test_a_changed_configuration_is_used_from_the_next_run_on(working) -> None:
    """P3."""
    first = await working.ended(await working.submit())
    before = await working.live_agent(first)
    await in_writer(lambda: type(working.agent).objects.update(instructions="Be brief."))
    second = await working.ended(await working.submit(conversation=first.conversation))
    assert working.provider.requests[-1].system_prompt == "Be brief."
    assert await working.live_agent(second) is not before


async def test_a_worker_that_works_is_seen_and_one_that_left_is_not(working) -> None:
    await working.until(lambda: working.worker is not None)
    await working.ended(await working.submit())
    assert await in_reader(Worker.objects.count) == 1
    await working.stop_worker()
    assert await in_reader(Worker.objects.count) == 0


async def test_a_watcher_that_the_layer_forgot_joins_again(working, monkeypatch) -> None:
    """R4, R5: a layer drops members after a day, or when they were slow."""
    monkeypatch.setattr(events, "SILENCE_SECONDS", 0.01)
    gate = Gate()
    working.script(["a", gate, "b"])
    run = await working.submit()
    seen: list[str] = []

    async def watch() -> None:
        async for batch in events.follow_run(run):
            seen.extend(line.type for line in batch)

    watching = asyncio.create_task(watch())
    await gate.reached.wait()
    groups = get_channel_layer().groups
    name = events.group_of(run.conversation.public_id)
    groups[name].clear()
    await working.until(lambda: bool(groups[name]))
    gate.open()
    await watching
    assert seen == await working.types(run)


# -- shutdown, crash, replacement


async def test_a_shutdown_hands_runs_back_and_they_go_on_without_repeating_a_word(stage) -> None:
    """T4, T5: a shutdown is not a stop."""
    await stage.start_worker()
    gate = Gate()
    stage.script(["one two", gate], ["one two three"])
    run = await stage.submit()
    await gate.reached.wait()
    await stage.shown(run, "one two")
    await stage.stop_worker()
    back = await stage.fresh(run)
    assert (back.status, back.worker) == ("queued", "")
    await stage.start_worker()
    run = await stage.ended(run)
    await stage.check(run)
    assert (run.status, run.output, run.steps) == ("completed", "one two three", 1)
    told = await stage.events(run)
    assert "".join(event["text"] for event in told if event["type"] == "message.delta") == "one two three"


async def test_a_run_whose_worker_is_lost_goes_on_and_repeats_no_tool(stage) -> None:
    """T4."""
    await stage.start_worker()
    gate = Gate()

    async def hang(arguments, context):
        await gate.wait()

    stage.change_tool("remember", function=hang, is_repeatable=False)
    stage.script(["do it", call("remember", {"key": "k", "text": "t"}), call("current_time")], "went on")
    run = await stage.submit()
    await gate.reached.wait()
    await stage.lose_worker(run)
    await stage.start_worker()
    run = await stage.ended(run)
    await stage.check(run)
    assert (run.status, run.output, run.losses) == ("completed", "went on", 1)
    messages = await stage.messages(run)
    assert "outcome unknown" in str(messages[2].content)
    assert [message.role for message in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert await in_reader(Note.objects.count) == 0


async def test_a_run_that_is_lost_again_and_again_fails_as_worker_lost(stage) -> None:
    """E1."""
    gates = [Gate(), Gate(), Gate()]
    stage.script(*[["said", gate] for gate in gates])
    run = await stage.submit()
    for attempt in range(3):
        await stage.start_worker()
        await gates[attempt].reached.wait()
        await stage.shown(run, "said")
        await stage.lose_worker(run)
    await stage.start_worker()
    run = await stage.ended(run)
    await stage.check(run)
    assert (run.status, run.stop_reason, run.error["error_type"]) == ("failed", "error", "worker_lost")
    assert run.output == "said"


async def test_a_frozen_worker_that_was_replaced_writes_nothing(stage) -> None:
    """T4: the fence."""
    await stage.start_worker()
    gate = Gate()
    stage.script(["frozen", gate, " and thawed"], "frozen solid")
    run = await stage.submit()
    await gate.reached.wait()
    await stage.shown(run, "frozen")
    await stage.lose_worker(run)
    await stage.start_worker()
    run = await stage.ended(run)
    assert run.output == "frozen solid"
    gate.open()
    await stage.thaw()
    await stage.check(run)
    assert "thawed" not in str(await stage.events(run))


@pytest.mark.parametrize("most", [3, 1])
async def test_a_lost_run_that_was_told_to_stop_ends_as_cancelled(stage, settings, most: int) -> None:
    """C2, C3: also one that nobody would take up again."""
    settings.AGENTSITE = {**settings.AGENTSITE, "MAX_ATTEMPTS": most}
    await stage.start_worker()
    gate = Gate()
    stage.script(["half", gate])
    run = await stage.submit()
    await gate.reached.wait()
    await stage.shown(run, "half")
    await stage.lose_worker(run)
    await stage.stop(run)
    await stage.start_worker()
    run = await stage.ended(run)
    await stage.check(run)
    assert (run.status, run.stop_reason, run.output) == ("cancelled", "cancelled", "half")
    assert run.receipt["requested_by"] == "alice"
    assert (await stage.messages(run))[-1] == Said("assistant", "half", partial=True)
