"""A program that uses a site, before, during and after its death."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from runs.events import TERMINAL_TYPES
from tests.serving import Served

PATIENCE = 60.0
# How a connection ends when the server dies.
Gone = (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError)


@dataclass(frozen=True)
class Frame:
    """One event, as it came over the wire."""

    seq: int
    type: str
    data: str

    @property
    def event(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(self.data)
        return event

    @property
    def is_last(self) -> bool:
        return self.type in TERMINAL_TYPES


@dataclass(frozen=True)
class Started:
    run_id: str
    conversation_id: str


class Caller:
    def __init__(self, site: Served) -> None:
        self.site = site
        self.headers = {"Authorization": f"Bearer {site.key}"}

    async def __aenter__(self) -> "Caller":
        # A connection for each call: one that is kept would be found dead after a restart.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        self.session = aiohttp.ClientSession(
            self.site.url, headers=self.headers, connector=connector, timeout=aiohttp.ClientTimeout(PATIENCE)
        )
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.session.close()

    # -- the site

    async def restart(self) -> None:
        """Without holding up those who watch."""
        await asyncio.to_thread(self.site.start)

    async def kill(self) -> None:
        await asyncio.to_thread(self.site.kill)

    async def die_and_restart(self) -> None:
        await self.kill()
        await self.restart()

    async def found_dead(self) -> int:
        """Wait until the server has ended by itself; how."""
        await until(lambda: self.site.process.poll() is not None)
        return int(self.site.process.returncode)

    # -- calls

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(method, path, json=body, headers=names) as response:
            return response.status, await response.json()

    async def start(self, text: str, **fields: Any) -> Started:
        status, answer = await self.ask("POST", "/v1/runs", {"input": text, **fields})
        assert status == 202, answer
        return Started(answer["run_id"], answer["conversation_id"])

    async def stop(self, run: Started) -> int:
        status, _ = await self.ask("POST", f"/v1/runs/{run.run_id}/stop")
        return status

    async def look(self, run: Started) -> dict[str, Any]:
        status, answer = await self.ask("GET", f"/v1/runs/{run.run_id}")
        assert status == 200, answer
        return dict(answer)

    async def messages(self, run: Started) -> list[dict[str, Any]]:
        """The whole conversation's."""
        path = f"/v1/conversations/{run.conversation_id}/messages?limit=200"
        status, answer = await self.ask("GET", path)
        assert status == 200, answer
        assert answer["next_cursor"] is None
        return list(answer["data"])

    # -- watching

    @asynccontextmanager
    async def following(self, run: Started, after: int = 0) -> AsyncIterator[AsyncIterator[Frame]]:
        path = f"/v1/runs/{run.run_id}/events"
        async with self.session.get(path, headers={"Last-Event-ID": str(after)}) as response:
            if response.status == 503:
                response.raise_for_status()  # its database is away: one of the ways in which a server is gone
            assert response.status == 200, await response.text()
            yield read_frames(response.content)

    async def see(self, run: Started, is_enough: Callable[[list[Frame]], bool]) -> list[Frame]:
        """Watch until it is enough; what was seen."""
        seen: list[Frame] = []
        async with asyncio.timeout(PATIENCE), self.following(run) as frames:
            async for frame in frames:
                seen.append(frame)
                if is_enough(seen):
                    return seen
        raise AssertionError(f"the run ended first: {seen}")

    async def log(self, run: Started) -> list[Frame]:
        """Everything, to the end."""
        async with asyncio.timeout(PATIENCE), self.following(run) as frames:
            return [frame async for frame in frames]

    async def watch_persistently(self, run: Started) -> list[Frame]:
        """Until the end, coming back with the last number whenever the connection is lost."""
        seen: list[Frame] = []
        async with asyncio.timeout(PATIENCE):
            while not (seen and seen[-1].is_last):
                try:
                    async with self.following(run, after=seen[-1].seq if seen else 0) as frames:
                        async for frame in frames:
                            seen.append(frame)
                except Gone:
                    await asyncio.sleep(0.02)
        return seen


async def read_frames(lines: aiohttp.StreamReader) -> AsyncIterator[Frame]:
    fields: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif "data" in fields:
            yield Frame(int(fields["id"]), fields["event"], fields["data"])
            fields = {}


async def until(condition: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    give_up_at = time.monotonic() + PATIENCE
    while True:
        holds = condition()
        if (holds if isinstance(holds, bool) else await holds) is True:
            return
        assert time.monotonic() < give_up_at, "it never came to that"
        await asyncio.sleep(0.01)
