"""POST /v1/runs/{id}/stop, as far as it goes without a worker."""

import asyncio

import pytest
from channels.layers import get_channel_layer

from runs import bell
from runs.database import in_reader, in_writer
from runs.models import Run, Status
from tests.api.conftest import CSRF, People
from tests.factories import finished_run, make_run, start_run


async def test_a_running_run_is_told_to_stop_at_once(people: People) -> None:
    """R7: recorded before anybody is told, and the worker is rung."""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(bell.WORKERS, channel)

    answer = await people.as_alice.post(f"/v1/runs/{run.public_id}/stop")

    assert (answer.status, answer.json) == (200, {"run_id": run.public_id, "status": "stopping"})
    async with asyncio.timeout(5):
        rung = await layer.receive(channel)
    assert rung["type"] == "stop"
    stored = await in_reader(Run.objects.get, pk=run.pk)
    assert (stored.stop_requested_by, stored.stop_requested_via) == ("alice", "api")


async def test_a_stop_needs_no_body_and_minds_none(people: People) -> None:
    """R7"""
    for body, kind in ((b"", ""), (b"", "text/plain"), (b"nonsense", "application/json"), (b"x" * 3_000_000, "a/b")):
        run = await in_writer(make_run, people.alice)
        answer = await people.as_alice.ask(
            "POST", f"/v1/runs/{run.public_id}/stop", body, headers={"Content-Type": kind}
        )
        assert answer.status == 200


async def test_a_stop_from_the_console_says_so(people: People) -> None:
    """R7"""
    run = await in_writer(make_run, people.alice)
    browser = await people.in_browser(people.alice)
    assert (await browser.post(f"/v1/runs/{run.public_id}/stop", X_CSRFToken=CSRF)).status == 200
    assert (await in_reader(Run.objects.get, pk=run.pk)).stop_requested_via == "console"


async def test_a_run_that_waits_is_ended_right_there(people: People) -> None:
    """R7, C5"""
    run = await in_writer(make_run, people.alice)
    answer = await people.as_alice.post(f"/v1/runs/{run.public_id}/stop")
    assert (answer.status, answer.json["status"]) == (200, "stopping")
    seen = await people.as_alice.events(f"/v1/runs/{run.public_id}/events")
    assert [event["type"] for event in seen] == ["run.queued", "run.cancelled"]
    assert seen[-1]["stop_reason"] == "cancelled"


async def test_a_second_stop_of_an_active_run_changes_nothing(people: People) -> None:
    """R7, C10"""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    await people.as_alice.post(f"/v1/runs/{run.public_id}/stop")
    first = await in_reader(Run.objects.get, pk=run.pk)
    assert (await people.as_charlie.post(f"/v1/runs/{run.public_id}/stop")).status == 200
    second = await in_reader(Run.objects.get, pk=run.pk)
    assert (second.stop_requested_at, second.stop_requested_by) == (first.stop_requested_at, "alice")


async def test_a_run_that_ended_cannot_be_stopped(people: People) -> None:
    """R9"""
    finished = await in_writer(finished_run, people.alice)
    stopped = await in_writer(make_run, people.alice)
    await people.as_alice.post(f"/v1/runs/{stopped.public_id}/stop")
    for run in (finished, stopped):
        before = await in_reader(Run.objects.get, pk=run.pk)
        answer = await people.as_alice.post(f"/v1/runs/{run.public_id}/stop")
        assert (answer.status, answer.error["code"]) == (404, "run_not_active")
        after = await in_reader(Run.objects.get, pk=run.pk)
        assert (after.status, after.stop_requested_at) == (before.status, before.stop_requested_at)


@pytest.mark.parametrize("is_ended", [False, True])
async def test_other_peoples_runs_cannot_be_stopped_nor_seen_to_exist(people: People, is_ended: bool) -> None:
    """R6: an ended run of somebody else does not answer `run_not_active` either."""
    run = await in_writer(finished_run if is_ended else make_run, people.alice)
    others = await people.as_bob.post(f"/v1/runs/{run.public_id}/stop")
    unknown = await people.as_bob.post("/v1/runs/run_" + "0" * 24 + "/stop")
    assert (others.status, others.error["code"]) == (unknown.status, unknown.error["code"]) == (404, "run_not_found")
    assert (await in_reader(Run.objects.get, pk=run.pk)).stop_requested_at is None


async def test_staff_stop_anybodys_run(people: People) -> None:
    """R7"""
    run = await in_writer(make_run, people.alice)
    assert (await people.as_charlie.post(f"/v1/runs/{run.public_id}/stop")).status == 200
    stored = await in_reader(Run.objects.get, pk=run.pk)
    assert (stored.status, stored.stop_requested_by) == (Status.CANCELLED, "charlie")
