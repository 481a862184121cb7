"""A site's database from outside, while the server does not run."""

import sqlite3
from contextlib import closing
from typing import LiteralString

import psycopg

from tests.serving import Served


def read_statuses(site: Served) -> dict[str, str]:
    """Of all runs, by their ids."""
    return dict(_read(site, "SELECT public_id, status FROM runs_run"))


def _read(site: Served, question: LiteralString) -> list[tuple[str, str]]:
    if "DATABASE_URL" in site.environment:
        with psycopg.connect(site.environment["DATABASE_URL"]) as server:
            return server.execute(question).fetchall()
    with closing(sqlite3.connect(site.data / "agentsite.sqlite3", timeout=20)) as file:
        return file.execute(question).fetchall()
