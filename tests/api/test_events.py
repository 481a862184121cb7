"""GET /v1/runs/{id}/events: watchers that come early, late and again see every event once, in order."""

import asyncio
import random
from typing import Any

import pytest
from channels.layers import get_channel_layer

from runs import bell, events
from runs.database import in_writer
from runs.models import Run
from tests.api.conftest import People
from tests.factories import add_event, end_run, finished_run, make_run, start_run, store_event


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time after which a silence makes a watcher look at the log: none, so that no test waits."""
    monkeypatch.setattr(events, "SILENCE_SECONDS", 0.001)


@pytest.fixture
def endless_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is never looked at because of a silence: what comes, came by a ring."""
    monkeypatch.setattr(events, "SILENCE_SECONDS", 3600)


def numbers(seen: list[dict[str, Any]]) -> list[int]:
    return [event["seq"] for event in seen]


async def test_a_late_watcher_gets_the_whole_run_and_then_the_end(people: People) -> None:
    """R4"""
    run = await in_writer(finished_run, people.alice)
    async with people.as_alice.stream(f"/v1/runs/{run.public_id}/events") as stream:
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream"
        assert stream.headers["cache-control"] == "no-cache"
        assert stream.headers["x-accel-buffering"] == "no"
        seen = await stream.rest()
        await stream.task

    assert numbers(seen) == [1, 2, 3, 4, 5, 6]
    assert [event["type"] for event in seen[-2:]] == ["message.delta", "run.completed"]
    assert all(event["run_id"] == run.public_id and event["at"] for event in seen)
    assert seen[-1]["stop_reason"] == "end_turn"


async def test_a_watcher_that_comes_before_the_start_follows_live(people: People, endless_patience: None) -> None:
    """R4: opens before the run, follows it, ends by itself right after the terminal event."""
    run = await in_writer(make_run, people.alice)
    async with people.as_alice.stream(f"/v1/runs/{run.public_id}/events") as stream:
        assert (await stream.next_event())["type"] == "run.queued"
        run = await in_writer(start_run, run)
        assert (await stream.next_event())["type"] == "run.started"
        for word in ("one ", "two "):
            await in_writer(lambda word=word: add_event(run, text=word))
            assert (await stream.next_event())["text"] == word
        await in_writer(end_run, run)
        assert (await stream.next_event())["type"] == "run.completed"
        assert await stream.next_frame() is None
        await stream.task


async def test_a_watcher_that_comes_in_the_middle_misses_nothing(people: People, endless_patience: None) -> None:
    """R4"""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    await in_writer(lambda: add_event(run, text="before"))
    async with people.as_alice.stream(f"/v1/runs/{run.public_id}/events") as stream:
        assert [(await stream.next_event())["seq"] for _ in range(3)] == [1, 2, 3]
        await in_writer(lambda: add_event(run, text="after"))
        await in_writer(end_run, run)
        assert numbers(await stream.rest()) == [4, 5]


async def test_comments_keep_a_silent_stream_alive(people: People, impatient: None) -> None:
    """R4: and the first bytes come at once, also where there is nothing new to tell."""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    async with people.as_alice.stream(f"/v1/runs/{run.public_id}/events?starting_after=2") as stream:
        assert [await stream.next_frame() for _ in range(3)] == [": keep-alive"] * 3
        await in_writer(end_run, run)
        assert numbers(await stream.rest()) == [3]


