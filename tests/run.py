"""The whole suite, as `make test` runs it: everything on SQLite, then on PostgreSQL what touches the database, and with
Redis what needs many processes.

python -m tests.run [pytest's own arguments]
"""

import os
import signal
import subprocess
import sys
import time

from tests.postgres import running_postgres
from tests.valkey import running_valkey

DATABASE_TESTS = ["tests/runs", "tests/api", "tests/faults"]


def run_pytest(title: str, arguments: list[str], environment: dict[str, str]) -> bool:
    """Whether it passed."""
    print(f"\n=== {title} ===", flush=True)
    begun = time.monotonic()
    code = subprocess.call([sys.executable, "-m", "pytest", *arguments], env=environment)
    result = "passed" if code == 0 else f"FAILED (exit code {code})"
    print(f"=== {title}: {result} in {time.monotonic() - begun:.0f} s ===", flush=True)
    return code == 0


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the database server is ended, too
    plain = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    results = [run_pytest("The suite on SQLite", arguments, plain)]
    with running_postgres() as database, running_valkey() as redis:
        title = "The database tests on PostgreSQL, and those of many processes"
        servers = {"DATABASE_URL": database, "TEST_REDIS_URL": redis}
        results.append(run_pytest(title, [*DATABASE_TESTS, *arguments], {**plain, **servers}))
    print("\nThe suite passed." if all(results) else "\nThe suite FAILED.", flush=True)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
