"""The OpenAI-compatible provider: what it sends, and what it makes of the answers of many kinds of servers."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import httpx2
import pytest

from gateway.errors import ProviderError
from gateway.messages import Message, ToolCall, Usage
from gateway.providers import connections, openai
from gateway.providers.base import (
    Chunk,
    Ended,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    UsageReport,
)
from gateway.providers.openai import OpenAIProvider
from gateway.providers.sse import EventSplitter
from tests.gateway.fake_model import Call, FakeModel, chunk, sse

HELLO = ModelRequest(model="fake", system_prompt="", messages=[Message("user", "Hello")])
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@pytest.fixture
async def provider(model: FakeModel) -> AsyncIterator[OpenAIProvider]:
    async with closing(
        OpenAIProvider(base_url=model.url, api_key="sk-secret", connect_timeout=2, read_timeout=5)
    ) as provider:
        yield provider


@asynccontextmanager
async def closing(provider: OpenAIProvider) -> AsyncIterator[OpenAIProvider]:
    try:
        yield provider
    finally:
        await provider.close()


async def ask(provider: OpenAIProvider, request: ModelRequest = HELLO) -> list[Chunk]:
    chunks: list[Chunk] = []
    async with provider.stream(request) as batches:
        async for batch in batches:
            chunks += batch
    return chunks


async def ask_until_it_fails(provider: OpenAIProvider) -> tuple[list[Chunk], ProviderError]:
    chunks: list[Chunk] = []
    with pytest.raises(ProviderError) as caught:
        async with provider.stream(HELLO) as batches:
            async for batch in batches:
                chunks += batch
    return chunks, caught.value


def answer_with(*events: dict[str, Any] | bytes) -> Any:
    async def script(call: Call) -> None:
        for event in events:
            await call.write(event if isinstance(event, bytes) else sse(event))

    return script


# What is sent


async def test_a_whole_conversation_is_sent_in_openais_words(model: FakeModel, provider: OpenAIProvider) -> None:
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
    ]
    request = ModelRequest(
        model="gpt-x",
        system_prompt="Be brief.",
        messages=[
            Message("user", parts),
            Message("assistant", "", (ToolCall("c1", "look", '{"at": "it"}'), ToolCall("c2", "think", ""))),
            Message("tool", "a cat", tool_call_id="c1", name="look"),
            Message("tool", "hm", tool_call_id="c2"),
            Message("assistant", "A cat, I think.", (ToolCall("c3", "look", "{}"),)),
            Message("tool", "yes", tool_call_id="c3"),
            Message("assistant", "A cat.", partial=True),
            Message("user", "Sure?", name="alice"),
        ],
        tools=[ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})],
        sampling={"temperature": 0.2, "top_k": 40},
        reasoning_effort="low",
    )
    await ask(provider, request)
    assert model.calls[0].body == {
        "model": "gpt-x",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.2,
        "top_k": 40,
        "reasoning_effort": "low",
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Looks.",
                    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
                },
            }
        ],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": parts},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "it"}'}},
                    {"id": "c2", "type": "function", "function": {"name": "think", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
            {"role": "tool", "tool_call_id": "c2", "content": "hm"},
            {
                "role": "assistant",
                "content": "A cat, I think.",
                "tool_calls": [{"id": "c3", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c3", "content": "yes"},
            {"role": "assistant", "content": "A cat."},
            {"role": "user", "content": "Sure?", "name": "alice"},
        ],
    }
    assert model.calls[0].request.headers["Authorization"] == "Bearer sk-secret"


async def test_a_bare_question_is_sent_without_empty_fields(model: FakeModel, provider: OpenAIProvider) -> None:
    await ask(provider)
    assert model.calls[0].body == {
        "model": "fake",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "Hello"}],
    }


async def test_sampling_settings_cannot_replace_what_the_request_says(
    model: FakeModel, provider: OpenAIProvider
) -> None:
    sampling = {"messages": [], "model": "other", "stream": False, "n": 3, "seed": 7}
    await ask(provider, ModelRequest("fake", "", [Message("user", "Hello")], sampling=sampling))
    body = model.calls[0].body
    assert (body["model"], body["stream"], body["seed"], len(body["messages"]), "n" in body) == (
        "fake",
        True,
        7,
        1,
        False,
    )


@pytest.mark.parametrize("arguments", ["{not json", "[1, 2]", '"text"'])
async def test_a_past_call_with_rubbish_as_arguments_is_sent_as_valid_json(
    model: FakeModel, provider: OpenAIProvider, arguments: str
) -> None:
    """C8: one bad call must not make every later turn of the conversation a 400."""
    history = [
        Message("user", "Go"),
        Message("assistant", "", (ToolCall("c1", "f", arguments),)),
        Message("tool", "no", tool_call_id="c1"),
    ]
    await ask(provider, ModelRequest("fake", "", history))
    sent = model.calls[0].body["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"not_a_json_object": arguments}


async def test_without_a_key_no_authorization_is_sent(model: FakeModel) -> None:
    async with closing(OpenAIProvider(base_url=model.url)) as provider:
        await ask(provider)
    assert "Authorization" not in model.calls[0].request.headers


async def test_the_processes_own_openai_settings_stay_at_home(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-mine")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://nowhere.invalid")
    async with closing(OpenAIProvider(base_url=model.url)) as provider:
        await ask(provider)
    assert not [value for value in model.calls[0].request.headers.values() if "mine" in value]


async def test_a_server_that_refuses_stream_options_is_asked_again_without_and_remembered(
    model: FakeModel, provider: OpenAIProvider
) -> None:
    async def script(call: Call) -> None:
        if "stream_options" in call.body:
            await call.refuse(400, {"message": "Unrecognized request argument supplied: stream_options", "param": None})
        else:
            await call.say("Hello.")

    model.script = script
    assert (await ask(provider))[0] == TextDelta("Hello.")
    assert (await ask(provider))[0] == TextDelta("Hello.")
    assert ["stream_options" in call.body for call in model.calls] == [True, False, False]


async def test_any_other_refusal_is_not_asked_twice(model: FakeModel, provider: OpenAIProvider) -> None:
    model.script = lambda call: call.refuse(400, {"message": "temperature must be at most 2"})
    with pytest.raises(ProviderError):
        await ask(provider)
    assert len(model.calls) == 1


# What is made of the answer


async def test_text_reasoning_usage_and_the_end_are_told_apart(model: FakeModel, provider: OpenAIProvider) -> None:
    model.script = answer_with(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "Let me "}),
        chunk({"reasoning": "think."}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo."}),
        chunk({}, "stop"),
        {"choices": [], "usage": {**USAGE, "cost": 0.0025}},
        b"data: [DONE]\n\n",
    )
    assert await ask(provider) == [
        ReasoningDelta("Let me "),
        ReasoningDelta("think."),
        TextDelta("Hel"),
        TextDelta("lo."),
        Ended("stop"),
        UsageReport(Usage(10, 5, Decimal("0.0025"))),
    ]


async def test_what_came_in_one_read_comes_in_one_batch(model: FakeModel, provider: OpenAIProvider) -> None:
    model.script = answer_with(sse(chunk({"content": "a"})) + sse(chunk({"content": "b"})), chunk({}, "stop"))
    async with provider.stream(HELLO) as batches:
        assert list(await anext(batches))[:2] == [TextDelta("a"), TextDelta("b")]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [
                {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
                {"index": 0, "function": {"arguments": '{"x":'}},
                {"index": 0, "function": {"arguments": "1}"}},
                {"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
            ],
            id="as OpenAI does",
        ),
        pytest.param(
            [
                {"id": "a", "function": {"name": "f", "arguments": '{"x":'}},
                {"id": "a", "function": {"arguments": "1}"}},
                {"id": "b", "function": {"name": "g", "arguments": "{}"}},
            ],
            id="no index, the id repeated",
        ),
        pytest.param(
            [
                {"id": "a", "function": {"name": "f", "arguments": '{"x":'}},
                {"function": {"arguments": "1}"}},
                {"id": "b", "function": {"name": "g", "arguments": "{}"}},
            ],
            id="no index, the id once",
        ),
        pytest.param(
            [
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x":1}'}},
                {"index": 0, "id": "b", "function": {"name": "g", "arguments": "{}"}},
            ],
            id="index 0 for all (Gemini)",
        ),
        pytest.param(
            [
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
                {"index": 0, "id": "z1", "function": {"arguments": '{"x":'}},
                {"index": 0, "id": "z2", "function": {"arguments": "1}"}},
                {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}},
            ],
            id="a new id with every piece (old vLLM)",
        ),
        pytest.param(
            [
                {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
                {"id": "b", "function": {"name": "g", "arguments": {}}},
            ],
            id="arguments as an object",
        ),
    ],
)
async def test_tool_calls_are_put_together_whatever_the_server_numbers(
    model: FakeModel, provider: OpenAIProvider, pieces: list[dict[str, Any]]
) -> None:
    model.script = answer_with(*(chunk({"tool_calls": [piece]}) for piece in pieces), chunk({}, "tool_calls"))
    calls: dict[int, list[str]] = {}
    for delta in await ask(provider):
        if isinstance(delta, ToolCallDelta):
            call = calls.setdefault(delta.index, [delta.id, "", ""])
            call[1] += delta.name
            call[2] += delta.arguments
    assert calls == {0: ["a", "f", '{"x":1}'], 1: ["b", "g", "{}"]}


async def test_tool_calls_with_neither_index_nor_id_begin_at_each_name(
    model: FakeModel, provider: OpenAIProvider
) -> None:
    pieces = [{"function": {"name": "f", "arguments": "{}"}}, {"function": {"name": "f", "arguments": "{}"}}]
    model.script = answer_with(chunk({"tool_calls": pieces}, "tool_calls"))
    assert await ask(provider) == [
        ToolCallDelta(0, "", "f", "{}"),
        ToolCallDelta(1, "", "f", "{}"),
        Ended("tool_calls"),
    ]


async def test_usage_with_every_piece_leaves_the_last_report_standing(
    model: FakeModel, provider: OpenAIProvider
) -> None:
    model.script = answer_with(
        chunk({"content": "a"}, usage={"prompt_tokens": 10, "completion_tokens": 1}),
        chunk({"content": "b"}, usage=None),
        chunk({}, "stop", usage={"prompt_tokens": 10, "completion_tokens": 2}),
    )
    reports = [delta for delta in await ask(provider) if isinstance(delta, UsageReport)]
    assert reports[-1] == UsageReport(Usage(10, 2))


async def test_content_as_a_list_of_parts_is_understood(model: FakeModel, provider: OpenAIProvider) -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}]
    model.script = answer_with(chunk({"content": parts}, "stop"))
    assert await ask(provider) == [ReasoningDelta("hm"), TextDelta("yes"), Ended("stop")]


async def test_a_refusal_of_the_model_is_said_as_text(model: FakeModel, provider: OpenAIProvider) -> None:
    model.script = answer_with(chunk({"content": None, "refusal": "I can't help with that."}, "stop"))
    assert (await ask(provider))[0] == TextDelta("I can't help with that.")


async def test_a_second_choice_is_left_out(model: FakeModel, provider: OpenAIProvider) -> None:
    model.script = answer_with(
        {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]},
        chunk({}, "stop"),
    )
    assert await ask(provider) == [TextDelta("yes"), Ended("stop")]


async def test_done_without_a_finish_reason_is_an_end(model: FakeModel, provider: OpenAIProvider) -> None:
    model.script = answer_with(chunk({"content": "a"}), b"data: [DONE]\n\n")
    assert await ask(provider) == [TextDelta("a"), Ended("stop")]
    model.script = answer_with(chunk({"tool_calls": [{"id": "a", "function": {"name": "f"}}]}), b"data: [DONE]\n\n")
    assert await ask(provider) == [ToolCallDelta(0, "a", "f", ""), Ended("tool_calls")]


async def test_a_finish_reason_without_done_is_an_end(model: FakeModel, provider: OpenAIProvider) -> None:
    model.script = answer_with(chunk({"content": "a"}), chunk({}, "length"))
    assert await ask(provider) == [TextDelta("a"), Ended("length")]


async def test_broken_utf8_is_replaced_and_not_refused(model: FakeModel, provider: OpenAIProvider) -> None:
    model.script = answer_with(sse(chunk({"content": "caf#"})).replace(b"#", b"\xc3"), chunk({}, "stop"))
    assert (await ask(provider))[0] == TextDelta("caf\ufffd")


async def test_a_whole_json_answer_to_a_streamed_request_is_understood(
    model: FakeModel, provider: OpenAIProvider
) -> None:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ("a", "b")]
    message = {"role": "assistant", "content": "Hello.", "reasoning_content": "hm", "tool_calls": calls}

    async def script(call: Call) -> None:
        await call.begin("application/json; charset=utf-8")
        await call.write(
            sse({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": USAGE})[6:]
        )

    model.script = script
    assert await ask(provider) == [
        ReasoningDelta("hm"),
        TextDelta("Hello."),
        ToolCallDelta(0, "a", "f", "{}"),
        ToolCallDelta(1, "b", "f", "{}"),
        Ended("tool_calls"),
        UsageReport(Usage(10, 5)),
    ]


# Answers that go wrong (E1)


async def test_a_stream_that_ends_with_neither_finish_reason_nor_done_was_cut(
    model: FakeModel, provider: OpenAIProvider
) -> None:
    """E1, E2: what was said is kept, and another try is worth it."""
    model.script = answer_with(chunk({"content": "a"}))
    chunks, failure = await ask_until_it_fails(provider)
    assert chunks == [TextDelta("a")]
    assert (failure.error_type, failure.transient) == ("llm_error", True)


async def test_a_connection_that_drops_in_the_middle_is_a_transient_failure(
    model: FakeModel, provider: OpenAIProvider
) -> None:
    """E1, E2."""

    async def script(call: Call) -> None:
        await call.text("a")
        call.cut()

    model.script = script
    chunks, failure = await ask_until_it_fails(provider)
    assert chunks == [TextDelta("a")]
    assert (failure.error_type, failure.transient) == ("llm_error", True)


async def test_a_connection_that_drops_after_the_finish_spoils_nothing(
    model: FakeModel, provider: OpenAIProvider
) -> None:
    async def script(call: Call) -> None:
        await call.text("a")
        await call.finish()
        call.cut()

    model.script = script
    assert await ask(provider) == [TextDelta("a"), Ended("stop")]


@pytest.mark.parametrize(
    "line", [b"data: {broken\n\n", b"data: 7\n\n", b'data: {"choices": [7]}\n\n', b'data: {"choices": 7}\n\n']
)
async def test_an_event_that_cannot_be_read_is_a_transient_failure(
    model: FakeModel, provider: OpenAIProvider, line: bytes
) -> None:
    """E1: and what stood before it in the same piece was said."""
    model.script = answer_with(sse(chunk({"content": "a"})) + line)
    chunks, failure = await ask_until_it_fails(provider)
    assert chunks == [TextDelta("a")]
    assert (failure.error_type, failure.transient) == ("llm_error", True)


@pytest.mark.parametrize(
    ("event", "error_type", "transient"),
    [
        ({"error": {"message": "boom", "code": 502}}, "llm_error", True),
        ({"error": {"message": "boom", "type": "server_error"}}, "llm_error", True),
        ({"error": "boom"}, "llm_error", True),
        ({"error": {"message": "boom", "code": "rate_limit_exceeded"}}, "llm_rate_limit", True),
        ({"error": {"message": "boom", "code": "insufficient_quota"}}, "llm_rate_limit", False),
        ({"error": {"message": "boom", "type": "authentication_error"}}, "llm_authentication", False),
        ({"error": {"message": "boom", "type": "invalid_request_error"}}, "llm_error", False),
        ({"object": "error", "message": "boom", "code": 400}, "llm_error", False),
    ],
)
async def test_an_error_inside_the_stream_is_the_failure_it_names(
    model: FakeModel, provider: OpenAIProvider, event: dict[str, Any], error_type: str, transient: bool
) -> None:
    """E1."""
    model.script = answer_with(sse(chunk({"content": "a"})) + sse(event))
    chunks, failure = await ask_until_it_fails(provider)
    assert chunks == [TextDelta("a")]
    assert (failure.error_type, failure.transient, failure.detail) == (error_type, transient, "boom")


async def test_a_web_page_instead_of_a_stream_says_so(model: FakeModel, provider: OpenAIProvider) -> None:
    """E1: the usual sign of a wrong base URL; trying again would not help."""

    async def script(call: Call) -> None:
        await call.begin("text/html; charset=utf-8")
        await call.write(b"<html>Welcome to nginx</html>")

    model.script = script
    _, failure = await ask_until_it_fails(provider)
    assert (failure.error_type, failure.transient) == ("llm_error", False)
    assert "base URL" in failure.message


async def test_a_json_answer_that_is_no_completion_is_a_failure(model: FakeModel, provider: OpenAIProvider) -> None:
    """E1."""

    async def script(call: Call) -> None:
        await call.begin("application/json")
        await call.write(b'{"status": "ok"}')

    model.script = script
    _, failure = await ask_until_it_fails(provider)
    assert failure.error_type == "llm_error"


async def test_an_event_larger_than_can_be_true_is_a_failure(
    model: FakeModel, provider: OpenAIProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E1: memory is not filled by a server that never ends its line."""
    monkeypatch.setattr(openai, "EventSplitter", lambda: EventSplitter(1000))
    model.script = answer_with(b"data: " + b"x" * 2000)
    _, failure = await ask_until_it_fails(provider)
    assert failure.error_type == "llm_error"


