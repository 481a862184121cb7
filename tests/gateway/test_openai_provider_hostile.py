"""A provider that sends what no model says in good faith: what was said is kept, nothing grows without end."""

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal

import pytest

from gateway.draft import Draft
from gateway.errors import ProviderError
from gateway.messages import Message, ToolCall, Usage
from gateway.providers import completions, connections
from gateway.providers.base import Chunk, Ended, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta, UsageReport
from gateway.providers.openai import OpenAIProvider
from tests.gateway.fake_model import Call, FakeModel, chunk, sse

HELLO = ModelRequest(model="fake", system_prompt="", messages=[Message("user", "Hello")])


@pytest.fixture
async def provider(model: FakeModel) -> AsyncIterator[OpenAIProvider]:
    provider = OpenAIProvider(base_url=model.url)
    yield provider
    await provider.close()


async def ask(provider: OpenAIProvider) -> tuple[list[Chunk], ProviderError | None]:
    """What was said, and what went wrong, if anything did."""
    said: list[Chunk] = []
    try:
        async with asyncio.timeout(20), provider.stream(HELLO) as batches:
            async for batch in batches:
                said += batch
    except ProviderError as error:
        return said, error
    return said, None


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -1, "completion_tokens": 2},
        {"prompt_tokens": 1, "completion_tokens": -2},
        {"prompt_tokens": 2**63, "completion_tokens": 2},
        {"prompt_tokens": 1, "completion_tokens": 1e300},
        {"prompt_tokens": "many", "completion_tokens": 2},
        {"prompt_tokens": [1], "completion_tokens": 2},
        [1, 2],
        "3",
        7,
    ],
)
async def test_figures_that_cannot_be_true_are_none_and_cost_no_answer(
    model: FakeModel, provider: OpenAIProvider, usage: object
) -> None:
    model.script = lambda call: call.write(sse(chunk({"content": "a"}, "stop", usage=usage)) + b"data: [DONE]\n\n")
    assert await ask(provider) == ([TextDelta("a"), Ended("stop")], None)


@pytest.mark.parametrize("cost", [-1, 1e300, "1e999999", "much", True, [1]])
async def test_a_price_that_cannot_be_true_is_none(model: FakeModel, provider: OpenAIProvider, cost: object) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "cost": cost}
    model.script = lambda call: call.write(sse(chunk({"content": "a"}, "stop", usage=usage)) + b"data: [DONE]\n\n")
    assert await ask(provider) == ([TextDelta("a"), Ended("stop"), UsageReport(Usage(1, 2))], None)


async def test_the_largest_figures_that_are_believed_fit_the_database(
    model: FakeModel, provider: OpenAIProvider
) -> None:
    usage = {"prompt_tokens": 2**31 - 1, "completion_tokens": 0, "cost": "999999.99"}
    model.script = lambda call: call.write(sse(chunk({"content": "a"}, "stop", usage=usage)) + b"data: [DONE]\n\n")
    said, _ = await ask(provider)
    assert said[-1] == UsageReport(Usage(2**31 - 1, 0, Decimal("999999.99")))


@pytest.mark.parametrize(
    "rubbish", [b"data: {broken\n\n", b'data: {"error": {"message": "late"}}\n\n', b"data: " + b"x" * (17 * 2**20)]
)
@pytest.mark.parametrize("end", [b"", b"data: [DONE]\n\n"])
async def test_rubbish_after_the_finish_spoils_nothing(
    model: FakeModel, provider: OpenAIProvider, rubbish: bytes, end: bytes
) -> None:
    async def script(call: Call) -> None:
        await call.text("a")
        await call.finish()
        await call.write(end + rubbish)

    model.script = script
    assert await ask(provider) == ([TextDelta("a"), Ended("stop")], None)


async def test_what_comes_after_done_was_not_said(model: FakeModel, provider: OpenAIProvider) -> None:
    model.script = lambda call: call.write(
        sse(chunk({"content": "a"}, "stop")) + b"data: [DONE]\n\n" + sse(chunk({"content": "b"}))
    )
    assert await ask(provider) == ([TextDelta("a"), Ended("stop")], None)


