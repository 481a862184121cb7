"""The two that are measured side by side: the openai client straight at the model, which is the floor, and Agentsite
through its public API."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

import httpx2
import openai

from tests.bench.stage import AGENT, Stage

TIMEOUT = httpx2.Timeout(300)
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=200, keepalive_expiry=60)
ENDS = ("run.completed", "run.failed", "run.cancelled")


class BenchRun(Protocol):
    end: str
    """How it ended, when `texts` is through: "completed", "stopped", or what else it was."""

    def texts(self) -> AsyncIterator[str]:
        """What the model says, piece by piece."""

    async def stop(self) -> None: ...


class System(Protocol):
    name: str

    async def start(self, prompt: str) -> BenchRun:
        """Ask the model something, in a conversation of its own."""


class DirectRun:
    def __init__(self, opening: "asyncio.Task[openai.AsyncStream[Any]]") -> None:
        self.end = "open"
        self._opening = opening
        self._is_stopped = False

    async def texts(self) -> AsyncIterator[str]:
        try:
            async with await self._opening as stream:
                async for part in stream:
                    if part.choices and part.choices[0].delta.content:
                        yield part.choices[0].delta.content
            self.end = "completed"
        except asyncio.CancelledError:
            if not self._opening.cancelled():
                raise
            self.end = "stopped"
        except (openai.APIError, httpx2.HTTPError, httpx2.StreamError) as error:
            self.end = "stopped" if self._is_stopped else repr(error)

    async def stop(self) -> None:
        self._is_stopped = True
        if self._opening.done():
            await self._opening.result().close()
        else:
            self._opening.cancel()


class Direct:
    name = "direct"

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._client = client

    async def start(self, prompt: str) -> DirectRun:
        call = self._client.chat.completions.create(
            model="fake", messages=[{"role": "user", "content": prompt}], stream=True
        )
        return DirectRun(asyncio.create_task(call))


class AgentsiteRun:
    def __init__(self, client: httpx2.AsyncClient, run_id: str) -> None:
        self.end = "open"
        self._client = client
        self._path = f"/v1/runs/{run_id}"

    async def texts(self) -> AsyncIterator[str]:
        async with self._client.stream("GET", f"{self._path}/events") as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                if not line.startswith("data:"):
                    continue
                event = json.loads(line[5:])
                if event["type"] == "message.delta":
                    yield event["text"]
                elif event["type"] in ENDS:
                    self.end = "stopped" if event["type"] == "run.cancelled" else event["type"].removeprefix("run.")
                    return

    async def stop(self) -> None:
        (await self._client.post(f"{self._path}/stop")).raise_for_status()


class Agentsite:
    name = "agentsite"

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def start(self, prompt: str) -> AgentsiteRun:
        answer = await self._client.post("/v1/runs", json={"input": prompt, "agent": AGENT})
        answer.raise_for_status()
        return AgentsiteRun(self._client, answer.json()["run_id"])


class Model:
    """What the model knows of its calls."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def wait_for_call(self, tag: str) -> None:
        await self._client.get(f"/calls/{tag}", params={"until": "arrived"})

    async def closed_at(self, tag: str) -> float | None:
        """When the client of this call hung up; None where it did not."""
        seen = (await self._client.get(f"/calls/{tag}", params={"until": "ended"})).json()
        return seen["ended_at"] if seen["how"] == "client closed" else None


@asynccontextmanager
async def open_systems(stage: Stage) -> AsyncIterator[tuple[Model, list[System]]]:
    async with AsyncExitStack() as stack:

        async def client(url: str, **headers: str) -> httpx2.AsyncClient:
            made = httpx2.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT, limits=LIMITS, trust_env=False)
            return await stack.enter_async_context(made)

        direct = openai.AsyncOpenAI(
            base_url=f"{stage.model_url}/v1",
            api_key="none",
            max_retries=0,
            timeout=TIMEOUT,
            http_client=await client(f"{stage.model_url}/v1"),
        )
        site = await client(stage.site.url, Authorization=f"Bearer {stage.site.key}")
        yield Model(await client(stage.model_url)), [Direct(direct), Agentsite(site)]
