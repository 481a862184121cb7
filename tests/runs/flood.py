"""A server with an application that sends as much as it can, and counts, or holds its answers until it is told to let
go. For `test_server.py` and `test_leaving.py`.

python -m tests.runs.flood PORT
"""

import asyncio
import signal
import sys
from typing import Any

import django
from django.conf import settings

django.setup()

from runs.leaving import leave  # noqa: E402
from runs.server import PatientServer, close_event_loop, event_loop  # noqa: E402

CHUNK = 16 * 1024
CHUNKS = 2000
MOST = 100_000
PATIENCE = 60  # longer than any test waits
counts = {"sent": 0, "ended": 0, "waiting": 0}
let_go = asyncio.Event()


def chunk(number: int) -> bytes:
    return f"{number:08}".encode() * (CHUNK // 8)


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await receive()
        if scope["path"] == "/held":
            counts["waiting"] += 1
            await let_go.wait()
        await send({"type": "websocket.accept"})
        if scope["path"] == "/quiet":
            await receive()
        await flood(lambda data: send({"type": "websocket.send", "bytes": data}))
        await send({"type": "websocket.close"})
        return
    headers = [(b"Content-Type", b"text/event-stream")] if scope["path"] == "/flood" else []
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    match scope["path"]:
        case "/held":
            counts["waiting"] += 1
            await let_go.wait()
            await send({"type": "http.response.body", "body": b"held"})
        case "/let-go":
            let_go.set()
            await send({"type": "http.response.body", "body": b"done"})
        case "/pieces":
            for number in range(CHUNKS):
                await send({"type": "http.response.body", "body": chunk(number), "more_body": True})
            await send({"type": "http.response.body"})
        case "/whole":
            await send({"type": "http.response.body", "body": b"".join(map(chunk, range(CHUNKS)))})
        case "/flood":
            await flood(lambda data: send({"type": "http.response.body", "body": data, "more_body": True}))
            await send({"type": "http.response.body"})
        case "/broken":
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
            raise RuntimeError("broken half-way")
        case "/length":
            length, has_more = 0, True
            while has_more:
                message = await receive()
                length, has_more = length + len(message["body"]), message["more_body"]
            await send({"type": "http.response.body", "body": str(length).encode()})
        case "/root":
            await send({"type": "http.response.body", "body": scope["root_path"].encode()})
        case path:
            await send({"type": "http.response.body", "body": str(counts[path[1:]]).encode()})


async def flood(send: Any) -> None:
    try:
        for number in range(CHUNKS):
            await send(chunk(number))
            counts["sent"] += CHUNK
    finally:
        counts["ended"] += 1


if __name__ == "__main__":
    endpoint = f"tcp:port={sys.argv[1]}:interface=127.0.0.1"
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = MOST
    server = PatientServer(application, endpoints=[endpoint], verbosity=0, signal_handlers=False)

    def end() -> None:
        leaving = event_loop().create_task(leave(server, PATIENCE, waits_for_runs=True))
        leaving.add_done_callback(lambda _: server.stop())

    server.ready_callable = lambda: event_loop().add_signal_handler(signal.SIGTERM, end)
    server.run()
    close_event_loop()
