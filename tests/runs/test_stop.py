"""Stop, at every moment of a run's life. Races are made by holding the run at the moment, never by waiting."""

import asyncio
import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.agent import Agent as LiveAgent
from gateway.errors import ProviderError
from gateway.messages import Message as Said
from gateway.providers.base import TextDelta
from runs import actions, bell
from runs.actions import Refused
from runs.database import in_reader, in_writer
from runs.execution import Execution
from runs.models import Run
from tests.runs.moments import Moments
from tests.scripted import Gate, ScriptedProvider, call


async def stopped(stage, run: Run) -> Run:
    run = await stage.ended(run)
    await stage.check(run)
    assert (run.status, run.stop_reason) == ("cancelled", "cancelled")
    types = await stage.types(run)
    assert types[-1] == "run.cancelled"
    assert "run.completed" not in types
    return run


async def goes_on(stage, run: Run) -> None:
    """C8: the conversation's next run sees everything and completes."""
    before = await stage.messages(run)
    stage.script("and on it goes")
    following = await stage.ended(await stage.submit("go on", conversation=run.conversation))
    await stage.check(following)
    assert following.status == "completed"
    assert list(stage.provider.requests[-1].messages) == [*before, Said("user", "go on")]


async def test_a_stop_before_the_worker_took_the_run_calls_no_model(stage) -> None:
    """C5, C10."""
    run = await stage.submit("never mind")
    ended = await stage.stop(run)
    assert ended.status == "cancelled"
    await stage.start_worker()
    run = await stopped(stage, run)
    assert stage.provider.requests == []
    assert await stage.types(run) == ["run.queued", "run.cancelled"]
    assert await stage.messages(run) == [Said("user", "never mind")]
    assert await in_writer(actions.claim_runs, "somebody", 10) == []
    assert await in_writer(actions.claim_lost_runs, "somebody", 10) == []
    await goes_on(stage, run)


async def test_a_stop_of_a_run_that_waits_behind_another_leaves_that_one_alone(working) -> None:
    """C5, R16."""
    gate = Gate()
    working.script(["first", gate, call("current_time")], " answer", "third")
    one = await working.submit("1")
    await gate.reached.wait()
    two = await working.submit("2", conversation=one.conversation)
    three = await working.submit("3", conversation=one.conversation)
    await working.stop(two)
    assert (await working.fresh(two)).status == "cancelled"
    gate.open()
    one = await working.ended(one)
    three = await working.ended(three)
    assert (one.status, three.status) == ("completed", "completed")
    await working.check(three)
    contents = [message.content for message in await working.messages(one) if message.role != "tool"]
    assert contents == ["1", "first", " answer", "2", "3", "third"]


@pytest.mark.parametrize("via", ["api", "console"])
async def test_a_stop_before_the_first_byte_reaches_the_model(working, monkeypatch, via: str) -> None:
    """C1, R7."""
    reasons = []
    interrupt = LiveAgent.interrupt
    monkeypatch.setattr(
        LiveAgent, "interrupt", lambda agent, reason, *more: (reasons.append(reason), interrupt(agent, reason, *more))
    )
    gate = Gate()
    working.script([gate])
    run = await working.submit()
    await gate.reached.wait()
    answer = await working.stop(run, via=via)
    assert answer.shown_status == "stopping"
    await stopped(working, run)
    assert reasons == [f"Stop requested via {'API' if via == 'api' else 'console'}"]
    assert working.provider.endings == ["cut"]
    await goes_on(working, run)


async def test_a_stop_in_the_middle_of_the_answer_keeps_it(working) -> None:
    """C1, C2, C3."""
    gate = Gate()
    working.script(["so far ", "so good", gate])
    run = await working.submit()
    await working.shown(run, "so good")
    await working.stop(run)
    run = await stopped(working, run)
    assert run.output == "so far so good"
    assert (await working.messages(run))[-1] == Said("assistant", "so far so good", partial=True)
    types = await working.types(run)
    assert types[-3:] == ["run.stopping", "message.completed", "run.cancelled"]
    await goes_on(working, run)


async def test_without_token_streaming_nothing_of_the_cut_step_is_shown(working) -> None:
    """C4, C3."""
    gate = Gate()
    working.script(["whole", call("current_time")], ["half", gate])
    run = await working.submit(has_token_streaming=False)
    await gate.reached.wait()
    await working.stop(run)
    run = await stopped(working, run)
    shown = [event.get("text") for event in await working.events(run) if event["type"].startswith("message.")]
    assert shown == ["whole"]
    assert (await working.messages(run))[-1] == Said("assistant", "half", partial=True)
    await goes_on(working, run)


