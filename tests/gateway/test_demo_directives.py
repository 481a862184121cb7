"""Orders to the built-in model: tests all over the project rely on them."""

import asyncio
import time
from collections.abc import AsyncIterator

import httpx2
import pytest

from gateway.errors import ProviderError
from gateway.messages import Message, ToolCall, Usage
from gateway.providers.base import Chunk, Ended, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta, UsageReport
from gateway.providers.demo import DemoTransport
from gateway.providers.openai import OpenAIProvider


@pytest.fixture
def transport() -> DemoTransport:
    return DemoTransport()


@pytest.fixture
async def provider(transport: DemoTransport) -> AsyncIterator[OpenAIProvider]:
    provider = OpenAIProvider(base_url="http://demo.invalid/v1", transport=transport)
    yield provider
    await provider.close()


async def ask(provider: OpenAIProvider, text: str, *later: Message) -> list[Chunk]:
    chunks: list[Chunk] = []
    async with provider.stream(ModelRequest("demo", "", [Message("user", text), *later])) as batches:
        async for batch in batches:
            chunks += batch
    return chunks


def text_of(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


async def test_tokens_are_numbered_words(provider: OpenAIProvider) -> None:
    assert await ask(provider, "#tokens=3") == [
        TextDelta("tok0 "),
        TextDelta("tok1 "),
        TextDelta("tok2 "),
        Ended("stop"),
        UsageReport(Usage(10, 3)),
    ]


async def test_any_directive_gives_fifty_tokens_if_nothing_else_is_said(provider: OpenAIProvider) -> None:
    assert text_of(await ask(provider, "Hello #rate=0")) == "".join(f"tok{number} " for number in range(50))


async def test_a_tool_is_called_first_and_then_the_tokens_come(provider: OpenAIProvider) -> None:
    question = '#tool=wait {"seconds": 1, "why": {"nested": "}"}} #tokens=2'
    (call, ended, _) = await ask(provider, question)
    assert isinstance(call, ToolCallDelta)
    assert (call.name, call.arguments) == ("wait", '{"seconds": 1, "why": {"nested": "}"}}')
    assert ended == Ended("tool_calls")
    made = Message("assistant", "", (ToolCall(call.id, call.name, call.arguments),))
    assert text_of(await ask(provider, question, made, Message("tool", "ok", tool_call_id=call.id))) == "tok0 tok1 "


async def test_several_calls_of_a_tool_have_different_ids(provider: OpenAIProvider) -> None:
    calls = [
        chunk for chunk in await ask(provider, '#tools=send_email*3 {"to": "x"}') if isinstance(chunk, ToolCallDelta)
    ]
    assert [(call.index, call.name, call.arguments) for call in calls] == [
        (number, "send_email", '{"to": "x"}') for number in range(3)
    ]
    assert len({call.id for call in calls}) == 3


async def test_several_tools_can_be_called_together_and_with_rubbish(provider: OpenAIProvider) -> None:
    calls = [chunk for chunk in await ask(provider, "#tool=a {not json} #tool=b") if isinstance(chunk, ToolCallDelta)]
    assert [(call.name, call.arguments) for call in calls] == [("a", "{not json}"), ("b", "{}")]


async def test_reasoning_comes_first(provider: OpenAIProvider) -> None:
    assert (await ask(provider, "#reasoning=2 #tokens=1"))[:3] == [
        ReasoningDelta("think0 "),
        ReasoningDelta("think1 "),
        TextDelta("tok0 "),
    ]


async def test_usage_can_be_kept_back(provider: OpenAIProvider) -> None:
    assert await ask(provider, "#tokens=1 #nousage") == [TextDelta("tok0 "), Ended("stop")]


@pytest.mark.parametrize(
    ("code", "error_type"),
    [(400, "llm_error"), (401, "llm_authentication"), (429, "llm_rate_limit"), (500, "llm_error")],
)
async def test_an_error_can_be_ordered(provider: OpenAIProvider, code: int, error_type: str) -> None:
    for _ in range(2):
        with pytest.raises(ProviderError) as caught:
            await ask(provider, f"#error={code} #retryafter=0.25")
        assert caught.value.error_type == error_type
        assert caught.value.retry_after == (0.25 if caught.value.transient else None)


async def test_only_the_first_calls_with_the_same_text_can_be_made_to_fail(provider: OpenAIProvider) -> None:
    question = "#error=503 #errors=2 #tokens=1"
    for _ in range(2):
        with pytest.raises(ProviderError):
            await ask(provider, question)
    assert text_of(await ask(provider, question)) == "tok0 "


async def test_a_cut_drops_the_connection_every_time(provider: OpenAIProvider, transport: DemoTransport) -> None:
    for _ in range(2):
        said: list[Chunk] = []
        with pytest.raises(ProviderError) as caught:
            async with provider.stream(ModelRequest("demo", "", [Message("user", "#tokens=9 #cut=3")])) as batches:
                async for batch in batches:
                    said += batch
        assert text_of(said) == "tok0 tok1 tok2 "
        assert (caught.value.error_type, caught.value.transient) == ("llm_error", True)
    assert [call.how for call in transport.calls] == ["cut", "cut"]


async def test_a_cut_can_be_ordered_for_the_first_time_only(provider: OpenAIProvider) -> None:
    with pytest.raises(ProviderError):
        await ask(provider, "#tokens=5 #cutonce=3")
    assert text_of(await ask(provider, "#tokens=5 #cutonce=3")) == "tok0 tok1 tok2 tok3 tok4 "


async def test_the_pace_is_kept(provider: OpenAIProvider) -> None:
    begun_at = time.monotonic()
    await ask(provider, "#tokens=20 #rate=200 #ttft=0.05")
    assert time.monotonic() - begun_at >= 0.149


async def test_flat_out_it_lets_others_have_their_turn(provider: OpenAIProvider) -> None:
    task = asyncio.create_task(ask(provider, "#tokens=2000"))
    turns = 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 50


async def test_a_hang_ends_at_the_clients_read_time_out(transport: DemoTransport) -> None:
    """E1: as with a network."""
    provider = OpenAIProvider(base_url="http://demo.invalid/v1", transport=transport, read_timeout=0.02)
    with pytest.raises(ProviderError) as caught:
        await ask(provider, "#hang")
    assert (caught.value.error_type, caught.value.transient) == ("llm_timeout", True)
    assert [call.how for call in transport.calls] == ["timed out"]


@pytest.mark.parametrize("question", ["#hang", "#tokens=100000 #rate=100", "#tokens=1000000", "Write a long answer"])
async def test_it_stops_generating_when_its_connection_is_closed(
    provider: OpenAIProvider, transport: DemoTransport, question: str
) -> None:
    """C1."""
    began = asyncio.Event()

    async def read() -> None:
        async with provider.stream(ModelRequest("demo", "", [Message("user", question)])) as batches:
            began.set()
            async for _ in batches:
                pass

    task = asyncio.create_task(read())
    await began.wait()
    for _ in range(100):
        await asyncio.sleep(0)
    assert [call.how for call in transport.calls] == ["open"]
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    (call,) = transport.calls
    assert call.how == "closed"
    sent = call.sent
    for _ in range(100):
        await asyncio.sleep(0)
    assert call.sent == sent


async def test_a_break_and_a_stream_that_nobody_reads_close_it_too(
    provider: OpenAIProvider, transport: DemoTransport
) -> None:
    request = ModelRequest("demo", "", [Message("user", "#tokens=1000")])
    async with provider.stream(request) as batches:
        async for _ in batches:
            break
    async with provider.stream(request):
        pass
    assert [call.how for call in transport.calls] == ["closed", "closed"]
    assert transport.calls[0].sent <= 1


async def test_an_answer_that_is_read_to_its_end_is_done(provider: OpenAIProvider, transport: DemoTransport) -> None:
    await ask(provider, "#tokens=5")
    (call,) = transport.calls
    assert (call.how, call.sent, call.text) == ("done", 5, "#tokens=5")


async def test_a_request_that_is_not_streamed_is_refused(transport: DemoTransport) -> None:
    async with httpx2.AsyncClient(transport=transport) as client:
        response = await client.post("http://demo.invalid/v1/chat/completions", json={"messages": []})
    assert response.status_code == 400