async def test_comments_keep_a_stream_alive_while_another_run_of_the_conversation_is_busy(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R4: what is rung for somebody else is no sign of life, and a ring of its own may get lost meanwhile."""
    monkeypatch.setattr(events, "SILENCE_SECONDS", 0.2)  # longer than any pause between two rings
    busy = await in_writer(lambda: start_run(make_run(people.alice)))
    run = await in_writer(lambda: make_run(people.alice, conversation_id=busy.conversation.public_id))
    words = events.as_message(busy, [events.write_event(busy, 3, events.MESSAGE_DELTA, busy.queued_at, {"text": "…"})])

    async def talk() -> None:
        while True:
            await bell.send(events.group_of(busy.conversation.public_id), words)
            await asyncio.sleep(0)

    talking = asyncio.create_task(talk())
    async with people.as_alice.stream(f"/v1/runs/{run.public_id}/events?starting_after=1") as stream:
        assert [await stream.next_frame() for _ in range(3)] == [": keep-alive"] * 3
        await in_writer(lambda: store_event(run, events.RUN_CANCELLED))
        assert numbers(await stream.rest()) == [2]
    talking.cancel()


async def test_what_is_sent_twice_is_the_same_to_the_byte(people: People) -> None:
    """R5, T5: a replay is what the live watcher saw."""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    path = f"/v1/runs/{run.public_id}/events"
    async with people.as_alice.stream(path) as stream:
        live = [await stream.next_frame(), await stream.next_frame()]
        await in_writer(lambda: add_event(run, text="line\nbreak\r\n\u2028 and ünïcode 🙂"))
        live.append(await stream.next_frame())
        await in_writer(end_run, run)
        live.append(await stream.next_frame())
    replay = (await people.as_alice.get(path)).body.decode()
    assert replay == "".join(f"{frame}\n\n" for frame in live)


# -- again


async def test_every_place_to_begin_gives_the_rest_and_no_more(people: People) -> None:
    """R5"""
    run = await in_writer(lambda: finished_run(people.alice, words=7))
    path = f"/v1/runs/{run.public_id}/events"
    for last in range(11):
        expected = list(range(last + 1, 11))
        assert numbers(await people.as_alice.events(path, Last_Event_ID=str(last))) == expected
        assert numbers(await people.as_alice.events(f"{path}?starting_after={last}")) == expected


async def test_a_place_beyond_the_end_of_an_ended_run_ends_at_once(people: People, endless_patience: None) -> None:
    """R5"""
    run = await in_writer(finished_run, people.alice)
    for last in (6, 7, 2**31 - 1):
        answer = await people.as_alice.get(f"/v1/runs/{run.public_id}/events", Last_Event_ID=str(last))
        assert (answer.status, answer.body) == (200, b"")


async def test_the_header_wins_over_the_address(people: People) -> None:
    """R5: a browser that reconnects repeats its address, but knows better."""
    run = await in_writer(finished_run, people.alice)
    path = f"/v1/runs/{run.public_id}/events?starting_after=0"
    assert numbers(await people.as_alice.events(path, Last_Event_ID="5")) == [6]
    assert numbers(await people.as_alice.events(path, Last_Event_ID="")) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("place", ["-1", "1.5", "x", "1e3", "99999999999", "9" * 500, " 1", "٣", "%00"])
async def test_a_bad_place_is_refused_by_name(people: People, place: str) -> None:
    """R5"""
    run = await in_writer(finished_run, people.alice)
    path = f"/v1/runs/{run.public_id}/events"
    answer = await people.as_alice.get(f"{path}?starting_after={place}")
    assert (answer.status, answer.error["param"]) == (400, "starting_after")
    if place.isascii():
        answer = await people.as_alice.get(path, Last_Event_ID=place)
        assert (answer.status, answer.error["param"]) == (400, "Last-Event-ID")


async def test_an_empty_place_in_the_address_is_refused(people: People) -> None:
    """R5"""
    run = await in_writer(finished_run, people.alice)
    assert (await people.as_alice.get(f"/v1/runs/{run.public_id}/events?starting_after=")).status == 400


async def test_a_log_of_many_pages_is_read_to_its_end(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """R5: also where a page ends exactly with the last event."""
    run = await in_writer(lambda: finished_run(people.alice, words=7))
    for page in (1, 2, 3, 5, 10, 11):
        monkeypatch.setattr(events.read_log, "__defaults__", (page,))
        monkeypatch.setattr(events, "PAGE", page)
        assert numbers(await people.as_alice.events(f"/v1/runs/{run.public_id}/events")) == list(range(1, 11))


@pytest.mark.parametrize("seed", range(5))
async def test_reconnecting_anywhere_while_the_bell_is_broken_loses_and_repeats_nothing(
    people: People, impatient: None, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """R5: rings are dropped and doubled, the watcher leaves and comes back with the last number that it has."""
    chance = random.Random(seed)
    group_send = bell.send

    async def broken_send(group: str, message: dict[str, Any]) -> None:
        for _ in range(chance.choice([0, 0, 1, 1, 2])):
            await group_send(group, message)

    monkeypatch.setattr(bell, "send", broken_send)
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    seen: list[int] = []

    async def watch() -> None:
        while True:
            async with people.as_alice.stream(
                f"/v1/runs/{run.public_id}/events", Last_Event_ID=str(len(seen))
            ) as stream:
                for _ in range(chance.randrange(1, 6)):
                    event = await stream.next_event()
                    if event is None:
                        return
                    seen.append(event["seq"])

    watching = asyncio.create_task(watch())
    for number in range(30):
        await in_writer(lambda number=number: add_event(run, text=f"word{number} "))
    await in_writer(end_run, run)
    await watching
    assert seen == list(range(1, 34))


async def test_a_hole_in_the_rings_is_filled_from_the_log_at_once(people: People, endless_patience: None) -> None:
    """R5"""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    async with people.as_alice.stream(f"/v1/runs/{run.public_id}/events?starting_after=2") as stream:
        await stream.next_frame()
        await in_writer(lambda: store_event(run, text="not rung for"))
        await in_writer(lambda: add_event(run, text="rung for"))
        assert [(await stream.next_event())["seq"] for _ in range(2)] == [3, 4]


async def test_watchers_do_not_take_events_from_each_other(people: People, endless_patience: None) -> None:
    """R4"""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    path = f"/v1/runs/{run.public_id}/events"
    watching = [asyncio.create_task(client.events(path)) for client in [people.as_alice] * 5 + [people.as_charlie] * 5]
    for number in range(10):
        await in_writer(lambda number=number: add_event(run, text=f"word{number} "))
    await in_writer(end_run, run)
    for seen in await asyncio.gather(*watching):
        assert numbers(seen) == list(range(1, 14))


async def test_a_watcher_is_told_nothing_of_the_conversations_other_runs(
    people: People, endless_patience: None
) -> None:
    """R4"""
    run = await in_writer(lambda: start_run(make_run(people.alice)))

    def submit_another() -> Run:
        return make_run(people.alice, conversation_id=run.conversation.public_id)

    async with people.as_alice.stream(f"/v1/runs/{run.public_id}/events") as stream:
        await stream.next_event()
        await in_writer(submit_another)
        await in_writer(end_run, run)
        assert {event["run_id"] for event in await stream.rest()} == {run.public_id}


# -- leaving


async def test_a_watcher_that_leaves_leaves_nothing_behind(people: People, endless_patience: None) -> None:
    """R4, C11: no task and no place in the group."""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    before = asyncio.all_tasks()
    for frames in (0, 1, 2, 3):
        async with people.as_alice.stream(f"/v1/runs/{run.public_id}/events") as stream:
            for _ in range(frames):
                await stream.next_frame() if frames < 3 else await stream.next_event()
                if frames == 3:
                    break
    assert asyncio.all_tasks() == before
    layer = get_channel_layer()
    assert layer.groups == {}


async def test_a_watcher_that_does_not_read_holds_back_its_own_stream(people: People, impatient: None) -> None:
    """R4: what it did not take stays in the log, and nothing piles up in memory."""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    path = f"/v1/runs/{run.public_id}/events"
    async with people.as_alice.stream(path) as slow:
        await slow.next_event()
        for number in range(700):  # more than the layer holds for one channel
            await in_writer(lambda number=number: add_event(run, text=f"word{number} "))
        assert slow.outbox.qsize() <= 1
        await in_writer(end_run, run)
        assert numbers(await people.as_alice.events(path)) == list(range(1, 704))
        assert numbers(await slow.rest()) == list(range(2, 704))


# -- who, and how


async def test_other_peoples_events_do_not_exist(people: People) -> None:
    """R6"""
    run = await in_writer(finished_run, people.alice)
    others = await people.as_bob.get(f"/v1/runs/{run.public_id}/events")
    unknown = await people.as_bob.get(f"/v1/runs/run_{'0' * 24}/events")
    assert (others.status, others.error["code"]) == (unknown.status, unknown.error["code"]) == (404, "run_not_found")
    assert numbers(await people.as_charlie.events(f"/v1/runs/{run.public_id}/events")) == [1, 2, 3, 4, 5, 6]


async def test_a_browser_session_watches(people: People) -> None:
    """R4"""
    run = await in_writer(finished_run, people.alice)
    browser = await people.in_browser(people.alice)
    assert numbers(await browser.events(f"/v1/runs/{run.public_id}/events")) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"])
async def test_events_are_only_read(people: People, method: str) -> None:
    """R4"""
    run = await in_writer(finished_run, people.alice)
    answer = await people.as_alice.ask(method, f"/v1/runs/{run.public_id}/events")
    assert (answer.status, answer.headers["allow"]) == (405, "GET")
    assert not answer.body if method == "HEAD" else answer.error["code"] == "method_not_allowed"


async def test_what_goes_wrong_before_the_stream_is_in_the_envelope(
    people: People, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("a secret of the server")

    monkeypatch.setattr("runs.api.sse._read_place", fail)
    answer = await people.as_alice.get("/v1/runs/run_1/events")
    assert (answer.status, answer.error["type"]) == (500, "api_error")
    assert "secret" not in answer.body.decode()
    assert "a secret of the server" in caplog.text
