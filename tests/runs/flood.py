"""A server with an application that sends as much as it can, and counts. For `test_server.py`.

python -m tests.runs.flood PORT
"""

import sys
from typing import Any

from runs.body_limit import BodyLimit
from runs.server import PatientServer, close_event_loop

CHUNK = 16 * 1024
CHUNKS = 2000
MOST = 100_000
counts = {"sent": 0, "ended": 0}


def chunk(number: int) -> bytes:
    return f"{number:08}".encode() * (CHUNK // 8)


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await flood(lambda data: send({"type": "websocket.send", "bytes": data}))
        await send({"type": "websocket.close"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    match scope["path"]:
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
    PatientServer(application, endpoints=[endpoint], verbosity=0, body_limit=BodyLimit(MOST, b'"too large"')).run()
    close_event_loop()
