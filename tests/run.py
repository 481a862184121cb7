"""The whole suite, as `make test` runs it, in two halves side by side: everything on SQLite, and on PostgreSQL what
touches the database, with Redis what needs many processes.

python -m tests.run [pytest's own arguments]
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import IO

from tests.postgres import running_postgres
from tests.valkey import running_valkey

DATABASE_TESTS = ["tests/runs", "tests/api", "tests/faults"]
# Of those, what takes its time and has the same database in both halves, or none: once is enough.
WITHOUT_DATABASE = [
    "tests/runs/test_deployment.py",
    "tests/runs/test_leaving.py",
    "tests/runs/test_moving.py",
    "tests/runs/test_server.py",
]


class Half:
    def __init__(self, title: str, arguments: list[str], environment: dict[str, str], output: IO[str] | None) -> None:
        """Begins at once. What it prints is seen at once, or goes into a file until it is its turn."""
        self.title = title
        self.output = output
        self.begun_at = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments], env=environment, stdout=output, stderr=output
        )

    def wait(self) -> bool:
        """Until it has ended and everything is printed; whether it passed."""
        code = self.process.wait()
        seconds = time.monotonic() - self.begun_at
        if self.output is not None:
            self.output.seek(0)
            print(f"\n=== {self.title} ===\n{self.output.read()}", end="")
        result = "passed" if code == 0 else f"FAILED (exit code {code})"
        print(f"=== {self.title}: {result} in {seconds:.0f} s ===", flush=True)
        return code == 0


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are ended, too
    plain = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    with running_postgres() as database, running_valkey() as redis, tempfile.TemporaryFile("w+") as later:
        ignored = [f"--ignore={path}" for path in WITHOUT_DATABASE]
        servers = {"DATABASE_URL": database, "TEST_REDIS_URL": redis}
        second_title = "The database tests on PostgreSQL, and those of many processes"
        print(f"\n=== The suite on SQLite; meanwhile: {second_title} ===", flush=True)
        halves = [
            Half("The suite on SQLite", arguments, plain, None),
            Half(second_title, [*DATABASE_TESTS, *ignored, *arguments], {**plain, **servers}, later),
        ]
        try:
            results = [half.wait() for half in halves]
        finally:
            for half in halves:
                half.process.terminate()
                half.process.wait()
    print("\nThe suite passed." if all(results) else "\nThe suite FAILED.", flush=True)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