# The connection


async def test_the_next_call_uses_the_same_connection(model: FakeModel, provider: OpenAIProvider) -> None:
    ports = []

    async def script(call: Call) -> None:
        ports.append(call.port)
        await call.say("Hello.")

    model.script = script
    for _ in range(5):
        await ask(provider)
    assert ports == [ports[0]] * 5


async def test_a_server_that_holds_the_connection_after_done_is_not_waited_for(
    model: FakeModel, provider: OpenAIProvider
) -> None:
    async def script(call: Call) -> None:
        await call.say("Hello.")
        await call.hang()

    model.script = script
    async with asyncio.timeout(3):
        assert await ask(provider) == [TextDelta("Hello."), Ended("stop")]
        await model.calls[0].ended.wait()
    assert model.calls[0].how == "client closed"


async def test_a_server_that_neither_says_done_nor_closes_is_not_waited_for_long(
    model: FakeModel, provider: OpenAIProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai, "SECONDS_FOR_USAGE", 0.05)

    async def script(call: Call) -> None:
        await call.text("Hello.")
        await call.finish()
        await call.hang()

    model.script = script
    async with asyncio.timeout(3):
        assert await ask(provider) == [TextDelta("Hello."), Ended("stop")]


def test_all_https_providers_share_one_tls_context_and_http_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Building one takes tens of milliseconds."""
    made = []
    create = httpx2.create_ssl_context

    def count(**options: Any) -> ssl.SSLContext:
        if not isinstance(options.get("verify"), ssl.SSLContext):
            made.append(1)
        return create(**options)

    monkeypatch.setattr(httpx2, "create_ssl_context", count)
    connections.shared_tls_context.cache_clear()
    OpenAIProvider(base_url="http://localhost:1/v1")
    assert made == []
    for _ in range(3):
        OpenAIProvider(base_url="https://localhost:1/v1")
    assert made == [1]