async def test_a_stop_in_a_tool_interrupts_it_and_starts_no_other(working) -> None:
    """C6."""
    working.script(["", call("wait", {"seconds": 600}, id="a"), call("current_time", id="b")])
    run = await working.submit()
    await working.until(lambda: any(task.get_name() == "call wait" for task in asyncio.all_tasks()))
    await working.stop(run)
    run = await stopped(working, run)
    messages = await working.messages(run)
    assert [message.tool_call_id for message in messages[2:]] == ["a", "b"]
    assert "Interrupted" in str(messages[2].content)
    assert "Not executed" in str(messages[3].content)
    assert not any(task.get_name() == "call wait" for task in asyncio.all_tasks())
    assert run.receipt["model_closed_ms"] is None, "it was closed before the stop"
    assert (run.receipt["tools_interrupted"], run.receipt["tools_not_started"]) == (["wait"], ["current_time"])
    await goes_on(working, run)


async def test_a_stop_in_a_tool_that_ignores_it_ends_the_run_all_the_same(working, caplog) -> None:
    """C1, C6."""
    release, begun = asyncio.Event(), asyncio.Event()

    async def stubborn(arguments, context):
        begun.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    working.change_tool("wait", function=stubborn)
    working.script(["", call("wait", {"seconds": 1})])
    run = await working.submit()
    await begun.wait()
    await working.stop(run)
    await stopped(working, run)
    assert "abandoned" in caplog.text
    release.set()
    await working.until(lambda: not any(task.get_name() == "call wait" for task in asyncio.all_tasks()))
    await goes_on(working, run)


async def test_a_stop_of_work_that_does_not_end_ends_the_run_all_the_same(working, monkeypatch, caplog) -> None:
    """C1, C8: a library on the way to the model that is deaf. The conversation goes on with another agent."""
    monkeypatch.setattr("runs.execution.PATIENCE", 0.01)
    release, begun = asyncio.Event(), asyncio.Event()

    async def deaf(provider, answer):
        yield [TextDelta("half")]
        begun.set()
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    play = ScriptedProvider._play
    monkeypatch.setattr(ScriptedProvider, "_play", deaf)
    run = await working.submit()
    await working.shown(run, "half")
    await begun.wait()
    try:
        await working.stop(run)
        run = await stopped(working, run)
        assert run.output == "half"
        assert "left to itself" in caplog.text
        monkeypatch.setattr(ScriptedProvider, "_play", play)
        await goes_on(working, run)
    finally:
        release.set()
    await working.until(lambda: not any(task.get_name() == f"work {run}" for task in asyncio.all_tasks()))


async def test_a_stop_when_interrupting_raises_still_ends_the_run(working, monkeypatch, caplog) -> None:
    """R8."""
    gate = Gate()
    working.script(["half", gate])
    run = await working.submit()
    await working.shown(run, "half")

    def broken(agent, reason, cause=None):
        raise RuntimeError("interrupt is broken")

    monkeypatch.setattr(LiveAgent, "interrupt", broken)
    answer = await working.stop(run)
    assert answer.shown_status == "stopping"
    run = await stopped(working, run)
    assert run.output == "half"
    assert "interrupt is broken" in caplog.text
    monkeypatch.undo()
    monkeypatch.setattr("runs.assembly.make_provider", lambda provider: working.provider)
    await goes_on(working, run)


async def hold_before_the_last_write(monkeypatch) -> Gate:
    gate = Gate()
    leave = Execution._leave

    async def held(execution, outcome):
        await gate.wait()
        return await leave(execution, outcome)

    monkeypatch.setattr(Execution, "_leave", held)
    return gate


async def test_a_stop_that_comes_while_the_answer_is_complete_but_not_committed_wins(working, monkeypatch) -> None:
    """C2, C10."""
    gate = await hold_before_the_last_write(monkeypatch)
    working.script("all of it")
    run = await working.submit()
    await gate.reached.wait()
    await working.stop(run)
    gate.open()
    run = await stopped(working, run)
    assert run.output == "all of it"
    assert await working.messages(run) == [Said("user", "hello"), Said("assistant", "all of it")]
    assert run.receipt["kept_words"] == 3
    await goes_on(working, run)


async def test_a_stop_that_comes_with_the_step_limit_wins(working, monkeypatch) -> None:
    """C10."""
    gate = await hold_before_the_last_write(monkeypatch)
    working.script(["", call("current_time")])
    run = await working.submit(max_steps=1)
    await gate.reached.wait()
    await working.stop(run)
    gate.open()
    await stopped(working, run)


async def test_a_stop_that_comes_with_a_failure_wins(working, monkeypatch) -> None:
    """C2, C10."""
    gate = await hold_before_the_last_write(monkeypatch)
    working.script([ProviderError("llm_error", "broken")])
    run = await working.submit()
    await gate.reached.wait()
    await working.stop(run)
    gate.open()
    assert (await stopped(working, run)).error is None


