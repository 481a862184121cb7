"""Streams of whoever may not watch any more end soon, like their websockets (`test_socket_access`)."""

import asyncio
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.utils import timezone

from runs import access, events
from runs.actions import delete_conversation
from runs.api import admission
from runs.database import in_writer
from runs.models import ApiKey, Run
from tests.api.asking import SECONDS
from tests.api.completing import ASK, PATH, STREAM, Hands, says
from tests.api.conftest import People
from tests.api.test_outages import Outage
from tests.factories import make_run, start_run


@pytest.fixture(autouse=True)
def curious(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watchers are looked at again with every batch, and batches come all the time."""
    monkeypatch.setattr(admission, "LOOK_SECONDS", 0)
    monkeypatch.setattr(events, "SILENCE_SECONDS", 0.001)


def switch_off(run: Run) -> None:
    User.objects.filter(username="alice").update(is_active=False)


def revoke(run: Run) -> None:
    ApiKey.objects.update(revoked_at=timezone.now())


def expire(run: Run) -> None:
    ApiKey.objects.update(expires_at=timezone.now())


def delete(run: Run) -> None:
    delete_conversation(run.conversation, by="alice", via="api")


def make_ordinary(run: Run) -> None:
    User.objects.filter(username="charlie").update(is_staff=False)


def sign_out(run: Run) -> None:
    Session.objects.all().delete()


@pytest.mark.parametrize("happen", [switch_off, revoke, expire, delete, make_ordinary, sign_out])
async def test_an_event_stream_ends_for_whoever_may_not_watch_any_more(
    people: People, happen: Callable[[Run], None]
) -> None:
    """R3, R6: and the run goes on."""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    watcher = people.as_charlie if happen is make_ordinary else people.as_alice
    if happen is sign_out:
        watcher = await people.in_browser(people.alice)
    async with watcher.stream(f"/v1/runs/{run.public_id}/events") as stream:
        assert [(await stream.next_event())["type"] for _ in range(2)] == ["run.queued", "run.started"]
        assert await stream.next_frame() == ": keep-alive"
        await in_writer(happen, run)
        access.forget_keys()
        async with asyncio.timeout(SECONDS):
            assert "run.cancelled" not in [event["type"] for event in await stream.rest()]
        assert stream.is_over, "in good order"
    assert (await watcher.get(f"/v1/runs/{run.public_id}/events")).status in (401, 404)


async def test_an_outage_ends_no_stream(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    async with people.as_alice.stream(f"/v1/runs/{run.public_id}/events") as stream:
        outage = Outage(3)
        outage.cut(monkeypatch, access, "followable_runs")
        async with asyncio.timeout(SECONDS):
            while outage.calls:
                assert await stream.next_frame() is not None
        assert not stream.is_over


async def test_a_streamed_completion_ends_with_an_error_and_its_run_is_stopped(people: People, hands: Hands) -> None:
    """R17: as if the client had left."""
    async with people.as_alice.stream(PATH, body=STREAM) as stream:
        run = await hands.do(says("half"))
        while "half" not in str(await stream.next_frame()):
            pass
        await in_writer(revoke, run)
        access.forget_keys()
        frames = []
        async with asyncio.timeout(SECONDS):
            while (frame := await stream.next_frame()) is not None:
                frames.append(frame)
        assert "invalid_key" in frames[-1]
        assert stream.is_over
    await in_writer(run.refresh_from_db)
    assert run.stop_requested_by == "alice"


async def test_a_whole_completion_is_refused_and_its_run_is_stopped(people: People, hands: Hands) -> None:
    """R17"""
    asking = asyncio.create_task(people.as_alice.post(PATH, ASK))
    run = await hands.do(says("half"))
    await in_writer(revoke, run)
    access.forget_keys()
    answer = await asking
    assert (answer.status, answer.error["code"]) == (401, "invalid_key")
    await in_writer(run.refresh_from_db)
    assert run.stop_requested_by == "alice"
