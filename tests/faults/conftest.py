"""Sites for tests that break them: each begins with a copy of the same data, and is started by the test itself."""

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.calling import Caller
from tests.postgres import new_database
from tests.serving import PROJECT, Served

TOOLS = {"AGENTSITE_TOOL_MODULES": "tests.faults.effect_tools"}


@dataclass(frozen=True)
class Seed:
    data: Path
    key: str
    database: str | None


@pytest.fixture(scope="session")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seed]:
    data = tmp_path_factory.mktemp("seed") / "data"
    data.mkdir()
    with ExitStack() as databases:
        server = os.environ.get("DATABASE_URL")
        database = databases.enter_context(new_database(server)) if server else None
        yield Seed(data, plant_seed(data, database), database)


def plant_seed(data: Path, database: str | None) -> str:
    """Make the data; the API key."""
    environment = TOOLS if database is None else {**TOOLS, "DATABASE_URL": database}
    planting = subprocess.run(
        [sys.executable, "-m", "tests.faults.seed"],
        cwd=PROJECT,
        env=Served(data, environment).full_environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return planting.stdout.split()[-1]


@contextmanager
def copy_seed(seed: Seed, data: Path) -> Iterator[dict[str, str]]:
    """Put a copy of the seed's data there; what tells a process of its database, for as long as there is one."""
    shutil.copytree(seed.data, data, dirs_exist_ok=True)
    with ExitStack() as database:
        if seed.database is None:
            yield {}
        else:
            copy = new_database(os.environ["DATABASE_URL"], template=seed.database)
            yield {"DATABASE_URL": database.enter_context(copy)}


@pytest.fixture
def place(seed: Seed, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A database of a site's own. A fixture by itself, so that it outlives the server."""
    with copy_seed(seed, tmp_path / "copy") as environment:
        yield environment


@pytest.fixture
def site(place: dict[str, str], seed: Seed, tmp_path: Path, serve_site: Callable[..., Served]) -> Served:
    """Not started yet; its `environment` can be changed."""
    # On PostgreSQL a worker waits for the leases of the one before. With SQLite it must not: `release_orphans`.
    lease = {"AGENTSITE_LEASE_SECONDS": "2" if seed.database else "3600"}
    site = serve_site(**TOOLS, **lease, **place, EFFECTS_FILE=str(tmp_path / "effects"))
    shutil.copytree(tmp_path / "copy", site.data, dirs_exist_ok=True)
    site.password, site.key = "known", seed.key
    return site


@pytest.fixture
async def caller(site: Served) -> AsyncIterator[Caller]:
    async with Caller(site) as caller:
        yield caller
