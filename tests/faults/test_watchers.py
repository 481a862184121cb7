"""Watchers: over deaths and restarts, many at once, and one that does not read."""

import asyncio
import json
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import websockets

from tests.faults.calling import PATIENCE, Caller, Frame, Started
from tests.faults.promises import check_run, shown_text, tokens, words_shown
from tests.serving import Served

SHOUTS = 100
SHOUT_BYTES = 60_000
SLOW_READERS = 20


async def watch_by_websocket(caller: Caller, path: str, place: Any) -> list[Frame]:
    """Until the end of a run, coming back with the last number whenever the connection is lost."""
    seen: list[Frame] = []
    url = f"ws://127.0.0.1:{caller.site.port}{path}"
    async with asyncio.timeout(PATIENCE):
        while not (seen and seen[-1].is_last):
            try:
                address = f"{url}?{place(seen[-1].seq if seen else 0)}"
                async with websockets.connect(address, additional_headers=caller.headers) as stream:
                    async for line in stream:
                        event = json.loads(line)
                        seen.append(Frame(event["seq"], event["type"], str(line)))
                        if seen[-1].is_last:
                            break
            except (OSError, websockets.WebSocketException):
                await asyncio.sleep(0.02)
    return seen


async def test_watchers_that_come_back_see_every_event_once(site: Served, caller: Caller) -> None:
    """R4, R5, T5: over a kill and a shutdown, by SSE and by websocket, and all of them the same bytes."""
    site.start()
    run = await caller.start("#tokens=80 #rate=60")
    sse = [asyncio.create_task(caller.watch_persistently(run)) for _ in range(3)]
    by_run = asyncio.create_task(
        watch_by_websocket(caller, f"/ws/runs/{run.run_id}/", lambda seq: f"starting_after={seq}")
    )
    by_conversation = asyncio.create_task(
        watch_by_websocket(caller, f"/ws/conversations/{run.conversation_id}/", lambda seq: f"after={run.run_id}:{seq}")
    )
    await caller.see(run, words_shown(10))
    await caller.die_and_restart()
    await caller.see(run, words_shown(30))
    assert await asyncio.to_thread(site.stop) == 0
    await caller.restart()

    assert (await check_run(caller, run))["output"] == tokens(80)
    log = await caller.log(run)
    assert shown_text(log) == tokens(80)
    for seen in await asyncio.gather(*sse, by_run, by_conversation):
        assert seen == log


def resident_bytes(site: Served) -> int:
    status = Path(f"/proc/{site.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def connect_and_not_read(site: Served, run: Started) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    connection.settimeout(PATIENCE)
    connection.connect(("127.0.0.1", site.port))
    lines = [
        f"GET /v1/runs/{run.run_id}/events HTTP/1.0",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {site.key}",
        "",
        "",
    ]
    connection.sendall("\r\n".join(lines).encode())
    return connection


def read_to_the_end(connection: socket.socket) -> list[str]:
    """The data of all events."""
    parts = []
    with connection:
        while part := connection.recv(2**20):
            parts.append(part)
    return [line.removeprefix("data: ") for line in b"".join(parts).decode().split("\n") if line.startswith("data: ")]


async def test_readers_that_do_not_read_cost_no_memory_and_lose_nothing(site: Served, caller: Caller) -> None:
    """R4, R5: a run with a log of megabytes, flat out, with twenty watchers that came early, twenty that came late, and
    none of whom reads. And with some that never will, the server still leaves in good order."""
    site.start()
    # What such a run costs by itself, whoever watches.
    text = f'#tools=shout*{SHOUTS} {{"bytes": {SHOUT_BYTES}}} #tokens=20000'
    assert (await check_run(caller, await caller.start(text, agent="parallel")))["output"] == tokens(20000)
    before = resident_bytes(site)

    run = await caller.start(text, agent="parallel")
    slow = [connect_and_not_read(site, run) for _ in range(SLOW_READERS)]
    await caller.log(run)
    slow += [connect_and_not_read(site, run) for _ in range(SLOW_READERS)]
    log = await caller.log(run)
    grown = resident_bytes(site) - before
    held_if_unbounded = 2 * SLOW_READERS * SHOUTS * SHOUT_BYTES
    print(f"{held_if_unbounded / 1e6:.0f} MB to read, and the server has grown by {grown / 1e6:.0f} MB")
    assert grown < held_if_unbounded / 3

    data = [frame.data for frame in log]
    assert shown_text(log) == tokens(20000)
    with ExitStack() as connections:
        for number, connection in enumerate(slow):
            if number % 4 == 0:
                connections.enter_context(connection)
            else:
                assert await asyncio.to_thread(read_to_the_end, connection) == data
        assert await asyncio.to_thread(site.stop) == 0


async def test_fifty_late_watchers_get_the_same_bytes(site: Served, caller: Caller) -> None:
    """R4, R5"""
    site.start()
    run = await caller.start("#tokens=20000")
    live = await caller.watch_persistently(run)
    late = await asyncio.gather(*(caller.log(run) for _ in range(50)))
    assert all(log == live for log in late)
    assert shown_text(live) == tokens(20000)
