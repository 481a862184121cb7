"""Clocks that jump, and clocks that disagree: leases go by the database's."""

import asyncio
from datetime import datetime, timedelta
from unittest import mock

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from runs import actions
from runs.database import in_writer
from runs.models import Approval, Run
from tests.factories import make_agent, make_run, start_run
from tests.runs.stage import Stage
from tests.scripted import Gate

real_now = timezone.now


def in_an_hour() -> datetime:
    return real_now() + timedelta(hours=1)


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor == "sqlite", reason="there the process's clock is the database's")
def test_a_machine_whose_clock_is_ahead_takes_nothing_from_the_living() -> None:
    """T4"""
    make_agent()
    run = start_run(make_run(User.objects.create_user("alice")))
    with mock.patch("django.utils.timezone.now", in_an_hour):
        assert actions.claim_lost_runs("ahead", 10) == []
        actions.renew_leases(run.worker, [run.pk])
    lease = Run.objects.get(pk=run.pk).lease_expires_at
    assert lease is not None
    assert lease < real_now() + timedelta(minutes=1)


@pytest.mark.django_db
def test_a_run_that_a_fast_clock_queued_in_the_future_is_taken_all_the_same() -> None:
    """T5: by the look that finds what every delivery has forgotten."""
    make_agent()
    alice = User.objects.create_user("alice")
    run = make_run(alice)
    assert actions.claim_runs("worker", 10, overdue_seconds=60) == []
    Run.objects.filter(pk=run.pk).update(queued_at=in_an_hour())
    assert [claim.run for claim in actions.claim_runs("worker", 10, overdue_seconds=60)] == [run]


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor == "sqlite", reason="there the process's clock is the database's")
def test_a_machine_whose_clock_is_ahead_decides_on_nothing_and_removes_nothing() -> None:
    """C7, P8: what waits for a person, and what can still be restored, is not one worker's to end."""
    make_agent()
    alice = User.objects.create_user("alice")
    run = make_run(alice)
    Run.objects.filter(pk=run.pk).update(status="requires_approval")
    soon = real_now() + timedelta(minutes=30)
    asked = Approval.objects.create(
        run=run, tool_call_id="call", position=1, name="mark", requested_at=real_now(), expires_at=soon
    )
    deleted = make_run(alice).conversation
    actions.delete_conversation(deleted, by="alice", via="api")
    trash = make_run(alice).conversation
    actions.delete_conversation(trash, by="alice", via="api")
    actions.note_task_ended(trash)
    with mock.patch("django.utils.timezone.now", return_value=real_now() + timedelta(days=400)):
        actions.expire_approvals()
        assert actions.conversations_to_end(0, 10) == []
        assert not actions.purge_some()
    asked.refresh_from_db()
    assert asked.status == "pending"


async def test_a_clock_that_jumps_takes_no_run_from_its_own_worker(working: Stage) -> None:
    """T4, C2: as after a night's sleep of the machine, or with a new time server."""
    gate = Gate()
    working.script(["one ", gate, "two"])
    run = await working.submit()
    await working.shown(run, "one")
    past = real_now() - timedelta(hours=1)
    await in_writer(lambda: Run.objects.filter(pk=run.pk).update(lease_expires_at=past))
    worker = working.worker
    assert worker is not None
    looks = 0
    claim = worker._claim

    async def counted(*arguments: object) -> bool:
        nonlocal looks
        looks += 1
        return await claim(*arguments)  # type: ignore[arg-type]

    worker._claim = counted  # type: ignore[assignment, method-assign]
    async with asyncio.timeout(20):
        while looks < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    gate.open()
    run = await working.ended(run)
    await working.check(run)
    assert (run.status, run.output, run.attempt, run.losses) == ("completed", "one two", 1, 0)
