"""Draining: a worker that takes no new runs, goes on with those it has, and can be asked to take some again."""

import asyncio
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from runs import actions
from runs.database import in_writer
from runs.models import Run, Worker
from tests.factories import make_agent, make_run
from tests.runs.stage import Stage
from tests.scripted import Gate


async def test_a_worker_drains_and_takes_runs_again(working: Stage) -> None:
    worker = working.worker
    assert worker is not None
    gate = Gate()
    working.script(["one ", gate, "two"], ["three"])
    first = await working.submit()
    await working.shown(first, "one")
    await in_writer(actions.drain_worker, worker.name)
    await working.until(lambda: worker.is_draining)
    second = await working.submit()
    gate.open()
    first = await working.ended(first)
    assert (first.status, first.output) == ("completed", "one two")
    # Whatever it hears and however often it looks.
    worker._look_for_all()
    while worker._work.is_set():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert (await working.fresh(second)).status == "queued"

    await in_writer(actions.drain_worker, worker.name, is_draining=False)
    second = await working.ended(second)
    assert (second.status, second.output) == ("completed", "three")


@pytest.mark.django_db
def test_a_worker_that_has_not_heard_that_it_drains_takes_nothing() -> None:
    """The ring got lost, and its next report is seconds away."""
    make_agent()
    run = make_run(User.objects.create_user("alice"))
    actions.check_in("w1")
    for claim_some in (actions.claim_runs, actions.claim_lost_runs):
        Worker.objects.update(is_draining=True)
        assert claim_some("w1", 10) == []
        Worker.objects.update(is_draining=False)
        assert [claim.run for claim in claim_some("w1", 10)] == [run]
        Run.objects.update(lease_expires_at=timezone.now() - timedelta(hours=1))
    assert Run.objects.get().losses == 1, "it was lost once, however many looked at it"


async def test_a_worker_that_was_forgotten_reports_anew(working: Stage) -> None:
    """It was frozen for a day, and others have cleared its row away."""
    worker = working.worker
    assert worker is not None
    await in_writer(Worker.objects.all().delete)
    await worker._report()
    assert await in_writer(lambda: Worker.objects.get().name) == worker.name


@pytest.mark.django_db
def test_an_admin_drains_a_worker_and_somebody_who_may_not_change_it_does_not(client: Client) -> None:
    now = timezone.now()
    pool = {"size": 12345, "hits": 3, "misses": 1}
    worker = Worker.objects.create(name="w1", started_at=now, seen_at=now, active_runs=2, max_runs=10, pool=pool)
    order = {"action": "drain", "_selected_action": [worker.pk]}
    admin = User.objects.create_superuser("admin")
    client.force_login(admin)
    page = client.get("/admin/runs/worker/").content.decode()
    assert "takes runs" in page
    assert "2 / 10" in page
    assert client.get("/admin/runs/run/?worker=w1").status_code == 200
    assert "75% of 4 runs" in page
    assert "12345" in page
    client.post("/admin/runs/worker/", order)
    assert Worker.objects.get().is_draining
    assert "draining" in client.get("/admin/runs/worker/").content.decode()
    client.post("/admin/runs/worker/", {**order, "action": "take_runs_again"})
    assert not Worker.objects.get().is_draining

    client.force_login(User.objects.create_user("staff", is_staff=True))
    client.post("/admin/runs/worker/", order)
    assert not Worker.objects.get().is_draining
