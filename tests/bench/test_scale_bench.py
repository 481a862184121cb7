"""The bench of many processes, in its smallest size, so that it cannot rot. No figure is judged."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.bench.scale import SCENARIOS, Size, carry_on
from tests.bench.stage import Stage, set_up_stage

TINY = Size(
    carried_tokens=5,
    warm_seconds=0.1,
    carry_seconds=0.5,
    fan=3,
    fan_tokens=4,
    fan_rate=50,
    watchers=3,
    watched_tokens=4,
    watched_rate=50,
    sockets=4,
    warm_sockets=1,
    questions=2,
)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with set_up_stage(1) as stage:
        yield stage


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_scenario_finds_everything_whole_and_says_so(stage: Stage, scenario: str) -> None:
    assert asyncio.run(SCENARIOS[scenario](stage, TINY)).startswith(("3 runs at once", "3 watchers", "4 conversations"))


def test_what_is_carried_is_counted_while_there_is_more_to_do(stage: Stage) -> None:
    assert 0 < asyncio.run(carry_on(stage, 4, TINY)) < 4_000
