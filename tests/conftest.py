"""Fixtures for every test.

The database is SQLite in a file, or PostgreSQL where DATABASE_URL says so. A test whose code works in threads of its
own (`runs.database`, the worker) asks for `transactional_db`: those threads see only what is committed.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from channels.layers import channel_layers
from django.core.cache import cache
from django.utils import translation

from runs import access, bell, database
from tests.serving import Served
from tests.sites import Sites, making_sites


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """No thread may keep a connection when the test database is dropped."""
    yield
    database.close_threads()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Before the test's data go, the threads that could still look at them."""
    database.close_threads()


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    """What a process remembers of its past: the doorbell's loop, the channel layer's groups, the throttles' counts, the
    language of the last page."""
    yield
    bell._home = None
    channel_layers.backends.clear()
    cache.clear()
    access.forget_keys()
    translation.deactivate()


@pytest.fixture
def sites(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sites]:
    """Their logs may hold what the marker `expects_log` names."""
    expected = [pattern for marker in request.node.iter_markers("expects_log") for pattern in marker.args]
    with making_sites(tmp_path, expected) as sites:
        yield sites


@pytest.fixture
def serve_site(sites: Sites) -> Callable[..., Served]:
    """Makes sites that are not started yet: `serve_site("--web-only", AGENTSITE_LEASE_SECONDS="2")`."""
    return sites.new


@pytest.fixture(scope="session")
def first_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """As its first start has left it, which takes its time: to be copied."""
    with making_sites(tmp_path_factory.mktemp("first")) as sites:
        site = sites.new()
        site.start()
        assert site.stop() == 0
        yield site


@pytest.fixture
def served(sites: Sites, first_site: Served) -> Served:
    """A site that is up: `url`, `key`, `password`, `log`, `restart()`, `kill()`."""
    site = sites.copy(first_site)
    site.start()
    return site
