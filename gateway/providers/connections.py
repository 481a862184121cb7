"""HTTP clients for model calls: one TLS context for the whole process, and sockets that always get closed."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any

import httpcore2
import httpx2

# A connection is a model call under way; how many there may be is decided elsewhere, not by the HTTP client.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30)


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
    return httpx2.AsyncClient(
        timeout=timeout,
        limits=LIMITS,
        transport=transport,
        verify=no_tls_context() if is_plain or transport is not None else shared_tls_context(),
        # The key goes to the address that was configured and to no other.
        follow_redirects=False,
        event_hooks={"request": [close_interrupted_handshake]},
    )


async def close_interrupted_handshake(request: httpx2.Request) -> None:
    """A task that is cancelled in the middle of a TLS handshake would leave its socket open: httpcore closes it for
    errors only. So keep the stream of the connection under way, and close it when the handshake did not succeed."""
    request.extensions["trace"] = make_trace()


def make_trace() -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
    streams: list[httpcore2.AsyncNetworkStream] = []

    async def trace(event: str, info: Mapping[str, Any]) -> None:
        if event.endswith(".connect_tcp.complete"):
            streams.append(info["return_value"])
        elif event.endswith(".start_tls.failed"):
            for stream in streams:
                await stream.aclose()

    return trace
