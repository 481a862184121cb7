"""Websockets: the same events, the same numbers, the same access as everywhere."""

import asyncio
import json
import random
from typing import Any

import pytest
from channels.layers import get_channel_layer

from runs import bell, events
from runs.database import in_writer
from runs.models import Run
from runs.sockets import read_places
from tests.api.asking import closed_with, is_refused
from tests.api.conftest import People
from tests.factories import add_event, end_run, finished_run, make_run, start_run, store_event


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SILENCE_SECONDS", 0.001)


@pytest.fixture
def endless_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SILENCE_SECONDS", 3600)


def numbers(seen: list[dict[str, Any]]) -> list[int]:
    return [event["seq"] for event in seen]


async def test_a_socket_sends_what_the_stream_sends(people: People) -> None:
    """R4, R5: the same lines with the same numbers, closed with 1000 after the terminal event."""
    run = await in_writer(finished_run, people.alice)
    async with people.as_alice.socket(f"/ws/runs/{run.public_id}/") as socket:
        assert socket.opening == {"type": "websocket.accept"}
        seen, code = await socket.rest()
        await socket.task
    assert code == 1000
    assert seen == await people.as_alice.events(f"/v1/runs/{run.public_id}/events")


async def test_every_place_to_begin_gives_the_rest_and_no_more(people: People) -> None:
    """R5"""
    run = await in_writer(finished_run, people.alice)
    for last in (*range(7), 2**31 - 1):
        async with people.as_alice.socket(f"/ws/runs/{run.public_id}/?starting_after={last}") as socket:
            seen, code = await socket.rest()
        assert (numbers(seen), code) == (list(range(last + 1, 7)), 1000)


async def test_a_socket_follows_a_run_live(people: People, endless_patience: None) -> None:
    """R4"""
    run = await in_writer(make_run, people.alice)
    async with people.as_alice.socket(f"/ws/runs/{run.public_id}/") as socket:
        assert (await socket.next_event())["type"] == "run.queued"
        run = await in_writer(start_run, run)
        assert (await socket.next_event())["type"] == "run.started"
        await in_writer(lambda: add_event(run, text="word"))
        assert (await socket.next_event())["text"] == "word"
        await in_writer(end_run, run)
        seen, code = await socket.rest()
    assert (numbers(seen), code) == ([4], 1000)


