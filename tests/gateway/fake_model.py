"""A model server for tests: real HTTP on a free port, as strict as a real provider, and it knows how each call ended.

A test gives it a script, an async function that answers one call. `call.ended` is set when the answer is through or the
client has gone away, and `call.how` says which.
"""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class Call:
    """One request to the model, and the means to answer it."""

    request: web.Request
    body: dict[str, Any]
    how: str = "open"  # "open", then "answered", "client closed" or "cut"
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    ended_at: float = 0.0
    response: web.StreamResponse | None = None

    @property
    def port(self) -> int:
        """Of the client: the same port is the same connection."""
        assert self.request.transport is not None
        port: int = self.request.transport.get_extra_info("peername")[1]
        return port

    async def begin(self, content_type: str = "text/event-stream", status: int = 200) -> None:
        self.response = web.StreamResponse(status=status, headers={"Content-Type": content_type})
        await self.response.prepare(self.request)

    async def write(self, raw: bytes) -> None:
        if self.response is None:
            await self.begin()
        assert self.response is not None
        await self.response.write(raw)

    async def event(self, event: dict[str, Any]) -> None:
        await self.write(sse(event))

    async def delta(self, **delta: Any) -> None:
        await self.event(chunk(delta))

    async def text(self, text: str) -> None:
        await self.delta(content=text)

    async def finish(self, reason: str = "stop") -> None:
        await self.event(chunk({}, reason))

    async def done(self) -> None:
        await self.write(b"data: [DONE]\n\n")

    async def say(self, text: str) -> None:
        """A whole answer, as most providers send it."""
        await self.text(text)
        await self.finish()
        await self.done()

    async def refuse(self, status: int, error: Any = None, **headers: str) -> None:
        """Not a stream but an HTTP error; `error` is the body, or its `error` object."""
        text = error if isinstance(error, str) else json.dumps({"error": error})
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        kind = "text/plain" if isinstance(error, str) else "application/json"
        self.response = web.Response(status=status, text=text, headers=names, content_type=kind)
        await self.response.prepare(self.request)
        await self.response.write_eof()

    async def hang(self) -> None:
        await asyncio.Event().wait()

    def cut(self) -> None:
        self.how = "cut"
        assert self.request.transport is not None
        self.request.transport.abort()

    def end(self, how: str) -> None:
        if self.how == "open":
            self.how = how
        self.ended_at = time.perf_counter()
        self.ended.set()


Script = Callable[[Call], Awaitable[None]]


class FakeModel:
    def __init__(self) -> None:
        self.script: Script = lambda call: call.say("Hello.")
        self.calls: list[Call] = []
        self.url = ""
        self._arrivals: asyncio.Queue[Call] = asyncio.Queue()

    async def next_call(self) -> Call:
        async with asyncio.timeout(5):
            return await self._arrivals.get()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        call = Call(request, await request.json())
        self.calls.append(call)
        self._arrivals.put_nowait(call)
        try:
            wrong = what_is_malformed(call.body.get("messages") or [])
            if wrong:
                await call.refuse(400, {"message": wrong, "type": "invalid_request_error"})
            else:
                await self.script(call)
            call.end("answered")
        except (asyncio.CancelledError, ConnectionResetError):
            call.end("client closed")
            raise
        assert call.response is not None
        return call.response


@asynccontextmanager
async def serve_fake_model(tls: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[FakeModel]:
    model = FakeModel()
    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_post("/v1/chat/completions", model.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    model.url = f"https://localhost:{port}/v1" if tls else f"http://127.0.0.1:{port}/v1"
    try:
        yield model
    finally:
        await runner.cleanup()


def sse(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "fake",
        "choices": [choice],
        **more,
    }


def what_is_malformed(messages: list[dict[str, Any]]) -> str | None:
    """What a strict provider refuses: a tool call that is not answered exactly once and at once, or the reverse."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"tool message {message['tool_call_id']} answers no open call"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"tool calls without an answer: {', '.join(open_calls)}"
        if message["role"] == "assistant":
            open_calls = [call["id"] for call in message.get("tool_calls") or []]
            if not open_calls and not message.get("content"):
                return "an assistant message with neither content nor tool calls"
    return f"tool calls without an answer: {', '.join(open_calls)}" if open_calls else None
