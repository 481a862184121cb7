"""POST /v1/chat/completions: a run as the answer of a model, and clients that leave before it is there."""

import asyncio
import json
import threading
from typing import Any

import pytest
from django.db import OperationalError

from agentsite.asgi import application
from runs import actions, events
from runs.database import in_reader, in_writer
from runs.models import Run, Status, StopReason
from tests.api.asking import Stream, make_scope
from tests.api.completing import (
    ASK,
    PATH,
    STREAM,
    Hands,
    ask,
    ask_for_stream,
    completes,
    data_of,
    ends,
    fails,
    is_stopped_by,
    says,
    thinks,
)
from tests.api.conftest import People
from tests.factories import add_event


async def test_a_streamed_answer_comes_in_chunks(people: People, hands: Hands) -> None:
    """R17: the role first, then the pieces, then the reason of the end."""
    async with people.as_alice.stream(PATH, body=STREAM) as stream:
        run = await hands.do(says("Hel"), says("lo."), completes("Hello."), ends())
        *chunks, done = await data_of(stream)
    assert done == "[DONE]"
    for chunk in chunks:
        assert (chunk["id"], chunk["object"], chunk["model"]) == (run.public_id, "chat.completion.chunk", "agent")
        assert chunk["conversation_id"] == run.conversation.public_id
        assert chunk["created"] == int(run.queued_at.timestamp())
        assert "usage" not in chunk
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert [(choice["delta"], choice["finish_reason"]) for choice in choices] == [
        ({"role": "assistant", "content": ""}, None),
        ({"content": "Hel"}, None),
        ({"content": "lo."}, None),
        ({}, "stop"),
    ]


async def test_the_usage_comes_last_where_it_is_asked_for(people: People, hands: Hands) -> None:
    """R17"""
    body = {**STREAM, "stream_options": {"include_usage": True}}
    *chunks, last, done = await ask_for_stream(people.as_alice, hands, body, says("x"), completes("x"), ends())
    assert done == "[DONE]"
    assert [chunk["usage"] for chunk in chunks] == [None] * 3
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