@pytest.mark.parametrize("seed", range(3))
async def test_reconnecting_anywhere_while_the_bell_is_broken_loses_and_repeats_nothing(
    people: People, impatient: None, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """R5"""
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
            async with people.as_alice.socket(f"/ws/runs/{run.public_id}/?starting_after={len(seen)}") as socket:
                for _ in range(chance.randrange(1, 6)):
                    message = await socket.next_message()
                    if message["type"] == "websocket.close":
                        return
                    seen.append(json.loads(message["text"])["seq"])

    watching = asyncio.create_task(watch())
    for number in range(30):
        await in_writer(lambda number=number: add_event(run, text=f"word{number} "))
    await in_writer(end_run, run)
    await watching
    assert seen == list(range(1, 34))


# -- conversations


async def test_a_conversations_socket_sends_all_its_active_runs_and_what_comes(
    people: People, endless_patience: None
) -> None:
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    path = f"/ws/conversations/{run.conversation.public_id}/"

    def submit_next() -> Run:
        return make_run(people.alice, conversation_id=run.conversation.public_id)

    async with people.as_alice.socket(path) as socket:
        assert [(await socket.next_event())["seq"] for _ in range(2)] == [1, 2]
        following = await in_writer(submit_next)
        told = await socket.next_event()
        assert (told["run_id"], told["type"]) == (following.public_id, "run.queued")
        await in_writer(end_run, run)
        told = await socket.next_event()
        assert (told["run_id"], told["type"]) == (run.public_id, "run.completed")
        following = await in_writer(start_run, following)
        assert (await socket.next_event())["type"] == "run.started"
        await in_writer(end_run, following)
        assert (await socket.next_event())["type"] == "run.completed"
        assert not socket.task.done(), "it stays open for the next run"


async def test_a_conversations_socket_goes_on_where_the_client_was(people: People) -> None:
    """R5"""

    def make_three() -> list[Run]:
        first = finished_run(people.alice)
        conversation_id = first.conversation.public_id
        second = finished_run(people.alice, conversation_id=conversation_id)
        return [first, second, start_run(make_run(people.alice, conversation_id=conversation_id))]

    first, second, third = await in_writer(make_three)
    places = f"{first.public_id}:6,{second.public_id}:4"
    async with people.as_alice.socket(f"/ws/conversations/{first.conversation.public_id}/?after={places}") as socket:
        told = [await socket.next_event() for _ in range(4)]
    expected = [(second.public_id, 5), (second.public_id, 6), (third.public_id, 1), (third.public_id, 2)]
    assert [(event["run_id"], event["seq"]) for event in told] == expected


async def test_a_lost_ring_costs_a_conversation_nothing(people: People, endless_patience: None) -> None:
    """R5"""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    async with people.as_alice.socket(f"/ws/conversations/{run.conversation.public_id}/") as socket:
        assert [(await socket.next_event())["seq"] for _ in range(2)] == [1, 2]
        await in_writer(lambda: store_event(run, text="not rung for"))
        await in_writer(lambda: add_event(run, text="rung for"))
        assert [(await socket.next_event())["seq"] for _ in range(2)] == [3, 4]


@pytest.mark.parametrize(
    ("text", "places"),
    [("", {}), ("run_a:12", {"run_a": 12}), ("run_a:12,run_b:3", {"run_a": 12, "run_b": 3}), ("run_a:0", {"run_a": 0})],
)
def test_places_are_read(text: str, places: dict[str, int]) -> None:
    assert read_places(text) == places


# -- what else is sent


@pytest.mark.parametrize("place", ["-1", "x", "1.5", "99999999999", "", "%00"])
async def test_a_bad_place_closes_the_socket(people: People, place: str) -> None:
    """R5"""
    run = await in_writer(finished_run, people.alice)
    assert await closed_with(people.as_alice, f"/ws/runs/{run.public_id}/?starting_after={place}") == 4400


BAD_PLACES = [
    *("x", "run_a", "run_a:", "run_a:-1", "run_a:x", "run_a:1,", ",", "conv_a:1", "run_%00:1", "run_a:99999999999"),
    ",".join(f"run_{number}:1" for number in range(201)),
]


@pytest.mark.parametrize("after", BAD_PLACES)
async def test_bad_places_close_a_conversations_socket(people: People, after: str) -> None:
    """R5"""
    run = await in_writer(finished_run, people.alice)
    assert await closed_with(people.as_alice, f"/ws/conversations/{run.conversation.public_id}/?after={after}") == 4400


@pytest.mark.parametrize("path", ["/", "/ws/", "/ws/nothing/", "/ws/runs/", "/v1/runs/run_1/events", "/ws/runs/run_1"])
async def test_an_unknown_path_is_refused_without_a_trace(
    people: People, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    assert await is_refused(people.as_alice, path)
    assert caplog.text == ""


async def test_what_a_client_says_is_ignored(people: People, endless_patience: None) -> None:
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    async with people.as_alice.socket(f"/ws/runs/{run.public_id}/") as socket:
        for message in (
            {"text": "hello"},
            {"bytes": b"\xff"},
            {"text": None, "bytes": b""},
            {"text": "{", "bytes": None},
        ):
            socket.inbox.put_nowait({"type": "websocket.receive", **message})
        await in_writer(end_run, run)
        seen, code = await socket.rest()
    assert (numbers(seen), code) == ([1, 2, 3], 1000)


@pytest.mark.parametrize("message", [{"text": "x" * (64 * 1024 + 1)}, {"bytes": b"x" * (64 * 1024 + 1)}])
async def test_a_client_that_says_too_much_is_closed(people: People, message: dict[str, Any]) -> None:
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    async with people.as_alice.socket(f"/ws/runs/{run.public_id}/?starting_after=2") as socket:
        socket.inbox.put_nowait({"type": "websocket.receive", **message})
        assert await socket.rest() == ([], 4413)
        await socket.task


# -- leaving


async def test_a_client_that_leaves_leaves_nothing_behind(people: People, endless_patience: None) -> None:
    """C11: no task and no place in the group."""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    before = asyncio.all_tasks()
    for path in (f"/ws/runs/{run.public_id}/", f"/ws/conversations/{run.conversation.public_id}/"):
        for frames in (0, 1, 2):
            async with people.as_alice.socket(path) as socket:
                for _ in range(frames):
                    await socket.next_event()
    assert asyncio.all_tasks() == before
    assert get_channel_layer().groups == {}


async def test_a_server_that_ends_leaves_nothing_behind(people: People, endless_patience: None) -> None:
    """C11: the application is cancelled in the middle."""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    before = asyncio.all_tasks()
    for path in (f"/ws/runs/{run.public_id}/", f"/ws/conversations/{run.conversation.public_id}/"):
        async with people.as_alice.socket(path) as socket:
            await socket.next_event()
            await socket.next_event()
            socket.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await socket.task
            socket.task = asyncio.create_task(asyncio.sleep(0))
            await socket.task
    assert asyncio.all_tasks() == before
    assert get_channel_layer().groups == {}


async def test_a_client_that_does_not_read_holds_back_its_own_stream(people: People, impatient: None) -> None:
    """One event is handed over at a time; what was not taken stays in the log."""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    async with people.as_alice.socket(f"/ws/runs/{run.public_id}/") as slow:
        await slow.next_event()
        for number in range(700):  # more than the layer holds for one channel
            await in_writer(lambda number=number: add_event(run, text=f"word{number} "))
        await in_writer(end_run, run)
        seen, code = await slow.rest()
    assert (numbers(seen), code) == (list(range(2, 704)), 1000)


async def test_a_failure_closes_the_socket_and_is_logged(
    people: People, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("the log cannot be read")

    run = await in_writer(lambda: start_run(make_run(people.alice)))
    monkeypatch.setattr(events, "read_log", fail)
    assert await closed_with(people.as_alice, f"/ws/runs/{run.public_id}/") == 4500
    assert "the log cannot be read" in caplog.text
