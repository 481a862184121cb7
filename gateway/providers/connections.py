"""HTTP clients for model calls, on aiohttp, with one TLS context for the whole process.

openai's own transport hands on each chunk of the body by itself, through a dozen generators: with a hundred streams at
50 words a second that took 90 % of a processor. On aiohttp, which openai supports as well, everything that has arrived
comes at once, and the same took 55 %.
"""

import ssl
from collections.abc import AsyncIterator
from functools import cache

import httpx2
import openai

# A connection is a model call under way; how many there may be is decided elsewhere, not by the HTTP client.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30)
# Of a refusal, what anybody will read. openai reads all of it before it tells.
MAX_REFUSAL_BYTES = 64 * 2**10


@cache
def shared_tls_context() -> ssl.SSLContext:
    """Reading the certificates takes tens of milliseconds, which no run should pay for: once in a process."""
    return httpx2.create_ssl_context()


@cache
def no_tls_context() -> ssl.SSLContext:
    """For plain http, where the client still wants a context: one that trusts nobody, and costs nothing to make."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def make_http_client(
    base_url: str, timeout: httpx2.Timeout, transport: httpx2.AsyncBaseTransport | None = None
) -> httpx2.AsyncClient:
    is_plain = httpx2.URL(base_url).scheme != "https"
    return openai.DefaultAioHttpClient(
        timeout=timeout,
        limits=LIMITS,
        transport=transport,
        verify=no_tls_context() if is_plain or transport is not None else shared_tls_context(),
        # The key goes to the address that was configured and to no other.
        follow_redirects=False,
        event_hooks={"response": [cut_refusal]},
    )


async def cut_refusal(response: httpx2.Response) -> None:
    if not response.is_success and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = CutStream(response.stream)


class CutStream(httpx2.AsyncByteStream):
    """The beginning of a body, as if that were all of it."""

    def __init__(self, whole: httpx2.AsyncByteStream) -> None:
        self._whole = whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_REFUSAL_BYTES
        async for piece in self._whole:
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                break

    async def aclose(self) -> None:
        await self._whole.aclose()