async def test_a_whole_answer_comes_at_the_end(people: People, hands: Hands) -> None:
    """R17"""
    answer, run = await ask(people.as_alice, hands, ASK, says("Hello."), completes("Hello."), ends())
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
    assert answer.json == {
        "id": run.public_id,
        "object": "chat.completion",
        "created": int(run.queued_at.timestamp()),
        "model": "agent",
        "conversation_id": run.conversation.public_id,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello.", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    }


async def test_several_steps_are_one_text_the_same_in_both_shapes(people: People, hands: Hands) -> None:
    """R17: tool calls stay inside; thoughts come beside the text."""

    def calls(run: Run) -> None:
        add_event(run, events.TOOL_STARTED, tool_call_id="c", name="calculator", arguments="{}")
        add_event(run, events.TOOL_COMPLETED, tool_call_id="c", name="calculator", result="4", state="finished")

    steps = [
        *(thinks("Hm"), thinks("m."), says("Let me "), says("see."), completes("Let me see."), calls),
        *(thinks("Ah."), completes(""), completes("It is 4."), ends()),
    ]
    answer, _ = await ask(people.as_alice, hands, ASK, *steps)
    message = answer.json["choices"][0]["message"]
    assert message["content"] == "Let me see.\n\nIt is 4."
    assert message["reasoning_content"] == "Hmm.\n\nAh."
    chunks = (await ask_for_stream(people.as_alice, hands, STREAM, *steps))[:-1]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content", "") for delta in deltas) == message["content"]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == message["reasoning_content"]
    assert not any("tool_calls" in delta for delta in deltas)


async def test_a_limit_is_told_as_a_cut(people: People, hands: Hands) -> None:
    """R17, L2"""
    for reason in (StopReason.MAX_STEPS, StopReason.MAX_TIME, StopReason.BUDGET):
        answer, _ = await ask(people.as_alice, hands, ASK, says("half"), ends(reason))
        [choice] = answer.json["choices"]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("half", "length")


async def test_a_failed_run_is_an_error_and_is_not_asked_again(people: People, hands: Hands) -> None:
    """R17, E1: OpenAI's clients would repeat the whole run."""
    statuses = {"llm_timeout": 504, "llm_rate_limit": 429, "llm_authentication": 502, "llm_error": 502}
    for error_type, status in {**statuses, "worker_lost": 500, "internal_error": 500}.items():
        answer, _ = await ask(people.as_alice, hands, ASK, says("half"), fails(error_type))
        assert (answer.status, answer.error["code"], answer.error["message"]) == (status, error_type, "It broke.")
        assert answer.headers["x-should-retry"] == "false"
        assert b"secret" not in answer.body


async def test_a_run_that_somebody_stopped_never_looks_complete(people: People, hands: Hands) -> None:
    """R17, C2"""
    answer, run = await ask(people.as_alice, hands, ASK, says("half"), is_stopped_by("charlie"))
    assert (answer.status, answer.error["code"]) == (409, "run_cancelled")
    assert answer.error["message"] == f"The run {run.public_id} was stopped by charlie."
    assert answer.headers["x-should-retry"] == "false"


async def test_what_fails_in_a_stream_is_told_in_the_stream(people: People, hands: Hands) -> None:
    """R17: as an error, with which it ends."""
    for doing, code in ((fails("llm_error"), "llm_error"), (is_stopped_by("bob"), "run_cancelled")):
        data = await ask_for_stream(people.as_alice, hands, STREAM, says("half"), doing)
        assert [chunk["choices"][0]["delta"].get("content") for chunk in data[:-1]] == ["", "half"]
        assert data[-1]["error"]["code"] == code
        assert set(data[-1]["error"]) == {"message", "type", "code", "param"}


async def test_a_log_that_cannot_be_read_ends_the_answer_with_an_error(
    people: People, hands: Hands, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """R17: and tells nobody why."""

    def fail(*args: object) -> None:
        raise RuntimeError("a secret of the server")

    monkeypatch.setattr(events, "read_log", fail)
    async with people.as_alice.stream(PATH, body=STREAM) as stream:
        data = await data_of(stream)
    assert data[-1]["error"]["code"] == "internal_error"
    assert "secret" not in str(data)
    assert "a secret of the server" in caplog.text
    answer = await people.as_alice.post(PATH, ASK)
    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    assert answer.headers["x-should-retry"] == "false", "the run goes on, and a client would begin another one"
    assert b"secret" not in answer.body


async def test_comments_keep_a_silent_stream_alive(
    people: People, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R17: also while the run waits for a person."""
    monkeypatch.setattr(events, "SILENCE_SECONDS", 0.001)
    async with people.as_alice.stream(PATH, body=STREAM) as stream:
        run = await hands.do()
        await in_writer(lambda: Run.objects.filter(pk=run.pk).update(status=Status.REQUIRES_APPROVAL))
        assert (await stream.next_frame()).startswith("data: ")
        assert [await stream.next_frame() for _ in range(3)] == [": keep-alive"] * 3


async def test_comments_keep_a_stream_alive_while_only_tools_report(
    people: People, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R17: what happens inside is not told, but whoever stands between must not take it for a dead connection."""
    monkeypatch.setattr(events, "SILENCE_SECONDS", 3600)  # there is none: something is rung all the time

    def reports(run: Run) -> None:
        add_event(run, events.TOOL_PROGRESS, tool_call_id="1", name="wait", text="1 of 60 seconds", fraction=0.1)

    async with people.as_alice.stream(PATH, body=STREAM) as stream:
        assert (await stream.next_frame()).startswith("data: ")
        run = await hands.do()
        while (await in_reader(run.events.count)) < 8:
            await in_writer(reports, run)
            assert await stream.next_frame() == ": keep-alive"


# -- clients that leave


async def stopped(run: Run) -> Run:
    run = await in_reader(Run.objects.get, pk=run.pk)
    assert run.stop_requested_at is not None
    assert (run.stop_requested_by, run.stop_requested_via) == ("alice", "api")
    return run


async def test_closing_a_stream_stops_the_run(people: People, hands: Hands) -> None:
    """R17: while it waits for a worker and while it is worked on."""
    async with people.as_alice.stream(PATH, body=STREAM):
        waiting = await hands.heard()
    assert (await stopped(waiting)).status == "cancelled"
    async with people.as_alice.stream(PATH, body=STREAM) as stream:
        running = await hands.do(says("half"))
        while "half" not in str(await stream.next_frame()):
            pass
    assert (await stopped(running)).status == "running"


async def test_closing_the_connection_of_a_whole_answer_stops_the_run(people: People, hands: Hands) -> None:
    """R17"""
    stream = Stream()
    body = json.dumps(ASK).encode()
    asking = asyncio.create_task(leaving_client(people, stream, body))
    run = await hands.do(says("half"))
    stream.inbox.put_nowait({"type": "http.disconnect"})
    await asking
    await stopped(run)
    assert stream.outbox.empty(), "nothing is sent to somebody who has left"


async def leaving_client(people: People, stream: Stream, body: bytes) -> None:
    headers = {**people.as_alice.headers, "Content-Type": "application/json", "Content-Length": str(len(body))}
    stream.inbox.put_nowait({"type": "http.request", "body": body, "more_body": False})
    await application(make_scope("POST", PATH, headers), stream.inbox.get, stream.send)


async def test_a_client_that_leaves_while_its_run_is_being_stored_stops_it(
    people: People, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R17: the run is known only after its client is gone."""
    loop, storing, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    submit_run = actions.submit_run

    def slowly(*args: Any) -> Run:
        loop.call_soon_threadsafe(storing.set)
        assert go_on.wait(20)
        return submit_run(*args)

    monkeypatch.setattr(actions, "submit_run", slowly)
    stream = Stream()
    asking = asyncio.create_task(leaving_client(people, stream, json.dumps(STREAM).encode()))
    await storing.wait()
    stream.inbox.put_nowait({"type": "http.disconnect"})
    await asyncio.sleep(0)
    go_on.set()
    await asking
    assert (await stopped(await hands.heard())).status == "cancelled"


async def test_a_client_that_leaves_while_its_run_cannot_be_stored_is_let_go(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R17: there is no run to stop, and nobody to be told."""
    loop, storing, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def fail(*args: Any) -> Run:
        loop.call_soon_threadsafe(storing.set)
        assert go_on.wait(20)
        raise OperationalError("gone")

    monkeypatch.setattr(actions, "submit_run", fail)
    stream = Stream()
    asking = asyncio.create_task(leaving_client(people, stream, json.dumps(STREAM).encode()))
    await storing.wait()
    stream.inbox.put_nowait({"type": "http.disconnect"})
    await asyncio.sleep(0)
    go_on.set()
    await asking


async def test_a_server_that_shuts_down_stops_no_run(people: People, hands: Hands) -> None:
    """R17: it cancels its applications, and the runs go on elsewhere."""
    for body in (ASK, STREAM):
        stream = Stream()
        asking = asyncio.create_task(leaving_client(people, stream, json.dumps(body).encode()))
        run = await hands.do()
        asking.cancel()
        await asyncio.wait({asking})
        assert (await in_reader(Run.objects.get, pk=run.pk)).stop_requested_at is None


async def test_an_answer_that_was_sent_is_not_stopped_afterwards(people: People, hands: Hands) -> None:
    """R17: a client that closes when it has everything has not left."""
    await ask_for_stream(people.as_alice, hands, STREAM, ends())
    run = await in_reader(Run.objects.get)
    assert (run.status, run.stop_requested_at) == ("completed", None)
