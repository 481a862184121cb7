"""Fixtures for every test.

The database is SQLite in a file, or PostgreSQL where DATABASE_URL says so. A test whose code works in threads of its
own (`runs.database`, the worker) asks for `transactional_db`: those threads see only what is committed.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from channels.layers import channel_layers
from django.core.cache import cache
from django.utils import translation

from runs import access, bell, database
from tests.postgres import new_database
from tests.serving import Served


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
def serve_site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Served]]:
    """Makes sites that are not started yet: `serve_site("--web-only", AGENTSITE_LEASE_SECONDS="2")`. At the end each is
    ended cleanly, and its log must hold no trouble, except what the marker `expects_log` names."""
    sites: list[Served] = []
    with ExitStack() as databases:

        def make(*arguments: str, **environment: str) -> Served:
            if "DATABASE_URL" in os.environ and "DATABASE_URL" not in environment:
                environment["DATABASE_URL"] = databases.enter_context(new_database(os.environ["DATABASE_URL"]))
            data = tmp_path / f"site{len(sites)}"
            data.mkdir()
            sites.append(Served(data=data, environment=environment, arguments=arguments))
            return sites[-1]

        yield make

        crashes = [site.process.poll() for site in sites if site.has_crashed]
        codes = [site.stop() for site in sites if hasattr(site, "process") and site.process.poll() is None]
    expected = tuple(pattern for marker in request.node.iter_markers("expects_log") for pattern in marker.args)
    troubles = [line for site in sites for line in site.troubles(expected)]
    assert not crashes, f"ended by themselves, with {crashes}"
    assert not troubles, "\n".join(site.log for site in sites)
    assert not any(codes), f"exit codes: {codes}"


@pytest.fixture
def served(serve_site: Callable[..., Served]) -> Served:
    """A site that is up: `url`, `key`, `password`, `log`, `restart()`, `kill()`."""
    site = serve_site()
    site.start()
    return site
