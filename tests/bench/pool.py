"""What the agent pool is worth: the second message of a conversation, with a live agent and without.

    python -m tests.bench.pool [--messages 30] [--history 200]

The same traffic against two servers: a message to another conversation, then one to the conversation that is measured.
With room for one agent only, the first of the two evicts the other's agent every time: that is the site without a pool.
The model is in this process, so that the moment at which it is asked is known, and the bytes that it is asked with.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.gateway.fake_model import Call, FakeModel, serve_fake_model
from tests.serving import Served

WITH, WITHOUT = "128", "1"
LENGTH = 400
INSTRUCTIONS = "You answer questions about a long story. " * 50


@dataclass
class Measured:
    """Seconds from the question, and whether each prompt began with the bytes of the one before."""

    asked: list[float] = field(default_factory=list)
    first_text: list[float] = field(default_factory=list)
    prefixes: list[bool] = field(default_factory=list)
    hits: int = 0

    def describe(self, title: str) -> str:
        asked, text = (f"{statistics.median(each) * 1000:.1f} ms" for each in (self.asked, self.first_text))
        same = f"{sum(self.prefixes)} of {len(self.prefixes)}"
        return f"{title:<14}{asked:>14}{text:>14}{self.hits:>8}{same:>22}"


def prefix_of(raw: str) -> str:
    """The body up to the end of its last message: what a provider's prompt cache could reuse."""
    begin = raw.index('"messages":') + len('"messages":')
    _, end = json.JSONDecoder().raw_decode(raw, begin)
    return raw[: end - 1]


class Site:
    def __init__(self, session: aiohttp.ClientSession, model: FakeModel) -> None:
        self.session = session
        self.model = model

    async def ask(self, question: object, conversation: str | None = None) -> tuple[str, Call, float, float]:
        """The conversation, the model's call, and the seconds until it was asked and until its first text was here."""
        body = {"input": question, "agent": "bench", **({"conversation": conversation} if conversation else {})}
        asking = asyncio.create_task(self._note_call())
        begun_at = time.perf_counter()
        async with self.session.post("/v1/runs", json=body) as answer:
            started = await answer.json()
        first_text = 0.0
        async with self.session.get(f"/v1/runs/{started['run_id']}/events") as events:
            async for line in events.content:
                if line.startswith(b"event: message.delta") and not first_text:
                    first_text = time.perf_counter() - begun_at
        call, asked_at = await asking
        return started["conversation_id"], call, asked_at - begun_at, first_text

    async def _note_call(self) -> tuple[Call, float]:
        call = await self.model.next_call()
        return call, time.perf_counter()

    async def count_hits(self) -> int:
        async with self.session.get("/v1/pool") as answer:
            return sum(pool["hits"] for pool in (await answer.json())["data"])


async def measure(capacity: str, messages: int, history: int) -> Measured:
    measured = Measured()
    with tempfile.TemporaryDirectory(prefix="agentsite-bench-") as folder:
        served = Served(data=Path(folder) / "data", environment={"AGENTSITE_POOL_CAPACITY": capacity})
        await asyncio.to_thread(served.data.mkdir)
        try:
            async with serve_fake_model() as model:
                await asyncio.to_thread(served.start)
                options = ["--base-url", model.url, "--model", "fake", "--instructions", INSTRUCTIONS]
                made = await asyncio.to_thread(served.manage, "create_agent", "bench", *options)
                assert made.returncode == 0, made.stderr
                headers = {"Authorization": f"Bearer {served.key}"}
                async with aiohttp.ClientSession(served.url, headers=headers) as session:
                    await measure_site(Site(session, model), measured, messages, history)
        finally:
            await asyncio.to_thread(served.stop)
    return measured


async def measure_site(site: Site, measured: Measured, messages: int, history: int) -> None:
    story = [
        {"role": ("user", "assistant")[number % 2], "content": f"{number} " + "word " * (LENGTH // 5)}
        for number in range(history)
    ]
    other, _, _, _ = await site.ask("Hello.")
    conversation, call, _, _ = await site.ask([*story, {"role": "user", "content": "Go on."}])
    before = (await call.request.read()).decode()
    for number in range(messages):
        await site.ask("And you?", other)
        _, call, asked, first_text = await site.ask(f"Question {number}.", conversation)
        raw = (await call.request.read()).decode()
        measured.prefixes.append(raw.startswith(prefix_of(before)))
        measured.asked.append(asked)
        measured.first_text.append(first_text)
        before = raw
    measured.hits = await site.count_hits()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pool", description="Measure with pool and without.")
    parser.add_argument("--messages", type=int, default=30, help="how many second messages; default 30")
    parser.add_argument("--history", type=int, default=200, help="messages in the conversation before; default 200")
    given = parser.parse_args(arguments)
    print(f"load {os.getloadavg()[0]:.1f} before the first measurement")
    print(f"{'':<14}{'→ model asked':>14}{'→ first text':>14}{'hits':>8}{'same prompt prefix':>22}")
    is_good = True
    for title, capacity in (("with pool", WITH), ("without", WITHOUT)):
        measured = asyncio.run(measure(capacity, given.messages, given.history))
        print(measured.describe(title), flush=True)
        is_good = is_good and all(measured.prefixes)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
