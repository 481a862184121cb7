"""Each fault once, under load. `make faults` does the same for as long as you like and prints a tally."""

import random
from functools import partial
from pathlib import Path

import pytest

from tests.faults.scale.conftest import OUTAGES
from tests.faults.scale.faults import FAULTS
from tests.faults.scale.weather import weather


@pytest.mark.parametrize("name", FAULTS)
async def test_nothing_is_lost_and_nothing_happens_twice(name: str, tmp_path: Path) -> None:
    """T4, T5, R5, R16, C2, C8"""
    async with weather(tmp_path, random.Random(f"short {name}"), OUTAGES) as (storm, faults):
        await storm.blow(name, partial(FAULTS[name], faults))
        print(dict(storm.tally), f"the last run ended {storm.slowest:.1f} s after the repair")