async def test_a_stop_that_comes_right_after_the_end_is_refused(working) -> None:
    """R9, C2."""
    run = await working.ended(await working.submit())
    with pytest.raises(Refused) as refusal:
        await working.stop(run)
    assert (refusal.value.status, refusal.value.code) == (404, "run_not_active")
    await working.check(run)
    assert (await working.fresh(run)).status == "completed"


async def test_stop_and_completion_at_the_same_instant_have_one_end(working) -> None:
    """C2: whoever comes first, there is one terminal event, and the answer of stop agrees with it."""
    for _ in range(30):
        gate = Gate()
        working.script(["x", gate])
        run = await working.submit()
        await gate.reached.wait()
        gate.open()
        stopping = asyncio.create_task(working.stop(run))
        try:
            await stopping
            was_refused = False
        except Refused:
            was_refused = True
        run = await working.ended(run)
        await working.check(run)
        assert run.status == ("completed" if was_refused else "cancelled")


async def test_a_second_stop_changes_nothing(working, monkeypatch) -> None:
    """C10."""
    end = await hold_before_the_last_write(monkeypatch)
    working.script(["half", Gate()])
    run = await working.submit()
    await working.shown(run, "half")
    first = await working.stop(run, by="alice")
    await end.reached.wait()
    second = await working.stop(run, by="charlie")
    [execution] = working.worker.executions.values()
    execution.stop("charlie", "api")  # as the worker does, which finds it in the database every second
    end.open()
    assert second.stop_requested_at == first.stop_requested_at
    run = await stopped(working, run)
    assert run.receipt["requested_by"] == "alice"
    assert (await working.types(run)).count("run.stopping") == 1


async def test_a_stop_whose_ring_got_lost_is_found_in_the_database(working, monkeypatch) -> None:
    """C1: a lost signal costs a second and never the stop."""
    gate = Gate()
    working.script(["half", gate])
    run = await working.submit()
    await working.shown(run, "half")
    ring = bell.ring
    monkeypatch.setattr(
        bell, "ring", lambda group, message: None if message["type"] == "stop" else ring(group, message)
    )
    await working.stop(run)
    await stopped(working, run)


async def test_a_stop_while_the_run_is_being_claimed_is_heard(working, monkeypatch) -> None:
    """C1, C5: the ring comes when the claim is committed, but the worker does not know of it yet."""
    claimed, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    claim_runs = actions.claim_runs

    def slow(*args, **kwargs):
        claims = claim_runs(*args, **kwargs)
        if claims:
            loop.call_soon_threadsafe(claimed.set)
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
        return claims

    monkeypatch.setattr(actions, "claim_runs", slow)
    working.script(["never", Gate()])
    run = await working.submit()
    await claimed.wait()
    try:
        await working.stop(run)
        await working.until(lambda: run.pk in working.worker._early_stops)
    finally:
        go_on.set()
    await stopped(working, run)
    assert working.provider.requests == []


async def test_a_stop_in_the_moment_before_the_work_takes_its_first_step_is_heard(working, monkeypatch, caplog) -> None:
    """C1: the agent has been handed its run and does not know of it yet."""
    held = Gate()
    bring_up_to_date, run_turn, ring = Execution._bring_up_to_date, LiveAgent.run, bell.ring

    async def bring_up_to_date_later(execution, agent):
        await held.wait()
        return await bring_up_to_date(execution, agent)

    def run_and_stop(agent, turn):
        [execution] = working.worker.executions.values()
        asyncio.get_running_loop().call_soon(execution.stop, "alice", "api")
        return run_turn(agent, turn)

    monkeypatch.setattr(Execution, "_bring_up_to_date", bring_up_to_date_later)
    monkeypatch.setattr(LiveAgent, "run", run_and_stop)
    monkeypatch.setattr(
        bell, "ring", lambda group, message: None if message["type"] == "stop" else ring(group, message)
    )
    monkeypatch.setattr("runs.worker.LOOK_SECONDS", 3600)
    working.script(["never", Gate()])
    run = await working.submit()
    await held.reached.wait()
    await working.stop(run)
    held.open()
    await stopped(working, run)
    assert not caplog.records


async def test_a_stop_ends_the_wait_for_a_retry(working) -> None:
    """E2."""
    working.script([ProviderError("llm_rate_limit", "wait", transient=True, retry_after=200)], "never")
    run = await working.submit()
    await working.told(run, "retry.scheduled")
    await working.stop(run)
    await stopped(working, run)
    assert len(working.provider.requests) == 1


