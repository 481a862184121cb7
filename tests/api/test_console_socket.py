"""The console's websocket: rendered changes, for whoever may see the conversation, in their language."""

import asyncio
from typing import Any

import pytest
from channels.layers import get_channel_layer

from runs import actions, console_socket, events
from runs.database import in_reader, in_writer
from runs.models import Run
from tests.api.asking import Socket, closed_with, is_refused
from tests.api.conftest import People
from tests.factories import add_event, end_run, finished_run, make_run, start_run

OWN_PAGE = "http://localhost"


@pytest.fixture(autouse=True)
def endless_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SILENCE_SECONDS", 3600)
    monkeypatch.setattr(console_socket, "PAUSE_SECONDS", 0)


def path_of(run: Run, **places: int) -> str:
    after = ",".join(f"{run_id}:{seq}" for run_id, seq in places.items())
    return f"/ws/console/{run.conversation.public_id}/?after={after}"


async def until(socket: Socket, text: str) -> list[dict[str, Any]]:
    """Frames up to the one that brings this text."""
    frames: list[dict[str, Any]] = []
    while not any(text in part for frame in frames for op in frame.get("ops", ()) for part in op):
        frames.append(await socket.next_event())
    return frames


async def test_a_page_hears_of_a_run_from_its_beginning_to_its_end(people: People) -> None:
    run = await in_writer(make_run, people.alice, "the question")
    async with people.as_alice.socket(path_of(run)) as socket:
        greeting = await socket.next_event()
        assert greeting["state"]["run"] is None
        frames = await until(socket, "the question")
        assert frames[-1]["ops"][0][:3] == ["put", "runs", run.public_id]
        assert frames[-1]["state"]["active"] == run.public_id
        run = await in_writer(start_run, run)
        await in_writer(lambda: add_event(run, text="**word**"))
        frames += await until(socket, "<strong>word</strong>")
        await in_writer(end_run, run)
        while frames[-1].get("state", {}).get("active", "") is not None:
            frames.append(await socket.next_event())
    assert frames[-1]["state"]["run"]["status"] == "completed"
    assert frames[-1]["seq"] == 4
    assert {frame["run"] for frame in frames if frame} == {run.public_id}


async def test_only_a_queued_message_of_which_all_is_shown_can_be_edited_on_the_page(people: People) -> None:
    """Its text alone would take the place of everything that a program sent."""
    first = await in_writer(lambda: start_run(make_run(people.alice)))
    order = {"conversation_id": first.conversation.public_id}
    run = await in_writer(lambda: make_run(people.alice, "waits", **order))

    async def shown(socket: Socket, text: str) -> str:
        while text not in (queue := (await socket.next_event()).get("state", {}).get("queue", "")):
            pass
        return queue

    async with people.as_alice.socket(path_of(first)) as socket:
        assert "data-edit-queued" in await shown(socket, "waits")
        with_image = [
            {"type": "text", "text": "looks"},
            {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}},
        ]
        await in_reader(actions.edit_run, run.pk, [{"role": "user", "content": with_image}])
        assert "data-edit-queued" not in await shown(socket, "looks")
    async with people.as_alice.socket(path_of(first, **{first.public_id: 2, run.public_id: 2})) as socket:
        queue = await shown(socket, "looks")
        assert "data-edit-queued" not in queue
        assert "data-remove-queued" in queue


async def test_a_page_that_has_something_gets_the_rest(people: People) -> None:
    """R5: what was still growing is sent once more, the rest as it comes."""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    for text in ("one ", "two ", "three "):
        await in_writer(lambda text=text: add_event(run, text=text))
    async with people.as_alice.socket(path_of(run, **{run.public_id: 4})) as socket:
        greeting = await socket.next_event()
        assert "one two" in greeting["ops"][0][3]
        assert "three" not in greeting["ops"][0][3]
        frame = await socket.next_event()
    assert (frame["run"], frame["seq"]) == (run.public_id, 5)
    assert "one two three" in frame["ops"][0][3]
    assert "state" not in frame, "a word changes nothing but the text"


async def test_many_events_together_are_one_frame(people: People) -> None:
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    for number in range(100):
        await in_writer(lambda number=number: add_event(run, text=f"word{number} "))
    async with people.as_alice.socket(path_of(run, **{run.public_id: 2})) as socket:
        await socket.next_event()
        frame = await socket.next_event()
    assert frame["seq"] == 102
    assert len(frame["ops"]) == 2, "the text, and that nobody waits for it any more"


async def test_a_silent_connection_shows_that_it_lives(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SILENCE_SECONDS", 0.001)
    run = await in_writer(finished_run, people.alice)
    async with people.as_alice.socket(path_of(run, **{run.public_id: 6})) as socket:
        await socket.next_event()
        assert await socket.next_event() == {}


async def test_words_are_in_the_readers_language(people: People) -> None:
    run = await in_writer(finished_run, people.alice)
    async with people.as_alice.socket(path_of(run, **{run.public_id: 6}), Accept_Language="de") as socket:
        assert (await socket.next_event())["state"]["run"]["word"] == "fertig"


async def test_only_who_may_see_a_conversation_watches_it(people: People) -> None:
    """R3, R6"""
    run = await in_writer(finished_run, people.alice)
    assert await is_refused(people.stranger, path_of(run))
    assert await closed_with(people.as_bob, path_of(run)) == 4404
    assert await closed_with(people.as_alice, path_of(run) + "x") == 4400
    browser = await people.in_browser(people.alice)
    assert await is_refused(browser, path_of(run), Origin="https://evil.example")
    for client in (people.as_charlie, people.as_alice):
        async with client.socket(path_of(run)) as socket:
            assert "state" in await socket.next_event()


async def test_who_stopped_it_is_told_as_the_reader_sees_it(people: People) -> None:
    """C12: alice reads "by you", charlie reads "by alice"."""
    run = await in_writer(make_run, people.alice)
    await people.as_alice.post(f"/v1/runs/{run.public_id}/stop")
    for client, words in ((people.as_alice, "Stopped by you"), (people.as_charlie, "Stopped by alice")):
        async with client.socket(path_of(run, **{run.public_id: 1})) as socket:
            await until(socket, words)


async def test_a_client_that_leaves_leaves_nothing_behind(people: People) -> None:
    """C11: no task and no place in the group."""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    before = asyncio.all_tasks()
    for frames in (0, 1, 2):
        async with people.as_alice.socket(path_of(run)) as socket:
            for _ in range(frames):
                await socket.next_event()
    assert asyncio.all_tasks() == before
    assert get_channel_layer().groups == {}


async def test_a_failure_closes_the_socket_and_is_logged(
    people: People, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("the log cannot be read")

    run = await in_writer(lambda: start_run(make_run(people.alice)))
    monkeypatch.setattr(events, "read_log", fail)
    async with people.as_alice.socket(path_of(run)) as socket:
        _, code = await socket.rest()
    assert code == 4500
    assert "the log cannot be read" in caplog.text
