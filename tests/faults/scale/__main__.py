"""The long form: fault after fault, at random, under load, for as long as you like; then the tally.

    python -m tests.faults.scale [--minutes 10] [--seed 1704]

Starts PostgreSQL, Redis and the fleet itself. The exit code is 1 where a promise was broken; the data and the logs are
then kept, and the seed says how to do the same again.
"""

import argparse
import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
django.setup()

from tests.faults.scale.conftest import OUTAGES  # noqa: E402
from tests.faults.scale.faults import FAULTS  # noqa: E402
from tests.faults.scale.weather import weather  # noqa: E402


async def blow(folder: Path, seed: int, minutes: float) -> None:
    chance = random.Random(seed)
    async with weather(folder, chance, OUTAGES) as (storm, faults):
        until = time.monotonic() + 60 * minutes
        deck: list[str] = []
        while time.monotonic() < until:
            if not deck:  # each once, in an order of its own, then all of them again
                deck = sorted(FAULTS)
                chance.shuffle(deck)
            name = deck.pop()
            print(f"{name} …", end=" ", flush=True)
            begun = time.monotonic()
            await storm.blow(name, partial(FAULTS[name], faults))
            print(f"well again, in {time.monotonic() - begun:.0f} s", flush=True)
        print("\nNo message lost, no effect twice, every log whole with one end:")
        for name, count in storm.tally.items():
            print(f"  {count:6}  {name}")
        print(f"  {storm.slowest:6.1f}  seconds after a repair, at the most, until the last run had ended")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.scale", description="Break a fleet, for long.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="agentsite-faults-"))
    print(f"Seed {given.seed}, {given.minutes:g} minutes", flush=True)
    try:
        asyncio.run(blow(folder, given.seed, given.minutes))
    except AssertionError as error:
        print(f"\nBROKEN: {error}\nThe logs are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
