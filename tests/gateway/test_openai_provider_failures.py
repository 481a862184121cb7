"""What goes wrong with a provider, in the words of the contract: the type, whether and when to try again."""

import asyncio
import socket
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from gateway.errors import ErrorType, ProviderError
from gateway.messages import Message
from gateway.providers.base import ModelRequest
from gateway.providers.failures import read_retry_after, scrub
from gateway.providers.openai import OpenAIProvider
from tests.gateway.fake_model import Call, FakeModel

HELLO = ModelRequest(model="fake", system_prompt="", messages=[Message("user", "Hello")])
KEY = "my+very/secret=key"


@asynccontextmanager
async def closing(provider: OpenAIProvider) -> AsyncIterator[OpenAIProvider]:
    try:
        yield provider
    finally:
        await provider.close()


async def fail(base_url: str, **settings: Any) -> ProviderError:
    """Asks, and gives back what went wrong."""
    async with closing(OpenAIProvider(base_url=base_url, api_key=KEY, **settings)) as provider:
        with pytest.raises(ProviderError) as caught:
            async with provider.stream(HELLO) as batches:
                async for _ in batches:
                    pass
    return caught.value


@pytest.mark.parametrize(
    ("status", "error_type", "transient", "message"),
    [
        (400, "llm_error", False, "The provider refused the request (400)."),
        (401, "llm_authentication", False, "The provider refused the key (401)."),
        (402, "llm_error", False, "The provider asks for payment (402)."),
        (403, "llm_authentication", False, "The provider does not allow this with this key (403)."),
        (404, "llm_error", False, "The provider does not know this model or this address (404)."),
        (408, "llm_error", True, "The provider gave up waiting (408)."),
        (409, "llm_error", True, "The provider is busy with a conflicting request (409)."),
        (413, "llm_error", False, "The request is too large for the provider (413)."),
        (418, "llm_error", False, "The provider refused the request (418)."),
        (422, "llm_error", False, "The provider refused the request (422)."),
        (429, "llm_rate_limit", True, "The provider asks to slow down (429)."),
        (500, "llm_error", True, "The provider failed (500)."),
        (502, "llm_error", True, "The provider failed (502)."),
        (503, "llm_error", True, "The provider is not available right now (503)."),
        (529, "llm_error", True, "The provider is overloaded (529)."),
    ],
)
async def test_every_status_has_its_type_and_a_plain_sentence(
    model: FakeModel, status: int, error_type: ErrorType, transient: bool, message: str
) -> None:
    """E1, E2."""
    model.script = lambda call: call.refuse(status, {"message": "in the provider's words", "type": "x", "code": None})
    failure = await fail(model.url)
    assert failure == ProviderError(error_type, message, "in the provider's words", transient)
    assert str(failure) == message
    assert len(model.calls) == 1, "the loop retries, not the client"


@pytest.mark.parametrize("error", [{"code": "insufficient_quota"}, {"type": "insufficient_quota"}])
async def test_a_used_up_quota_is_a_rate_limit_that_waiting_does_not_cure(
    model: FakeModel, error: dict[str, str]
) -> None:
    """E1, E2."""
    model.script = lambda call: call.refuse(429, {"message": "pay", **error}, Retry_After="5")
    failure = await fail(model.url)
    assert (failure.error_type, failure.transient, failure.retry_after) == ("llm_rate_limit", False, None)


async def test_a_conversation_that_is_too_long_says_so(model: FakeModel) -> None:
    """E1."""
    model.script = lambda call: call.refuse(400, {"message": "8193 tokens", "code": "context_length_exceeded"})
    assert (await fail(model.url)).message == "The conversation is too long for this model (400)."


async def test_a_redirect_is_not_followed_with_the_key(model: FakeModel) -> None:
    """E1."""
    model.script = lambda call: call.refuse(307, "", Location="http://elsewhere.invalid/")
    failure = await fail(model.url)
    assert (failure.error_type, failure.transient) == ("llm_error", False)
    assert "base URL" in failure.message


@pytest.mark.parametrize("body", ["Bad gateway, sorry", {"message": "Bad gateway, sorry"}])
async def test_the_detail_is_in_the_providers_own_words(model: FakeModel, body: Any) -> None:
    """E1: whether the body is JSON or not."""
    model.script = lambda call: call.refuse(502, body)
    assert (await fail(model.url)).detail == "Bad gateway, sorry"


async def test_a_long_detail_is_shortened(model: FakeModel) -> None:
    """E1."""
    model.script = lambda call: call.refuse(500, "x" * 5000)
    assert (await fail(model.url)).detail == "x" * 1999 + "…"


async def test_silence_is_a_time_out(model: FakeModel) -> None:
    """E1, E2: before the headers, and between two pieces."""

    async def hang_at_once(call: Call) -> None:
        await call.hang()

    async def hang_later(call: Call) -> None:
        await call.text("Well")
        await call.hang()

    for script in (hang_at_once, hang_later):
        model.script = script
        failure = await fail(model.url, read_timeout=0.05)
        assert (failure.error_type, failure.transient) == ("llm_timeout", True)
        assert failure.message == "The provider was silent for too long."


