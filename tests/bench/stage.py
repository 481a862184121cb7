"""What is measured, set up: the model and the site, each a process of its own, with data that are gone afterwards."""

import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.serving import PROJECT, Served, free_port

AGENT = "bench"
START_SECONDS = 30


class SiteEnded(Exception):
    """The server went away under the measurement: nothing that was measured meanwhile means anything."""


@dataclass(frozen=True)
class Stage:
    model_url: str
    site: Served

    def check(self) -> None:
        code = self.site.process.poll()
        if code is not None:
            raise SiteEnded(
                f"The server ended in the middle, with exit code {code}. Its log ends:\n{self.site.log[-2000:]}"
            )


@contextmanager
def set_up_stage() -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="agentsite-bench-") as folder, run_model() as model_url:
        data = Path(folder) / "data"
        data.mkdir()
        site = Served(data=data)
        try:
            site.start()
            made = site.manage("create_agent", AGENT, "--base-url", f"{model_url}/v1", "--model", "fake")
            assert made.returncode == 0, made.stderr
            yield Stage(model_url, site)
        finally:
            if site.process.poll() is None:
                site.stop()


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
