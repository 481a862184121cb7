"""How fast Agentsite is, beside a client that talks to the model itself, on the same machine in the same minute.

    python -m tests.bench [--workers 2] [--only first_text,stop,…] [--fan 10,50,100] [--json]

Needs nothing but this project: it starts a model that only counts (`model.py`) and the real server, each in a process
of its own, with data in a temporary folder. With `--workers` the site is not one process on SQLite but a web server and
so many workers, on a PostgreSQL and a Redis that are started as well. The exit code is 1 where a limit is missed or a
run went wrong, and 2 where the server ended in the middle: then there are no figures.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import time

from tests.bench.scenarios import Figures, Plan, scenarios_of
from tests.bench.stage import SiteEnded, Stage, set_up_stage
from tests.bench.systems import open_systems
from tests.bench.table import is_good, make_table


def main(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    plan = Plan(fans=given.fan, workers=given.workers)
    machine = describe_machine(given.workers)
    try:
        with set_up_stage(given.workers) as stage:
            results = measure(stage, plan, given.only)
    except SiteEnded as error:
        say(str(error))
        return 2
    if given.json:
        print(json.dumps({"machine": machine}))
        for scenario, by_system in results.items():
            for system, figures in by_system.items():
                rounded = {name: round(value, 5) for name, value in figures.items()}
                print(json.dumps({"scenario": scenario, "system": system, **rounded}))
    else:
        print(f"{machine}\n\n{make_table(results, plan)}")
    return 0 if is_good(results, plan) else 1


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure beside a direct client.")
    parser.add_argument("--workers", type=int, default=0, help="so many on PostgreSQL and Redis; default: one process")
    parser.add_argument("--only", type=lambda text: text.split(","), help="scenarios, separated by commas")
    parser.add_argument("--fan", type=read_numbers, default=Plan.fans, help="how many runs at once; default 10,50,100")
    parser.add_argument("--json", action="store_true", help="one line of JSON a figure instead of the table")
    given = parser.parse_args(arguments)
    known = [*scenarios_of(Plan(fans=given.fan)), "start"]
    unknown = [name for name in given.only or () if name not in known]
    if unknown:
        parser.error(f"There is no scenario {', '.join(unknown)}. There are: {', '.join(known)}.")
    return given


def read_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def measure(stage: Stage, plan: Plan, only: list[str] | None = None) -> dict[str, dict[str, Figures]]:
    """By scenario, then by system: the two always directly after each other."""
    results = asyncio.run(measure_systems(stage, plan, only))
    if only is None or "start" in only:
        say("start")
        results["start"] = {"agentsite": measure_start(stage, plan)}
    return results


async def measure_systems(stage: Stage, plan: Plan, only: list[str] | None) -> dict[str, dict[str, Figures]]:
    results: dict[str, dict[str, Figures]] = {}
    async with open_systems(stage) as (model, systems):
        for name, scenario in scenarios_of(plan).items():
            if only is None or name in only:
                say(name)
                results[name] = {system.name: await scenario(system, model, plan) for system in systems}
                stage.check()
    return results


def measure_start(stage: Stage, plan: Plan) -> Figures:
    """Until /healthz answers, of a site that has been started before."""
    taken = []
    for _ in range(plan.starts):
        assert stage.site.stop() == 0
        begun_at = time.perf_counter()
        stage.site.start()
        taken.append(time.perf_counter() - begun_at)
    return {"median": statistics.median(taken), "worst": max(taken), "wrong": 0}


def describe_machine(workers: int) -> str:
    load = f"load {os.getloadavg()[0]:.1f}"
    deployment = f"1 web server and {workers} workers on PostgreSQL and Redis" if workers else "one process on SQLite"
    machine = f"Python {platform.python_version()}, {os.cpu_count()} processors"
    return f"{deployment}, {machine}, {load} before the first measurement"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
