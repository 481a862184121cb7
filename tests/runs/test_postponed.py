"""A worker that ends between the record that a tool starts and its start: who leaves in good order says that it never
began, and who crashes cannot."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.utils import timezone

from runs.database import in_reader, in_writer
from runs.models import Note, Run
from runs.worker import Worker
from tests.runs.stage import Stage
from tests.scripted import Gate, call

Before = Callable[[Worker], Awaitable[None]]


def at_first_tool(stage: Stage, monkeypatch: pytest.MonkeyPatch, act: Before) -> None:
    """Do something when `tool.started` is stored, before the loop gets to know of it."""
    worker = stage.worker
    assert worker is not None
    settle = worker.journal._settle
    is_done = False

    async def act_and_settle(page: Any) -> None:
        nonlocal is_done
        if not is_done and any(event.type == "tool.started" for event in page.written):
            is_done = True
            await act(worker)
        await settle(page)

    monkeypatch.setattr(worker.journal, "_settle", act_and_settle)


async def shut_down(worker: Worker) -> None:
    for execution in worker.executions.values():
        execution.shut_down()


async def begin(stage: Stage, **setup: Any) -> Run:
    stage.change_tool("remember", is_repeatable=False)
    calls = [call("remember", {"key": key, "text": "t"}, id=key) for key in ("a", "b")]
    stage.script(["do it", *calls], "went on")
    return await stage.submit(**setup)


@pytest.mark.parametrize("is_parallel", [False, True])
async def test_a_call_that_had_not_begun_is_executed_by_the_next_attempt(
    working: Stage, monkeypatch: pytest.MonkeyPatch, is_parallel: bool
) -> None:
    """T3, T4: once, and with a whole log."""
    await working.change_agent(has_parallel_tools=is_parallel)
    at_first_tool(working, monkeypatch, shut_down)
    run = await working.ended(await begin(working))
    await working.check(run)
    assert (run.status, run.output, run.attempt, run.losses) == ("completed", "went on", 2, 0)
    told = [(event["type"], event["tool_call_id"]) for event in await working.events(run) if "tool_call_id" in event]
    first = ["a", "b"] if is_parallel else ["a"]
    assert told[: 2 * len(first)] == [
        *(("tool.started", key) for key in first),
        *(("tool.postponed", key) for key in first),
    ]
    assert sorted(told[2 * len(first) :]) == sorted(
        (kind, key) for kind in ("tool.started", "tool.completed") for key in "ab"
    )
    assert not any("outcome unknown" in str(message.content) for message in await working.messages(run))
    assert await in_reader(Note.objects.count) == 2


async def test_a_crash_at_the_same_moment_leaves_the_outcome_unknown(
    working: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T4: nobody can tell any more that it never began."""
    gate = Gate()
    at_first_tool(working, monkeypatch, lambda worker: gate.wait())
    run = await begin(working)
    await gate.reached.wait()
    await working.lose_worker(run)
    await working.start_worker()
    run = await working.ended(run)
    await working.check(run)
    answers = [str(message.content) for message in await working.messages(run) if message.role == "tool"]
    assert ["outcome unknown" in answer for answer in answers] == [True, False]
    assert "tool.postponed" not in await working.types(run)
    assert await in_reader(lambda: [note.key for note in Note.objects.all()]) == ["b"]
    gate.open()


async def test_a_crash_in_the_second_attempt_is_not_excused_by_the_first(
    working: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T4: postponed, then started and lost."""
    gate = Gate()

    async def hang(arguments: object, context: object) -> None:
        await gate.wait()

    at_first_tool(working, monkeypatch, shut_down)
    working.change_tool("remember", function=hang)
    run = await begin(working)
    await gate.reached.wait()
    await working.lose_worker(run)
    await working.start_worker()
    working.change_tool("remember")
    run = await working.ended(run)
    await working.check(run)
    assert (await working.types(run)).count("tool.postponed") == 1
    answers = [str(message.content) for message in await working.messages(run) if message.role == "tool"]
    assert "outcome unknown" in answers[0]


async def test_a_stop_that_meets_the_hand_back_knows_that_nothing_had_begun(
    working: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C6, C12"""

    async def stop_unheard(worker: Worker) -> None:
        asked = {"stop_requested_at": timezone.now(), "stop_requested_by": "alice", "stop_requested_via": "api"}
        await shut_down(worker)
        # The writer is this journal's, and free: it waits here.
        await in_writer(lambda: Run.objects.filter(status="running").update(**asked))

    at_first_tool(working, monkeypatch, stop_unheard)
    run = await working.ended(await begin(working))
    await working.check(run)
    assert (run.status, run.receipt["tools_not_started"]) == ("cancelled", ["remember", "remember"])
    assert await in_reader(Note.objects.count) == 0
