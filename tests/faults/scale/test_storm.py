"""Each fault once, under load. `make faults` does the same for as long as you like and prints a tally."""

import random
from functools import partial
from pathlib import Path

import pytest

from tests.faults.scale.conftest import OUTAGES
from tests.faults.scale.faults import FAULTS
from tests.faults.scale.weather import weather
from tests.serving import Served


def test_an_outage_excuses_warnings_and_nothing_else(tmp_path: Path) -> None:
    site = Served(tmp_path / "site")
    bad = [
        "2026-01-01 00:00:00,000 ERROR runs.journal: What run run_1 wants to write cannot be written.",
        "Traceback (most recent call last):",
        "2026-01-01 00:00:00,000 WARNING asyncio: Executing a task took too long.",
    ]
    excused = [
        "2026-01-01 00:00:00,000 WARNING runs.window: The pool could not be shown (gone); it will be.",
        "2026-01-01 00:00:00,000 WARNING runs.api.errors: An API call was refused (gone).",
    ]
    site.log_path.write_text("\n".join([*excused, *bad]))
    assert site.troubles(OUTAGES) == bad


@pytest.mark.parametrize("name", FAULTS)
async def test_nothing_is_lost_and_nothing_happens_twice(name: str, tmp_path: Path) -> None:
    """T4, T5, R5, R16, C2, C8"""
    async with weather(tmp_path, random.Random(f"short {name}"), OUTAGES) as (storm, faults):
        await storm.blow(name, partial(FAULTS[name], faults))
        print(dict(storm.tally), f"the last run ended {storm.slowest:.1f} s after the repair")
