"""What a lost worker's run has used is not forgotten, and a worker that is known to be gone is not waited for."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs import actions
from runs.database import in_reader, in_writer
from runs.models import Note, Run, Status, Worker
from runs.models.workers import SEEN_SECONDS
from runs.worker import report_seconds
from tests.runs.stage import Stage
from tests.scripted import Gate, call, used


async def lose_in_tool(stage: Stage, **order: Any) -> Run:
    """A run whose worker is lost while its first tool runs, after a model call of 150 tokens."""
    gate = Gate()

    async def hang(arguments: object, context: object) -> None:
        await gate.wait()

    await stage.start_worker()
    stage.change_tool("remember", function=hang, is_repeatable=False)
    stage.script(["do it", call("remember", {"key": "k", "text": "t"}), used(100, 50)], ["went on", used(7, 3)])
    run = await stage.submit(**order)
    await gate.reached.wait()
    await stage.lose_worker(run)
    return run


async def test_tokens_and_seconds_are_stored_with_each_message(stage: Stage) -> None:
    """L1: what is used is known also when the worker is gone."""
    run = await stage.fresh(await lose_in_tool(stage))
    assert (run.steps, run.prompt_tokens, run.completion_tokens) == (1, 100, 50)
    assert run.active_seconds > 0
    assert run.first_token_at is not None

    await stage.start_worker()
    ended = await stage.ended(run)
    await stage.check(ended)
    assert (ended.status, ended.output, ended.steps) == ("completed", "went on", 2)
    assert (ended.prompt_tokens, ended.completion_tokens) == (107, 53)
    assert ended.active_seconds > run.active_seconds
    assert (ended.started_at, ended.first_token_at) == (run.started_at, run.first_token_at)


async def test_a_budget_holds_across_a_lost_worker(stage: Stage) -> None:
    """L1, L2: the model is not called again."""
    run = await lose_in_tool(stage, max_tokens=150)
    await stage.start_worker()
    run = await stage.ended(run)
    await stage.check(run)
    assert (run.status, run.stop_reason) == ("completed", "budget")
    assert len(stage.provider.requests) == 1


async def test_a_time_limit_holds_across_a_lost_worker(stage: Stage) -> None:
    """L1: what a lost worker has spent is spent."""
    run = await lose_in_tool(stage, max_seconds=600)
    await in_writer(lambda: Run.objects.filter(pk=run.pk).update(active_seconds=600))
    await stage.start_worker()
    run = await stage.ended(run)
    await stage.check(run)
    assert (run.status, run.stop_reason) == ("completed", "max_time")
    assert len(stage.provider.requests) == 1


async def test_the_runs_of_workers_that_are_known_to_be_gone_are_taken_at_once(stage: Stage) -> None:
    """T4: no lease has to run out first. Runs that wait or have ended are left alone."""

    def leave_orphans() -> tuple[Run, Run]:
        order = actions.RunOrder([{"role": "user", "content": "hello"}])
        orphan, ended = (actions.submit_run(stage.alice, order) for _ in range(2))
        actions.claim_runs("gone", 10)
        Worker.objects.create(name="gone", started_at=orphan.queued_at, seen_at=orphan.queued_at)
        Run.objects.filter(pk=ended.pk).update(status=Status.COMPLETED, lease_expires_at=None)
        return orphan, actions.submit_run(stage.alice, order)

    orphan, waiting = await in_writer(leave_orphans)
    assert await in_writer(actions.claim_lost_runs, "heir", 10) == []
    await in_writer(actions.release_orphans)
    assert await in_reader(Worker.objects.count) == 0
    [claim] = await in_writer(actions.claim_lost_runs, "heir", 10)
    assert (claim.run.pk, claim.run.worker, claim.run.attempt, claim.run.losses) == (orphan.pk, "heir", 2, 1)
    assert (await stage.fresh(waiting)).lease_expires_at is None


# -- a history that came with the input


CALL = {"id": "theirs", "type": "function", "function": {"name": "remember", "arguments": '{"key": "k", "text": "t"}'}}
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "before"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "user", "content": "now"},
]


async def lose_with_history(stage: Stage, **order: Any) -> Run:
    """A run whose input holds a call that nobody answered, and whose worker is lost while the model speaks."""
    gate = Gate()
    await stage.start_worker()
    stage.script(["half", gate], "whole")
    run = await stage.submit(messages=HISTORY, **order)
    await gate.reached.wait()
    await stage.shown(run, "half")
    await stage.lose_worker(run)
    return run


async def test_a_worker_that_reports_keeps_its_runs(stage: Stage) -> None:
    """T4: and only those that it says it works on."""
    mine, left = await stage.submit("mine"), await stage.submit("left")
    await in_writer(actions.claim_runs, "living", 10)
    past = timezone.now() - timedelta(seconds=1)
    await in_writer(lambda: Run.objects.update(lease_expires_at=past))
    await in_writer(actions.report, "living", [mine.pk])
    taken = await in_writer(actions.claim_lost_runs, "other", 10)
    assert [claim.run.pk for claim in taken] == [left.pk]


async def test_a_stop_of_a_run_that_a_leaving_worker_hands_back_needs_no_other_worker(stage: Stage) -> None:
    """C1, C2: a stop that it did not hear in its last moment."""
    run = await stage.submit()
    await in_writer(actions.claim_runs, "leaving", 10)
    assert (await stage.stop(run)).status == "running"
    await in_writer(actions.check_out, "leaving")
    run = await stage.fresh(run)
    await stage.check(run)
    assert (run.status, run.receipt["requested_by"]) == ("cancelled", "alice")


async def test_a_call_in_the_input_is_never_taken_for_one_of_the_run(stage: Stage) -> None:
    """T4, L1: it is not executed, what was asked is not lost, and no step of the run is used up by it."""
    run = await lose_with_history(stage, max_steps=1)
    await stage.start_worker()
    run = await stage.ended(run)
    assert (run.status, run.stop_reason, run.output, run.steps) == ("completed", "end_turn", "whole", 1)
    assert await in_reader(Note.objects.count) == 0
    assert [message.text for message in stage.provider.requests[-1].messages if message.role == "user"] == [
        "before",
        "now",
    ]


async def test_a_lost_run_with_a_call_in_its_input_can_be_stopped(stage: Stage) -> None:
    """C2, C12: and its receipt speaks of no tools, because the run called none."""
    run = await lose_with_history(stage)
    await stage.stop(run)
    await stage.start_worker()
    run = await stage.ended(run)
    assert (run.status, run.output) == ("cancelled", "half")
    assert [run.receipt[f"tools_{state}"] for state in actions.CALL_STATES] == [[], [], []]
    assert [message.role for message in await stage.messages(run)] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("lease", [2, 15, 600])
def test_a_worker_reports_before_its_lease_runs_out_and_before_it_counts_as_gone(settings: Any, lease: float) -> None:
    settings.AGENTSITE = {**settings.AGENTSITE, "LEASE_SECONDS": lease}
    # It looks once a second, and one look may be slow.
    assert report_seconds() + 1 < min(lease, SEEN_SECONDS)
