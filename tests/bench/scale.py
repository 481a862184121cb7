"""What a deployment of many processes carries.

    python -m tests.bench.scale [--only carry,fan,watchers,idle]

Starts a PostgreSQL, a Redis, a web server, workers and the model itself, with data in a temporary folder. Four things
are measured:

* carry     how many runs two workers end in a second beside one, with always as much work for each, where their
            processor is the limit: each is held to a fixed share of one, so that the rest of the site does not compete
            with them. Needs root.
* fan       200 runs at once at 20 tokens/s, over what the model alone takes for one
* watchers  500 event streams of one run: whether all get everything, and when the last one sees the end
* idle      1,000 conversations held open by websockets: the memory of the web server for each
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psycopg

from tests.bench.model import word
from tests.bench.scenarios import Plan, make_fan
from tests.bench.share import held_to
from tests.bench.stage import AGENT, Stage, set_up_stage
from tests.bench.systems import ENDS, open_systems


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    share: float = 0.25
    carried: int = 100
    carried_tokens: int = 1_000
    warm_seconds: float = 5
    carry_seconds: float = 30
    fan: int = 200
    fan_tokens: int = 200
    fan_rate: int = 20
    watchers: int = 500
    watched_tokens: int = 200
    watched_rate: int = 20
    sockets: int = 1_000
    warm_sockets: int = 50
    questions: int = 20


# -- what workers carry ------------------------------------------------------------------------------------------------


def measure_carry(size: Size) -> str:
    one, two = (carry(size, workers) for workers in (1, 2))
    return (
        f"Runs of {size.carried_tokens} tokens that come at once, always {size.carried} under way for each worker, "
        f"each worker held to {size.share} of a processor, for {size.carry_seconds} s: "
        f"1 worker {one:.1f} runs/s, 2 workers {two:.1f} runs/s: {two / one:.2f} × (limit ≥ 1.7 ×)"
    )


def carry(size: Size, workers: int) -> float:
    with set_up_stage(workers) as stage, ExitStack() as holding:
        for worker in stage.workers:
            holding.enter_context(held_to(size.share, worker.process.pid))
        return asyncio.run(carry_on(stage, size.carried * workers, size))


async def carry_on(stage: Stage, under_way: int, size: Size) -> float:
    """How many runs end in a second, while there is always more to do: as soon as some have ended, others begin."""
    prompt = f"#tokens={size.carried_tokens}"
    began = time.time() + size.warm_seconds
    until = began + size.carry_seconds
    while time.time() < until:
        await start_runs(stage, under_way - count_open(stage), prompt)
        stage.check()
        await asyncio.sleep(0.02)
    await asyncio.to_thread(wait_for_all, stage)
    [(ended, failed)] = ask(
        stage,
        f"SELECT count(*) FILTER (WHERE extract(epoch FROM ended_at) BETWEEN {began} AND {until}),"
        " count(*) FILTER (WHERE status <> 'completed') FROM runs_run",
    )
    assert not failed, f"{failed} runs did not complete"
    return float(ended / size.carry_seconds)


async def start_runs(stage: Stage, count: int, prompt: str) -> list[dict[str, str]]:
    """Start so many, each in a conversation of its own, a few at a time."""
    seats = asyncio.Semaphore(20)
    async with open_session(stage) as session:

        async def start() -> dict[str, str]:
            async with seats, session.post("/v1/runs", json={"input": prompt, "agent": AGENT}) as answer:
                answer.raise_for_status()
                made: dict[str, str] = await answer.json()
                return made

        return await asyncio.gather(*(start() for _ in range(count)))


def wait_for_all(stage: Stage) -> None:
    while count_open(stage):
        stage.check()
        time.sleep(0.1)


def count_open(stage: Stage) -> int:
    [(count,)] = ask(stage, "SELECT count(*) FROM runs_run WHERE ended_at IS NULL")
    return int(count)


def ask(stage: Stage, question: str) -> list[tuple]:
    with psycopg.connect(stage.site.environment["DATABASE_URL"]) as connection:
        return connection.execute(question).fetchall()  # type: ignore[call-overload]


def open_session(stage: Stage) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        stage.site.url,
        headers={"Authorization": f"Bearer {stage.site.key}"},
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=300),
    )


# -- many runs at once -------------------------------------------------------------------------------------------------


async def measure_fan(stage: Stage, size: Size) -> str:
    plan = Plan(fan_tokens=size.fan_tokens, rate=size.fan_rate)
    texts = []
    async with open_systems(stage) as (model, systems):
        for system in systems:
            figures = await make_fan(size.fan)(system, model, plan)
            assert not figures["wrong"], f"{figures['wrong']:.0f} runs of {system.name} were not whole"
            first = f"first text of 95 of 100 after {figures['first_text_p95'] * 1000:.0f} ms"
            texts.append(f"{system.name} {figures['over_ideal']:.2f} × ideal, {first}")
    return f"{size.fan} runs at once at {size.fan_rate} tokens/s, {len(stage.workers)} workers: " + "; ".join(texts)


# -- many watchers of one run ------------------------------------------------------------------------------------------


async def measure_watchers(stage: Stage, size: Size) -> str:
    [run] = await start_runs(stage, 1, f"#ttft=3 #tokens={size.watched_tokens} #rate={size.watched_rate}")
    async with open_session(stage) as session:

        async def watch() -> tuple[str, float]:
            """What it read, and when it saw the end."""
            texts = []
            async with session.get(f"/v1/runs/{run['run_id']}/events") as answer:
                answer.raise_for_status()
                async for line in answer.content:
                    if not line.startswith(b"data:"):
                        continue
                    event = json.loads(line[5:])
                    if event["type"] == "message.delta":
                        texts.append(event["text"])
                    if event["type"] in ENDS:
                        break
            return "".join(texts), time.time()

        seen = await asyncio.gather(*(watch() for _ in range(size.watchers)))
    expected = "".join(word(number) for number in range(size.watched_tokens))
    whole = sum(text == expected for text, _ in seen)
    assert whole == size.watchers, f"{whole} of {size.watchers} watchers got everything"
    [(ended,)] = ask(stage, f"SELECT extract(epoch FROM ended_at) FROM runs_run WHERE public_id = '{run['run_id']}'")
    delays = sorted(at - float(ended) for _, at in seen)
    return (
        f"{size.watchers} watchers of one run at {size.watched_rate} tokens/s: all got everything; the end was seen "
        f"after {delays[len(delays) // 2] * 1000:.0f} ms by half of them, after {delays[-1] * 1000:.0f} ms by the last"
    )


# -- idle conversations ------------------------------------------------------------------------------------------------


async def measure_idle(stage: Stage, size: Size) -> str:
    made = await start_runs(stage, size.sockets, "#tokens=1")
    await asyncio.to_thread(wait_for_all, stage)
    async with open_session(stage) as session, asyncio.timeout(300):
        seats = asyncio.Semaphore(50)

        async def join(conversation_id: str) -> aiohttp.ClientWebSocketResponse:
            async with seats:
                return await session.ws_connect(f"/ws/conversations/{conversation_id}/")

        warm = await asyncio.gather(*(join(run["conversation_id"]) for run in made[: size.warm_sockets]))
        before = memory_of(stage.site.process.pid)
        sockets = await asyncio.gather(*(join(run["conversation_id"]) for run in made[size.warm_sockets :]))
        each = (memory_of(stage.site.process.pid) - before) / len(sockets)
        # Some of them are spoken to, and hear it.
        spoken_to = zip(made[size.warm_sockets :], sockets[: size.questions], strict=False)
        heard = [await hear_answer(session, run["conversation_id"], socket) for run, socket in spoken_to]
        for socket in (*warm, *sockets):
            await socket.close()
    return (
        f"{size.sockets} conversations held open by websockets: {each:.0f} KiB of the web server for each; "
        f"with all of them open, a question has its first text after {statistics.median(heard) * 1000:.0f} ms, "
        f"median of {len(heard)}"
    )


async def hear_answer(
    session: aiohttp.ClientSession, conversation_id: str, socket: aiohttp.ClientWebSocketResponse
) -> float:
    """Seconds from a question to its first text."""
    asked_at = time.perf_counter()
    order = {"input": "#tokens=1", "agent": AGENT, "conversation": conversation_id}
    async with session.post("/v1/runs", json=order) as answer:
        answer.raise_for_status()
    while (await socket.receive_json())["type"] != "message.delta":
        pass
    return time.perf_counter() - asked_at


def memory_of(pid: int) -> float:
    """What the process has in memory, in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [size] = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return float(size)


SCENARIOS: dict[str, Callable[[Stage, Size], Coroutine[None, None, str]]] = {
    "fan": measure_fan,
    "watchers": measure_watchers,
    "idle": measure_idle,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale", description="Measure many processes.")
    names = ["carry", *SCENARIOS]
    parser.add_argument("--only", type=lambda text: text.split(","), default=names, help=", ".join(names))
    only = parser.parse_args(arguments).only
    if unknown := set(only) - set(names):
        parser.error(f"There is no scenario {', '.join(sorted(unknown))}. There are: {', '.join(names)}.")
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before the first measurement", flush=True)
    if "carry" in only:
        print(measure_carry(Size()), flush=True)
    if others := [name for name in only if name != "carry"]:
        with set_up_stage(2) as stage:
            for name in others:
                print(asyncio.run(SCENARIOS[name](stage, Size())), flush=True)
                stage.check()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
