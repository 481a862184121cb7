"""Calls to the ASGI application as a server makes them, without a server: every byte and every moment is the test's."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from agentsite.asgi import application

SECONDS = 20  # more than anything here may ever take


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """What the envelope holds; fails where there is none."""
        assert list(self.json) == ["error"]
        error: dict[str, Any] = self.json["error"]
        assert list(error) == ["message", "type", "code", "param"]
        assert self.headers["content-type"] == "application/json"
        return error


def make_scope(method: str, path: str, headers: dict[str, str], kind: str = "http") -> dict[str, Any]:
    plain, _, query = path.partition("?")
    sent = {"host": "localhost", **{name.lower(): value for name, value in headers.items()}}
    return {
        "type": kind,
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "ws" if kind == "websocket" else "http",
        "path": plain,
        "raw_path": quote(plain).encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin1")) for name, value in sent.items()],
        "client": ["127.0.0.1", 50000],
        "server": ["127.0.0.1", 8000],
    }


@dataclass
class Client:
    """Somebody who calls: with a key, with cookies, or with nothing."""

    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def with_key(cls, key: str) -> "Client":
        return cls({"Authorization": f"Bearer {key}"})

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, headers=headers)

    async def post(self, path: str, body: object = None, **headers: str) -> Answer:
        return await self.ask("POST", path, json.dumps(body).encode(), headers=headers)

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        chunks: Iterable[bytes] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """A body in `chunks` comes without a Content-Length."""
        sent = {**self.headers, "Content-Type": "application/json"}
        if chunks is None:
            sent["Content-Length"] = str(len(body))
        sent |= {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        parts = iter([body] if chunks is None else chunks)
        messages: list[dict[str, Any]] = []
        is_read = False

        async def receive() -> dict[str, Any]:
            nonlocal is_read
            if is_read:
                await asyncio.Event().wait()  # connected, and silent
            part = next(parts, None)
            is_read = part is None
            return {"type": "http.request", "body": part or b"", "more_body": part is not None}

        async def send(message: Any) -> None:
            messages.append(dict(message))

        async with asyncio.timeout(SECONDS):
            await application(make_scope(method, path, sent), receive, send)
        start, *rest = messages
        return Answer(start["status"], read_headers(start), b"".join(part.get("body", b"") for part in rest))

    @asynccontextmanager
    async def stream(self, path: str, *, body: object = None, **headers: str) -> AsyncIterator["Stream"]:
        """An open answer, read frame by frame; the client leaves at the end of the block. With a body it is a POST."""
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        raw = b"" if body is None else json.dumps(body).encode()
        if body is not None:
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(raw))}
        scope = make_scope("GET" if body is None else "POST", path, sent)
        stream = Stream()
        stream.task = asyncio.create_task(application(scope, stream.inbox.get, stream.send))
        stream.inbox.put_nowait({"type": "http.request", "body": raw, "more_body": False})
        try:
            async with asyncio.timeout(SECONDS):
                start = await stream.outbox.get()
            stream.status, stream.headers = start["status"], read_headers(start)
            yield stream
        finally:
            await stream.leave()

    async def events(self, path: str, **headers: str) -> list[dict[str, Any]]:
        """All events until the stream ends by itself."""
        async with self.stream(path, **headers) as stream:
            assert stream.status == 200
            return await stream.rest()

    @asynccontextmanager
    async def socket(self, path: str, **headers: str) -> AsyncIterator["Socket"]:
        """A websocket; the client leaves at the end of the block."""
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        socket = Socket()
        scope = make_scope("GET", path, sent, kind="websocket")
        del scope["method"]
        socket.task = asyncio.create_task(application(scope, socket.inbox.get, socket.send))
        socket.inbox.put_nowait({"type": "websocket.connect"})
        try:
            socket.opening = await socket.next_message()
            yield socket
        finally:
            await socket.leave()


def read_headers(start: dict[str, Any]) -> dict[str, str]:
    return {name.decode().lower(): value.decode("latin1") for name, value in start["headers"]}


class Stream:
    def __init__(self) -> None:
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        # One message at a time, like a client whose socket is full.
        self.outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue(1)
        self.task: asyncio.Task[None]
        self.status = 0
        self.headers: dict[str, str] = {}
        self.frames: list[str] = []
        self.cut = b""  # a frame whose end has not come yet
        self.is_over = False

    async def send(self, message: Any) -> None:
        await self.outbox.put(dict(message))

    async def next_frame(self) -> str | None:
        """The next event or comment as text; None at the end."""
        while not self.frames and not self.is_over:
            async with asyncio.timeout(SECONDS):
                message = await self.outbox.get()
            self.is_over = not message.get("more_body", False)
            *frames, self.cut = (self.cut + message.get("body", b"")).split(b"\n\n")
            self.frames += [frame.decode() for frame in frames]
        return self.frames.pop(0) if self.frames else None

    async def next_event(self) -> dict[str, Any] | None:
        while (frame := await self.next_frame()) is not None:
            if not frame.startswith(":"):
                return read_frame(frame)
        return None

    async def rest(self) -> list[dict[str, Any]]:
        events = []
        while (event := await self.next_event()) is not None:
            events.append(event)
        return events

    async def leave(self) -> None:
        self.inbox.put_nowait({"type": "http.disconnect"})
        await drain(self.task, self.outbox)


async def drain(task: asyncio.Task[None], outbox: asyncio.Queue[dict[str, Any]]) -> None:
    """Wait for an application whose client has left, and drop what it was about to send."""
    async with asyncio.timeout(SECONDS):
        while not task.done():
            if outbox.full():
                outbox.get_nowait()
            await asyncio.sleep(0)
        await task


class Socket:
    def __init__(self) -> None:
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue(1)
        self.task: asyncio.Task[None]
        self.opening: dict[str, Any] = {}

    async def send(self, message: Any) -> None:
        await self.outbox.put(dict(message))

    async def next_message(self) -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            return await self.outbox.get()

    async def next_event(self) -> dict[str, Any]:
        message = await self.next_message()
        assert message["type"] == "websocket.send", message
        event: dict[str, Any] = json.loads(message["text"])
        return event

    async def rest(self) -> tuple[list[dict[str, Any]], int]:
        """All events until the server closes, and its code."""
        events = []
        while (message := await self.next_message())["type"] == "websocket.send":
            events.append(json.loads(message["text"]))
        return events, message["code"]

    async def leave(self) -> None:
        self.inbox.put_nowait({"type": "websocket.disconnect", "code": 1001})
        await drain(self.task, self.outbox)


def read_frame(frame: str) -> dict[str, Any]:
    """One event, whose three lines must agree."""
    fields = dict(line.split(": ", 1) for line in frame.split("\n"))
    assert list(fields) == ["id", "event", "data"]
    event: dict[str, Any] = json.loads(fields["data"])
    assert (fields["id"], fields["event"]) == (str(event["seq"]), event["type"])
    return event


async def closed_with(client: Client, path: str, **headers: str) -> int:
    """The code with which a socket is closed after it was opened."""
    async with client.socket(path, **headers) as socket:
        assert socket.opening["type"] == "websocket.accept"
        events, code = await socket.rest()
        assert events == []
        await socket.task
        return code


async def is_refused(client: Client, path: str, **headers: str) -> bool:
    """Whether a socket is closed before it was opened, and left at that."""
    async with client.socket(path, **headers) as socket:
        if socket.opening["type"] != "websocket.close":
            return False
        async with asyncio.timeout(SECONDS):
            await socket.task
        return True
