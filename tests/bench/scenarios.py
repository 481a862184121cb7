"""What is measured. Each scenario drives one system and gives back its figures, in seconds where nothing else is said,
and under `wrong` how many runs did not end as they should: whole and in order, or stopped."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.bench.systems import Model, System
from tests.bench.watching import Watch, stop_silent_run, watch_run

Figures = dict[str, float]

LONG_SPEECH = 3_000
NEVER = float("inf")


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    first_texts: int = 30
    stops: int = 10
    silent_stops: int = 10
    many_stops: int = 60
    at_once: int = 20
    stop_after: int = 20
    fans: tuple[int, ...] = (10, 50, 100)
    fan_tokens: int = 200
    rate: int = 50
    flat_out_runs: int = 3
    flat_out_tokens: int = 5_000
    starts: int = 3
    workers: int = 0
    """In processes of their own; 0 is the one process that is all."""


Scenario = Callable[[System, Model, Plan], Awaitable[Figures]]


def scenarios_of(plan: Plan) -> dict[str, Scenario]:
    return {
        "first_text": measure_first_text,
        "stop": measure_stop,
        "silent_stop": measure_silent_stop,
        "many_stops": measure_many_stops,
        **{f"fan_{runs}": make_fan(runs) for runs in plan.fans},
        "flat_out": measure_flat_out,
    }


async def measure_first_text(system: System, model: Model, plan: Plan) -> Figures:
    """One after another, after one that warms up."""
    await watch_run(system, "#tokens=5")
    watches = [await watch_run(system, "#tokens=5") for _ in range(plan.first_texts)]
    seconds = [watch.first_text for watch in watches]
    return {"median": statistics.median(seconds), "p95": p95(seconds), "wrong": count_wrong(watches, 5)}


async def measure_stop(system: System, model: Model, plan: Plan) -> Figures:
    """One after another, each in the middle of its text."""
    watches = [await watch_and_stop(system, plan) for _ in range(plan.stops)]
    return await judge_stops(watches, model)


async def measure_silent_stop(system: System, model: Model, plan: Plan) -> Figures:
    watches = [await stop_silent_run(system, model) for _ in range(plan.silent_stops)]
    return await judge_stops(watches, model)


async def measure_many_stops(system: System, model: Model, plan: Plan) -> Figures:
    seats = asyncio.Semaphore(plan.at_once)

    async def take_seat() -> Watch:
        async with seats:
            return await watch_and_stop(system, plan)

    return await judge_stops(await asyncio.gather(*(take_seat() for _ in range(plan.many_stops))), model)


async def watch_and_stop(system: System, plan: Plan) -> Watch:
    return await watch_run(system, f"#tokens={LONG_SPEECH} #rate={plan.rate}", plan.stop_after)


async def judge_stops(watches: list[Watch], model: Model) -> Figures:
    closed, seen = [], []
    for watch in watches:
        if watch.asked_at is not None:
            seen.append(watch.ended_at - watch.asked_at)
            closed_at = await model.closed_at(watch.tag)
            if closed_at is not None:
                closed.append(closed_at - watch.asked_at)
    return {
        "runs": len(watches),
        "closed": len(closed),
        "closed_median": statistics.median(closed or [NEVER]),
        "closed_worst": max(closed, default=NEVER),
        "seen_median": statistics.median(seen or [NEVER]),
        "seen_worst": max(seen, default=NEVER),
        "wrong": sum(watch.end != "stopped" for watch in watches),
    }


def make_fan(runs: int) -> Scenario:
    """So many runs at once, each of them as long as the model takes for it: that is the ideal."""

    async def measure_fan(system: System, model: Model, plan: Plan) -> Figures:
        speech = f"#tokens={plan.fan_tokens} #rate={plan.rate}"
        begun_at = time.perf_counter()
        watches = await asyncio.gather(*(watch_run(system, speech) for _ in range(runs)))
        seconds = time.perf_counter() - begun_at
        return {
            "runs": runs,
            "seconds": seconds,
            "over_ideal": seconds / (plan.fan_tokens / plan.rate),
            "first_text_p95": p95([watch.first_text for watch in watches]),
            "wrong": count_wrong(watches, plan.fan_tokens),
        }

    return measure_fan


async def measure_flat_out(system: System, model: Model, plan: Plan) -> Figures:
    """One run at a time, from the question to the end."""
    watches = [await watch_run(system, f"#tokens={plan.flat_out_tokens}") for _ in range(plan.flat_out_runs)]
    speeds = [plan.flat_out_tokens / (watch.ended_at - watch.begun_at) for watch in watches]
    return {"tokens_a_second": statistics.median(speeds), "wrong": count_wrong(watches, plan.flat_out_tokens)}


def count_wrong(watches: list[Watch], tokens: int) -> int:
    return sum(not watch.is_whole(tokens) for watch in watches)


def p95(values: list[float]) -> float:
    return sorted(values)[max(0, round(len(values) * 0.95) - 1)]
