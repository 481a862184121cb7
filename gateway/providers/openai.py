"""Any OpenAI-compatible endpoint.

Three things here are as they are for a reason that was measured:

* Of the openai library only the request is used. Its typed stream costs 100 µs a chunk, reading the bytes ourselves 13.
* The body travels as `extra_body`. What is given as arguments, openai walks through field by field, on the event loop:
  36 ms for a history of 200 messages, at every step, instead of 1.
* Retrying is the loop's business, which can tell the watcher and can be stopped: here `max_retries` is 0.

Whoever leaves the `stream()` block, by a cancellation, an exception or a `break`, has closed the connection. No
cancellation is swallowed: when a time-out and a cancellation come together, the cancellation wins.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from typing import Any

import httpx2
import openai
from openai import Omit, omit
from openai.resources.chat import AsyncChat

from gateway.errors import ProviderError
from gateway.providers.base import Chunk, ModelRequest
from gateway.providers.completions import CompletionReader
from gateway.providers.connections import make_http_client
from gateway.providers.failures import scrub, translate
from gateway.providers.requests import build_body
from gateway.providers.sse import MAX_EVENT_BYTES, EventSplitter, EventTooLarge

# After the model said that it is done, only the usage and the end of the body are missing. Reading on to that end keeps
# the connection for the next call; a server that holds it open is not waited for.
SECONDS_FOR_USAGE = 5.0
SECONDS_FOR_END_OF_BODY = 0.2


class OpenAIProvider:
    """One endpoint with one key. The usage may be reported several times in a stream: the last report counts."""

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str = "",
        key_fault: str = "",
        connect_timeout: float = 10.0,
        read_timeout: float = 120.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`read_timeout` is the longest silence between two bytes. `transport` replaces the network, for the demo.
        `key_fault` says why there is no key: nothing is sent then."""
        self._api_key = api_key
        self._key_fault = key_fault
        self._asks_for_usage = True
        timeout = httpx2.Timeout(read_timeout, connect=connect_timeout, pool=connect_timeout)
        with translated_errors(api_key):
            self._client = openai.AsyncOpenAI(
                base_url=base_url,
                api_key=api_key or "none",
                max_retries=0,
                timeout=timeout,
                http_client=make_http_client(base_url, timeout, transport),
            )
        # Named here so that it is imported with this file: openai does that at the first call, which then takes 100 ms.
        chat: AsyncChat = self._client.chat
        self._completions = chat.completions.with_streaming_response
        # The process's own OPENAI_… variables are meant for somebody else. Compressed, small pieces come late.
        self._headers: dict[str, str | Omit] = {
            "OpenAI-Organization": omit,
            "OpenAI-Project": omit,
            "Accept-Encoding": "identity",
        }
        if not api_key:
            self._headers["Authorization"] = omit

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[Sequence[Chunk]]]:
        async with AsyncExitStack() as stack:
            with translated_errors(self._api_key):
                if self._key_fault:
                    raise ProviderError("llm_authentication", self._key_fault)
                if not (self._api_key.isascii() and self._api_key.isprintable()):
                    raise ProviderError("llm_authentication", "The provider's key holds characters that no key has.")
                response = await self._open(build_body(request), stack)
            yield await stack.enter_async_context(aclosing(self._read(response)))

    async def close(self) -> None:
        await self._client.close()

    async def _open(self, body: dict[str, Any], stack: AsyncExitStack) -> httpx2.Response:
        if not self._asks_for_usage:
            return await self._send(body, stack)
        try:
            return await self._send({**body, "stream_options": {"include_usage": True}}, stack)
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            if not re.search("stream_options|include_usage", f"{error.body} {error}"):
                raise
        response = await self._send(body, stack)
        self._asks_for_usage = False
        return response

    async def _send(self, body: dict[str, Any], stack: AsyncExitStack) -> httpx2.Response:
        call = self._completions.create(
            model=body["model"], messages=[], stream=True, extra_headers=self._headers, extra_body=body
        )
        return (await stack.enter_async_context(call)).http_response

    async def _read(self, response: httpx2.Response) -> AsyncGenerator[list[Chunk]]:
        with translated_errors(self._api_key):
            async with aclosing(response.aiter_bytes()) as pieces:
                kind = response.headers.get("content-type", "").lower()
                if kind.startswith("text/html"):
                    raise ProviderError("llm_error", "The provider answered with a web page: check the base URL.")
                read = read_whole_answer if kind.startswith("application/json") else read_events
                async with aclosing(read(pieces)) as batches:
                    async for batch in batches:
                        yield batch


async def read_events(pieces: AsyncGenerator[bytes]) -> AsyncGenerator[list[Chunk]]:
    splitter = EventSplitter()
    reader = CompletionReader()
    async for piece in pieces:
        batch: list[Chunk] = []
        failure: ProviderError | None = None
        try:
            for payload in splitter.feed(piece):
                reader.read(payload, batch)
        except ProviderError as error:
            failure = error
        if batch:
            yield batch  # what was said before an error in the same piece was said
        if reader.has_ended:
            break
        if failure is not None:
            raise failure
    else:
        raise ProviderError("llm_error", "The provider's answer broke off.", transient=True)
    last_words = await read_last_words(pieces, splitter, reader)
    if last_words:
        yield last_words


async def read_last_words(
    pieces: AsyncGenerator[bytes], splitter: EventSplitter, reader: CompletionReader
) -> list[Chunk]:
    """The answer is complete: a connection that fails or stays silent now, or says rubbish, can only cost the usage."""
    loop = asyncio.get_running_loop()
    cancellations = count_cancellations()
    last_words: list[Chunk] = []
    with suppress(TimeoutError, httpx2.TransportError, OSError, ProviderError, EventTooLarge):
        async with asyncio.timeout(SECONDS_FOR_USAGE) as deadline:
            while not reader.is_done and (piece := await anext(pieces, None)) is not None:
                for payload in splitter.feed(piece):
                    reader.read(payload, last_words)
            deadline.reschedule(loop.time() + SECONDS_FOR_END_OF_BODY)
            async for _ in pieces:
                pass
    pass_on_cancellation(cancellations)
    return last_words


async def read_whole_answer(pieces: AsyncGenerator[bytes]) -> AsyncGenerator[list[Chunk]]:
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > MAX_EVENT_BYTES:
            raise ProviderError("llm_error", "The provider sent more at once than can be true.")
    batch: list[Chunk] = []
    CompletionReader().read_whole(bytes(body), batch)
    yield batch


@contextmanager
def translated_errors(api_key: str) -> Iterator[None]:
    """Failures of the call become `ProviderError`, without the key."""
    cancellations = count_cancellations()
    try:
        yield
    except Exception as error:
        pass_on_cancellation(cancellations)
        failure = translate(error)
        if failure is None:
            raise
        failure.detail = scrub(failure.detail, api_key)
        raise failure from None


def pass_on_cancellation(before: int) -> None:
    """Of a failure and a cancellation in the same moment, a library on the way may report the failure only. The stop
    must not be lost in that: the loop would take it for a time-out and try again."""
    if count_cancellations() > before:
        raise asyncio.CancelledError


def count_cancellations() -> int:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop: a provider may be built outside of one
        return 0
    return 0 if task is None else task.cancelling()
