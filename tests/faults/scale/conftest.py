"""Fleets for tests that break them. They need PostgreSQL and Redis, which `make test` starts for its second half."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.faults.calling import Caller
from tests.faults.conftest import TOOLS, Seed
from tests.faults.scale.fleet import Fleet
from tests.valkey import Valkey, own_valkey

HERE = Path(__file__).parent
# What a process says about servers that come and go is expected where a test makes them do so. Of our own warnings any:
# whoever needs a server that is away says so in words of their own, and a list of those would always lack one. Errors
# and tracebacks are never among them.
OUTAGES = (
    r" WARNING (runs|gateway)\.",
    r"WARNING procrastinate\.",
    r"WARNING psycopg\.pool: (error connecting|discarding closed connection|couldn't|reconnection)",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "DATABASE_URL" not in os.environ:
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="needs PostgreSQL; the second half of `make test` has it"))


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    """A Redis of the test's own, to be killed and flushed."""
    with own_valkey() as server:
        yield server


@pytest.fixture
def redis_url(request: pytest.FixtureRequest) -> str:
    """Of the server that all share, where there is one and the test does not want to break its own."""
    shared = os.environ.get("TEST_REDIS_URL")
    if shared and "valkey" not in request.fixturenames:
        return shared
    own: Valkey = request.getfixturevalue("valkey")
    return own.url


@pytest.fixture
def settled(place: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """What every process of a fleet is told; a test may change it before the fleet starts."""
    return {
        **TOOLS,
        **place,
        "AGENTSITE_SECRET_KEY": "a secret that all of them share, as long as it should be",
        "AGENTSITE_LEASE_SECONDS": "3",
        "AGENTSITE_MAX_ATTEMPTS": "20",
        "AGENTSITE_DRAIN_SECONDS": "5",
        "EFFECTS_FILE": str(tmp_path / "effects"),
    }


@pytest.fixture
def fleet(
    settled: dict[str, str], redis_url: str, seed: Seed, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Fleet]:
    """Not started yet. At the end no log may hold trouble, except what the marker `expects_log` names."""
    fleet = Fleet(tmp_path, {**settled, "REDIS_URL": redis_url}, seed.key)
    yield fleet
    crashed = [process.log_path.stem for process in fleet.processes if process.has_crashed]
    fleet.end()
    expected = tuple(pattern for marker in request.node.iter_markers("expects_log") for pattern in marker.args)
    assert not crashed, f"ended by themselves: {crashed}"
    assert not (troubles := fleet.troubles(expected)), "\n".join(troubles)


@pytest.fixture
async def caller(fleet: Fleet) -> AsyncIterator[Caller]:
    """A program that uses the first web server, which the test starts."""
    async with Caller(fleet.make_web()) as caller:
        yield caller
