"""A site's database from outside: copied before the server starts, and read while it does not run."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import LiteralString

import psycopg

from tests.serving import Served


@contextmanager
def copied_database(url: str) -> Iterator[str]:
    """The address of a copy of a PostgreSQL database that nobody uses at the moment."""
    base, _, original = url.rpartition("/")
    name = f"agentsite_{os.urandom(6).hex()}"
    with psycopg.connect(f"{base}/postgres", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{original}"')  # type: ignore[call-overload]
    try:
        yield f"{base}/{name}"
    finally:
        with psycopg.connect(f"{base}/postgres", autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')  # type: ignore[call-overload]


def read_statuses(site: Served) -> dict[str, str]:
    """Of all runs, by their ids."""
    return dict(_read(site, "SELECT public_id, status FROM runs_run"))


def _read(site: Served, question: LiteralString) -> list[tuple[str, str]]:
    if "DATABASE_URL" in site.environment:
        with psycopg.connect(site.environment["DATABASE_URL"]) as server:
            return server.execute(question).fetchall()
    with closing(sqlite3.connect(site.data / "agentsite.sqlite3", timeout=20)) as file:
        return file.execute(question).fetchall()