async def test_every_stop_leaves_a_receipt(working) -> None:
    """C12."""
    gate = Gate()
    working.script(["three whole words", call("current_time", id="done")], ["and half", gate])
    run = await working.submit()
    await working.shown(run, "and half")
    await working.stop(run, by="charlie", via="console")
    run = await stopped(working, run)
    receipt = run.receipt
    assert receipt == (await working.events(run))[-1]["receipt"]
    assert (receipt["requested_by"], receipt["requested_via"]) == ("charlie", "console")
    assert receipt["requested_at"] == run.stop_requested_at.isoformat()
    assert 0 <= receipt["model_closed_ms"] <= receipt["ended_ms"]
    assert (receipt["kept_words"], receipt["kept_characters"]) == (5, len("three whole words\nand half"))
    assert receipt["tools_finished"] == ["current_time"]
    assert receipt["tools_interrupted"] == receipt["tools_not_started"] == []
    assert receipt["tokens_after_request"] == 0


async def test_the_receipt_counts_what_the_model_sent_after_the_request(working, monkeypatch) -> None:
    """C12: here the worker hears of the stop only after the model has gone on."""
    gate = Gate()
    monkeypatch.setattr("runs.worker.LOOK_SECONDS", 3600)
    stop = Execution.stop
    monkeypatch.setattr(Execution, "stop", lambda execution, by, via: None)
    working.script(["before ", gate, "two ", "pieces", Gate()])
    run = await working.submit()
    await working.shown(run, "before")
    await working.stop(run)
    gate.open()
    await working.shown(run, "pieces")
    [execution] = working.worker.executions.values()
    stop(execution, "alice", "api")
    run = await stopped(working, run)
    assert run.receipt["tokens_after_request"] == 2
    assert run.receipt["kept_characters"] == len("before two pieces")


async def test_sixty_stops_twenty_at_a_time_close_sixty_connections(working) -> None:
    """C1, C11."""
    seats = asyncio.Semaphore(20)
    working.script(*[["some text", Gate()] for _ in range(60)])

    async def one(number: int) -> None:
        async with seats:
            run = await working.submit(str(number))
            await working.shown(run, "some text")
            await working.stop(run)
            await stopped(working, run)

    await asyncio.gather(*(one(number) for number in range(60)))
    assert working.provider.endings == ["cut"] * 60
    assert working.provider.open_streams == 0


# -- any sequence, any moment

tool_calls = st.sampled_from(
    [
        ("call", "current_time", {}),
        ("call", "calculator", {"expression": "1/0"}),
        ("call", "wait", {"seconds": 0}),
        ("call", "nobody", {}),
        ("call", "calculator", "not json"),
    ]
)
failures = st.sampled_from([("error", True), ("error", False)])
# Twice the calls: a stop meets several open ones only if most answers have some.
model_items = st.one_of(st.text(min_size=1, max_size=5), tool_calls, tool_calls, failures)
scripts = st.lists(st.lists(model_items, min_size=1, max_size=4), min_size=1, max_size=4)


def build(answer):
    for item in answer:
        if isinstance(item, str):
            yield item
        elif item[0] == "call":
            yield call(item[1], item[2])
        else:
            yield ProviderError("llm_error", "scripted", transient=item[1], retry_after=0)


async def stop_when_held(stage, run: Run, moments: Moments) -> tuple[Run, bool]:
    """Stop a run at the chosen moment. The run as it ended, and whether it was stopped: it may never have come to that
    moment, and have ended by itself."""
    reached = asyncio.create_task(moments.reached.wait())
    ending = asyncio.create_task(stage.ended(run))
    await asyncio.wait({reached, ending}, return_when=asyncio.FIRST_COMPLETED)
    reached.cancel()
    was_held = moments.reached.is_set()
    if was_held:
        await stage.stop(run)
        moments.go_on()
    run = await ending
    moments.hold_nowhere()
    return run, was_held


@given(
    script=scripts,
    moment=st.tuples(
        st.sampled_from(("beginning", "model", "commit", "commit", "tool", "tool", "end")),
        st.sampled_from((1, 1, 2, 3, 5)),
    ),
    parallel=st.booleans(),
    streaming=st.booleans(),
    limit=st.integers(1, 4),
)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
async def test_any_script_and_a_stop_at_any_moment_leave_the_promises_kept(
    property_stage, moments: Moments, script, moment: tuple[str, int], parallel: bool, streaming: bool, limit: int
) -> None:
    """C2, C3, C8, C9: exactly one terminal event, seq 1…n, memory equals database, a history that a strict provider
    accepts, a next run that completes."""
    stage = property_stage
    await in_reader(lambda: type(stage.agent).objects.update(has_parallel_tools=parallel))
    stage.script(*[list(build(answer)) for answer in script])
    moments.hold_at(*moment)
    run = await stage.submit(has_token_streaming=streaming, max_steps=limit)
    run, was_stopped = await stop_when_held(stage, run, moments)
    await stage.check(run)
    assert (run.status == "cancelled") == was_stopped
    await goes_on(stage, run)
