"""What is measured, set up: the model and the site, each a process of its own, with data that are gone afterwards."""

import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.postgres import new_database, running_postgres
from tests.serving import PROJECT, Served, Working, free_port
from tests.valkey import running_valkey

AGENT = "bench"
START_SECONDS = 30


class SiteEnded(Exception):
    """The server went away under the measurement: nothing that was measured meanwhile means anything."""


@dataclass(frozen=True)
class Stage:
    model_url: str
    site: Served
    """Who is asked: the one process, or a web server."""
    workers: tuple[Working, ...] = ()

    def check(self) -> None:
        for process in (self.site, *self.workers):
            code = process.process.poll()
            if code is not None:
                raise SiteEnded(
                    f"The server ended in the middle, with exit code {code}. Its log ends:\n{process.log[-2000:]}"
                )


@contextmanager
def set_up_stage(workers: int = 0) -> Iterator[Stage]:
    """One process with SQLite, or a web server and so many workers on PostgreSQL and Redis."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agentsite-bench-")))
        model_url = stack.enter_context(run_model())
        environment = stack.enter_context(run_servers()) if workers else {}
        site = Served(make_room(folder, "web"), environment, ("--web-only",) if workers else ())
        stack.callback(end, site)
        site.start()
        made = site.manage("create_agent", AGENT, "--base-url", f"{model_url}/v1", "--model", "fake")
        assert made.returncode == 0, made.stderr
        working = tuple(Working(make_room(folder, f"worker{number}"), environment) for number in range(workers))
        for worker in working:
            stack.callback(end, worker)
            worker.start()
        yield Stage(model_url, site, working)


@contextmanager
def run_servers() -> Iterator[dict[str, str]]:
    """PostgreSQL and Redis of its own, as the tests have them; what a process must be told of them."""
    with running_postgres() as postgres, new_database(postgres) as database, running_valkey() as redis:
        yield {
            "DATABASE_URL": database,
            "REDIS_URL": redis,
            "AGENTSITE_SECRET_KEY": "a secret that all of them share, as long as it should be",
        }


def make_room(folder: Path, name: str) -> Path:
    room = folder / name
    room.mkdir()
    return room


def end(process: Served) -> None:
    if hasattr(process, "process") and process.process.poll() is None:
        process.stop()


@contextmanager
def run_model() -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.model", str(port)], cwd=PROJECT)
    try:
        until = time.monotonic() + START_SECONDS
        while not _answers(url):
            assert process.poll() is None, "the model ended by itself"
            assert time.monotonic() < until, "the model does not answer"
            time.sleep(0.02)
        yield url
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=5):
            return True
    except OSError:
        return False