async def test_bytes_that_are_no_events_still_break_the_silence(model: FakeModel) -> None:
    """The read time-out is about bytes: comments keep a slow model's connection alive."""

    async def script(call: Call) -> None:
        for _ in range(25):
            await call.write(b": thinking\n\n")
            await asyncio.sleep(0.02)
        await call.say("Hello.")

    model.script = script
    async with (
        closing(OpenAIProvider(base_url=model.url, read_timeout=0.4)) as provider,
        provider.stream(HELLO) as batches,
    ):
        assert [batch async for batch in batches]


async def test_a_server_that_does_not_answer_the_connection_is_a_time_out() -> None:
    """E1, E2."""

    class Unreachable(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            raise httpx2.ConnectTimeout("", request=request)

    failure = await fail("http://x/v1", transport=Unreachable())
    assert (failure.error_type, failure.transient) == ("llm_timeout", True)
    assert failure.message == "The provider could not be reached in time."


async def test_a_refused_connection_is_transient() -> None:
    """E1, E2."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        failure = await fail(f"http://127.0.0.1:{unused.getsockname()[1]}/v1")
    assert (failure.error_type, failure.transient) == ("llm_error", True)
    assert failure.message == "Nothing listens at the provider's address."
    assert "Cannot connect to host" in failure.detail


async def test_a_name_that_nobody_knows_is_said_to_be_that() -> None:
    """E1, E2."""
    failure = await fail("http://nowhere.invalid/v1")
    assert (failure.error_type, failure.transient) == ("llm_error", True)
    assert failure.message == "The name in the provider's address is not known."


async def test_a_key_that_is_missing_is_said_to_be_missing_and_nothing_is_sent(model: FakeModel) -> None:
    """E1."""
    async with closing(OpenAIProvider(base_url=model.url, key_fault="There is no key.")) as provider:
        with pytest.raises(ProviderError) as caught:
            async with provider.stream(HELLO):
                pass
    assert (caught.value.error_type, caught.value.message) == ("llm_authentication", "There is no key.")
    assert model.calls == []


async def test_a_server_that_hangs_up_without_a_word_is_transient(model: FakeModel) -> None:
    """E1, E2."""

    async def script(call: Call) -> None:
        call.cut()
        await call.hang()

    model.script = script
    failure = await fail(model.url)
    assert (failure.error_type, failure.transient) == ("llm_error", True)


@pytest.mark.parametrize("url", ["ftp://x/v1", "nonsense", "http://[::1", ""])
async def test_an_address_that_is_none_is_said_to_be_none(url: str) -> None:
    """E1."""
    with pytest.raises(ProviderError) as caught:
        async with closing(OpenAIProvider(base_url=url)) as provider, provider.stream(HELLO):
            pass
    assert (caught.value.error_type, caught.value.transient) == ("llm_error", False)
    assert caught.value.message == "The provider's address is not valid."


@pytest.mark.parametrize("key", ["sk-\u20acuro", "sk-a\u00a0", "sk-a\r\nX-Evil: y", "sk-a\0"])
async def test_a_key_that_is_none_is_refused_before_it_is_sent(model: FakeModel, key: str) -> None:
    """E1: something else was pasted with it."""
    async with closing(OpenAIProvider(base_url=model.url, api_key=key)) as provider:
        with pytest.raises(ProviderError) as caught:
            async with provider.stream(HELLO):
                pass
    assert (caught.value.error_type, caught.value.transient) == ("llm_authentication", False)
    assert model.calls == []


# When to try again


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:00 GMT"}, 0.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    """E2."""
    now = 1445412480.0  # Wed, 21 Oct 2015 07:28:00 GMT
    assert read_retry_after(headers, now) == seconds


@pytest.mark.parametrize(("status", "seconds"), [(429, 7.0), (503, 7.0), (400, None), (401, None)])
async def test_a_failure_says_when_to_try_again_if_it_is_worth_it(
    model: FakeModel, status: int, seconds: float | None
) -> None:
    """E2."""
    model.script = lambda call: call.refuse(status, {"message": "later"}, Retry_After="7")
    assert (await fail(model.url)).retry_after == seconds


# Secrets


@pytest.mark.parametrize("status", [401, 400, 500])
async def test_a_provider_that_echoes_the_key_cannot_make_us_show_it(model: FakeModel, status: int) -> None:
    """E1."""

    async def script(call: Call) -> None:
        await call.refuse(status, {"message": f"Wrong key {KEY}, header {call.request.headers['Authorization']!r}"})

    model.script = script
    failure = await fail(model.url)
    assert KEY not in repr(failure)
    assert "[key]" in failure.detail


async def test_the_key_is_not_in_the_traceback_either(model: FakeModel) -> None:
    """E1: tracebacks go to logs."""
    model.script = lambda call: call.refuse(401, {"message": f"Wrong key {KEY}"})
    assert KEY not in "".join(traceback.format_exception(await fail(model.url)))


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        (f"key {KEY}.", "key [key]."),
        ("?key=my%2Bvery%2Fsecret%3Dkey&x", "?key=[key]&x"),
        ("Incorrect API key provided: sk-proj-********abcd. See", "Incorrect API key provided: [key] See"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [key]"),
        ("http://user:password@host/v1", "http://host/v1"),
        ("a task-force of risk-takers", "a task-force of risk-takers"),
    ],
)
def test_keys_are_struck_out_in_whatever_form_they_come(text: str, scrubbed: str) -> None:
    """E1."""
    assert scrub(text, KEY) == scrubbed


def test_a_placeholder_instead_of_a_key_garbles_nothing() -> None:
    assert scrub("no such model: x-large", "x") == "no such model: x-large"
