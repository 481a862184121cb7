"""OpenAI's own client talks to a site in a process of its own, whose agent talks to a model that the test plays."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.faults.calling import Caller, Started
from tests.gateway.fake_model import Call, FakeModel, chunk, serve_fake_model
from tests.serving import Served, free_port
from tests.sites import making_sites

HELLO: list[Any] = [{"role": "user", "content": "hello"}]
SECONDS = 20


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture
async def model(port: int) -> AsyncIterator[FakeModel]:
    async with serve_fake_model(port=port) as model:
        yield model


@pytest.fixture(scope="module")
def site(first_site: Served, port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with making_sites(tmp_path_factory.mktemp("openai")) as sites:
        site = sites.copy(first_site)
        options = (
            "--base-url",
            f"http://127.0.0.1:{port}/v1",
            "--model",
            "fake",
            "--tool",
            "calculator",
            "--tool",
            "wait",
        )
        made = site.manage("create_agent", "helper", *options)
        assert made.returncode == 0, made.stderr
        site.start()
        yield site


@pytest.fixture
async def client(site: Served) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key=site.key, base_url=f"{site.url}/v1", timeout=SECONDS) as client:
        yield client


async def last_run(site: Served) -> dict[str, Any]:
    """When its log has come to its end."""
    async with Caller(site) as caller:
        _, listed = await caller.ask("GET", "/v1/runs?limit=1")
        run = Started(listed["data"][0]["run_id"], listed["data"][0]["conversation_id"])
        await caller.log(run)
        return await caller.look(run)


def calls_calculator(text: str) -> list[dict[str, Any]]:
    function = {"name": "calculator", "arguments": '{"expression": "17*23"}'}
    return [
        chunk({"content": text}),
        chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}),
        chunk({}, "tool_calls", usage={"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}),
    ]


def answers(text: str) -> list[dict[str, Any]]:
    return [
        chunk({"reasoning_content": "Easy."}),
        chunk({"content": text}),
        chunk({}, "stop", usage={"prompt_tokens": 20, "completion_tokens": 6, "total_tokens": 26}),
    ]


def play(model: FakeModel, *replies: list[dict[str, Any]]) -> None:
    """One reply for each call, over and over."""
    numbers = iter(range(1000))

    async def script(call: Call) -> None:
        for event in replies[next(numbers) % len(replies)]:
            await call.event(event)
        await call.done()

    model.script = script


async def test_an_agent_answers_as_a_model_does(client: AsyncOpenAI, model: FakeModel, site: Served) -> None:
    """R17: with its own tools, streamed and not, and is listed as a model."""
    assert "helper" in [listed.id async for listed in client.models.list()]
    assert (await client.models.retrieve("helper")).owned_by == "agentsite"

    play(model, calls_calculator("Let me see."), answers("It is 391."))
    whole = await client.chat.completions.create(model="helper", messages=HELLO, temperature=0.1, max_tokens=100)
    [choice] = whole.choices
    assert (choice.message.content, choice.finish_reason) == ("Let me see.\n\nIt is 391.", "stop")
    assert choice.message.tool_calls is None
    assert choice.message.model_extra == {"reasoning_content": "Easy."}
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens, whole.usage.total_tokens) == (30, 10, 40)

    stream = await client.chat.completions.create(
        model="helper", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    text, reasons, usages = "", [], []
    async for piece in stream:
        usages.append(piece.usage)
        for choice_ in piece.choices:
            text += choice_.delta.content or ""
            reasons.append(choice_.finish_reason)
    assert text == choice.message.content
    assert reasons == [None] * (len(reasons) - 1) + ["stop"]
    assert usages[:-1] == [None] * (len(usages) - 1)
    assert usages[-1] == whole.usage
    run = await last_run(site)
    assert (run["run_id"], run["conversation_id"]) == (piece.id, piece.model_extra["conversation_id"])


async def test_the_history_that_a_client_sends_reaches_the_model(client: AsyncOpenAI, model: FakeModel) -> None:
    """R17: the answer of the first call, as the client has it, goes back with the second."""
    play(model, answers("Hi."))
    first = await client.chat.completions.create(model="helper", messages=HELLO)
    history = [{"role": "system", "content": "Be kind."}, *HELLO, first.choices[0].message]
    more: Any = [*history, {"role": "user", "content": "more"}]
    await client.chat.completions.create(model="helper", messages=more)
    seen = [(message["role"], message["content"]) for message in model.calls[-1].body["messages"]]
    assert seen[-4:] == [("system", "Be kind."), ("user", "hello"), ("assistant", "Hi."), ("user", "more")]

    metadata = {"conversation": first.model_extra["conversation_id"]}
    second = await client.chat.completions.create(model="helper", messages=more, metadata=metadata)
    assert second.model_extra == first.model_extra
    seen = [(message["role"], message["content"]) for message in model.calls[-1].body["messages"]]
    assert seen[-3:] == [("user", "hello"), ("assistant", "Hi."), ("user", "more")]


async def says_and_hangs(call: Call) -> None:
    await call.text("half")
    await call.hang()


async def test_closing_the_stream_closes_the_models_connection(
    client: AsyncOpenAI, model: FakeModel, site: Served
) -> None:
    """R17, C1, C3: in the middle of the text."""
    model.script = says_and_hangs
    stream = await client.chat.completions.create(model="helper", messages=HELLO, stream=True)
    call = await model.next_call()
    async for piece in stream:
        if piece.choices[0].delta.content == "half":
            break
    await stream.close()
    async with asyncio.timeout(SECONDS):
        await call.ended.wait()
    assert call.how == "client closed"
    run = await last_run(site)
    assert (run["run_id"], run["status"], run["output"]) == (piece.id, "cancelled", "half")
    assert (run["receipt"]["requested_by"], run["receipt"]["requested_via"]) == ("admin", "api")
    assert run["receipt"]["model_closed_ms"] is not None


async def test_giving_up_a_whole_answer_closes_the_models_connection(
    client: AsyncOpenAI, model: FakeModel, site: Served
) -> None:
    """R17, C1: before the model has said anything."""
    model.script = lambda call: call.hang()
    asking = asyncio.create_task(client.chat.completions.create(model="helper", messages=HELLO))
    call = await model.next_call()
    asking.cancel()
    async with asyncio.timeout(SECONDS):
        await call.ended.wait()
    assert call.how == "client closed"
    run = await last_run(site)
    assert (run["status"], run["receipt"]["requested_by"]) == ("cancelled", "admin")


async def test_a_server_that_ends_hands_the_run_back(client: AsyncOpenAI, model: FakeModel, site: Served) -> None:
    """R17: it is not the client who has closed the connection, so the run is not stopped."""
    model.script = says_and_hangs
    stream = await client.chat.completions.create(model="helper", messages=HELLO, stream=True)
    await model.next_call()
    play(model, answers("half and the rest"))
    await asyncio.to_thread(site.restart)
    await stream.close()
    run = await last_run(site)
    assert (run["status"], run["output"], run["stop_requested_at"]) == ("completed", "half and the rest", None)


async def test_errors_are_those_of_the_client_and_nothing_is_done_twice(
    client: AsyncOpenAI, model: FakeModel, site: Served
) -> None:
    """R17, E1: the client tries again after many errors, but not after a run."""
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.chat.completions.create(model="nobody", messages=HELLO)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as wrong:
        await client.chat.completions.create(model="helper", messages=HELLO, n=2)
    assert wrong.value.param == "n"
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="wrong").models.list()

    model.script = lambda call: call.refuse(401, {"message": "no such key"})
    with pytest.raises(openai.InternalServerError) as failed:
        await client.chat.completions.create(model="helper", messages=HELLO)
    assert (failed.value.status_code, failed.value.code) == (502, "llm_authentication")
    assert len(model.calls) == 1

    stream = await client.chat.completions.create(model="helper", messages=HELLO, stream=True)
    with pytest.raises(openai.APIError) as broken:
        async for _ in stream:
            pass
    assert broken.value.code == "llm_authentication"
    assert len(model.calls) == 2