async def test_a_server_that_never_stops_talking_after_its_end_is_left(
    model: FakeModel, provider: OpenAIProvider
) -> None:
    async def script(call: Call) -> None:
        await call.say("a")
        while True:
            await call.write(b": and another thing\n\n")
            await asyncio.sleep(0.01)

    model.script = script
    assert await ask(provider) == ([TextDelta("a"), Ended("stop")], None)


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "word " * 200},
        {"reasoning_content": "word " * 200},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "x" * 1000}}]},
    ],
)
async def test_an_answer_without_an_end_is_ended(
    model: FakeModel, provider: OpenAIProvider, delta: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """E1: what was said until then was said."""
    monkeypatch.setattr(completions, "MAX_ANSWER_CHARACTERS", 100_000)

    async def script(call: Call) -> None:
        while True:
            await call.delta(**delta)

    model.script = script
    said, failure = await ask(provider)
    assert failure is not None
    assert (failure.error_type, failure.transient) == ("llm_error", False)
    assert failure.message == "The provider's answer is longer than can be true."
    assert len(said) == 101
    await model.calls[0].ended.wait()
    assert model.calls[0].how == "client closed"


async def test_more_calls_than_can_be_true_are_refused(model: FakeModel, provider: OpenAIProvider) -> None:
    """E1."""
    pieces = [{"index": number, "id": f"c{number}", "function": {"name": "f"}} for number in range(1001)]
    model.script = lambda call: call.delta(tool_calls=pieces)
    said, failure = await ask(provider)
    assert failure is not None
    assert (failure.error_type, failure.transient) == ("llm_error", False)
    assert all(isinstance(chunk, ToolCallDelta) for chunk in said)


FIRST, SECOND = "\ud83d", "\ude00"  # of one character, as a gateway cuts it that counts like JavaScript


async def test_a_character_that_is_cut_in_two_is_whole_again(model: FakeModel, provider: OpenAIProvider) -> None:
    def call_of(arguments: str, index: int) -> list[dict[str, object]]:
        return [{"index": index, "id": f"c{index}", "function": {"name": "f", "arguments": arguments}}]

    async def script(call: Call) -> None:
        await call.delta(reasoning_content=FIRST)
        await call.delta(reasoning_content=f"{SECOND}b{FIRST}")
        await call.text(f"a{FIRST}")
        await call.delta(tool_calls=call_of(f"c{FIRST}", 0) + call_of("d", 1))
        await call.delta(tool_calls=call_of(f"{SECOND}!", 1) + call_of(f"{SECOND}!", 0))
        await call.delta(content=f"{SECOND}!", reasoning_content=f"{SECOND}!")
        await call.text(f"{FIRST}{SECOND} {SECOND} {FIRST} é{FIRST}")
        await call.finish()
        await call.done()

    model.script = script
    said, failure = await ask(provider)
    assert failure is None
    texts = {
        kind: "".join(chunk.text for chunk in said if isinstance(chunk, kind)) for kind in (TextDelta, ReasoningDelta)
    }
    assert texts == {TextDelta: "a😀!😀 \ufffd \ufffd é", ReasoningDelta: "😀b😀!"}
    assert all(chunk.text for chunk in said if isinstance(chunk, TextDelta | ReasoningDelta))
    arguments = {0: "", 1: ""}
    for chunk_ in said:
        if isinstance(chunk_, ToolCallDelta):
            arguments[chunk_.index] += chunk_.arguments
    assert arguments == {0: "c😀!", 1: "d\ufffd!"}


async def test_half_a_character_in_names_and_errors_can_be_stored(model: FakeModel, provider: OpenAIProvider) -> None:
    """E1"""
    model.script = lambda call: call.event({"error": {"message": f"no {FIRST}\0", "code": f"{SECOND}"}})
    _, failure = await ask(provider)
    assert failure is not None
    assert failure.detail == "no ?"
    model.script = lambda call: call.refuse(400, {"message": f"no {FIRST}\0"})
    _, failure = await ask(provider)
    assert failure is not None
    assert failure.detail == "no ?"
    draft = Draft()
    draft.add_call(ToolCallDelta(0, f"id{FIRST}", f"name{SECOND}", "{}"))
    assert draft.calls == [ToolCall("id?", "name?", "{}")]


async def test_an_event_that_is_too_deep_is_the_providers_failure(model: FakeModel, provider: OpenAIProvider) -> None:
    """E1"""
    model.script = lambda call: call.write(b'data: {"choices": ' + b"[" * 100_000 + b"\n\n")
    _, failure = await ask(provider)
    assert failure is not None
    assert failure.message == "The provider sent something that cannot be read."


@pytest.mark.parametrize("status", [400, 500, 307])
async def test_of_a_refusal_without_an_end_only_the_beginning_is_read(
    model: FakeModel, provider: OpenAIProvider, status: int
) -> None:
    """E1."""
    sent = 0

    async def script(call: Call) -> None:
        nonlocal sent
        await call.begin(status=status)
        while True:
            await call.write(b"no " * 10_000)
            sent += 30_000

    model.script = script
    said, failure = await ask(provider)
    assert said == []
    assert failure is not None
    assert failure.error_type == "llm_error"
    assert str(status) in failure.message
    assert failure.detail.startswith("no no ")
    await model.calls[0].ended.wait()
    assert sent < 100 * connections.MAX_REFUSAL_BYTES, "the rest fits the buffers of both sockets"


@pytest.mark.parametrize(
    "answer",
    [
        b"\x16\x03\x01 garbage\r\n\r\n",
        b"HTTP/1.1 99 Weird\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 2**20 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\nabc\r\n",
    ],
)
async def test_what_is_no_http_is_the_providers_failure_and_not_ours(answer: bytes) -> None:
    """E1."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        provider = OpenAIProvider(base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        said, failure = await ask(provider)
        await provider.close()
    assert said == []
    assert failure is not None
    assert (failure.error_type, failure.transient) == ("llm_error", True)
    assert failure.message == "The connection to the provider failed."
