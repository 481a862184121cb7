"""A disk that is full: nothing can be written, nothing is lost, and when there is room again everything goes on."""

import asyncio
import os
import resource

import pytest

from tests.faults.calling import Caller, until
from tests.faults.promises import check_run, read_effects, shown_text, tokens, words_shown
from tests.serving import Served


@pytest.mark.skipif("DATABASE_URL" in os.environ, reason="the disk is PostgreSQL's own matter")
@pytest.mark.expects_log("The database is not available", "An API call was refused, because the database", "disk")
async def test_a_full_disk_holds_runs_up_and_loses_nothing(site: Served, caller: Caller) -> None:
    """T1, T5, C2: SQLite's log of writes may not grow any more, which it takes for a full disk."""
    site.start()
    run = await caller.start('#tool=mark {"name": "once"} #tokens=100 #rate=50', agent="sequential")
    seen = await caller.see(run, words_shown(5))
    watching = asyncio.create_task(caller.watch_persistently(run))
    _, most = resource.prlimit(site.process.pid, resource.RLIMIT_FSIZE)
    size = (site.data / "agentsite.sqlite3-wal").stat().st_size
    assert size > 2 * len(site.log), "the server's log must still have room"
    resource.prlimit(site.process.pid, resource.RLIMIT_FSIZE, (size, most))
    await until(lambda: "The database is not available" in site.log)
    status, answer = await caller.ask("POST", "/v1/runs", {"input": "hello"})
    assert (status, answer["error"]["code"]) == (503, "database_unavailable")
    assert (await caller.look(run))["status"] == "running"

    resource.prlimit(site.process.pid, resource.RLIMIT_FSIZE, (most, most))
    found = await check_run(caller, run, seen)
    assert (found["status"], found["output"], found["attempt"]) == ("completed", tokens(100), 1)
    assert shown_text(await watching) == tokens(100)
    assert read_effects(site.environment["EFFECTS_FILE"]) == ["once"]
    assert (await check_run(caller, await caller.start("#tokens=2")))["output"] == tokens(2)
