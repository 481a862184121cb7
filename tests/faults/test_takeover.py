"""Who may take a run from another worker, and when."""

import os
import signal
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from runs import actions
from runs.models import Run, Worker
from tests.factories import end_run, make_agent, make_run, start_run
from tests.faults.calling import Caller
from tests.faults.databases import read_worker
from tests.faults.promises import check_run, shown_text, tokens, words_shown
from tests.serving import Served


@pytest.mark.django_db
def test_a_server_that_knows_itself_alone_waits_for_no_lease() -> None:
    """T4: every test here that restarts a server on SQLite would wait for an hour without it."""
    make_agent()
    alice = User.objects.create_user("alice")
    lost = start_run(make_run(alice))
    end_run(start_run(make_run(alice)))
    make_run(alice)
    Worker.objects.create(name="gone", started_at=timezone.now(), seen_at=timezone.now())
    assert actions.claim_lost_runs("new", 10) == []

    actions.release_orphans()
    assert [claim.run for claim in actions.claim_lost_runs("new", 10)] == [lost]
    assert list(Run.objects.order_by("pk").values_list("status", "losses")) == [
        ("running", 1),
        ("completed", 0),
        ("queued", 0),
    ]
    assert not Worker.objects.exists()


@pytest.mark.skipif("DATABASE_URL" not in os.environ, reason="SQLite belongs to one server")
@pytest.mark.expects_log("was taken over by another worker")
async def test_a_second_server_takes_over_what_a_frozen_one_has_and_that_one_writes_nothing_more(
    make_site: Callable[[], Served], site: Served, caller: Caller
) -> None:
    """T4, T5, C2"""
    sites = [site, make_site()]
    for one in sites:
        one.start()
    run = await caller.start("#tokens=200 #rate=100")
    seen = await caller.see(run, words_shown(30))
    # Either of them may have taken it; a worker's name has its process in it.
    frozen, other = sorted(sites, key=lambda one: f"-{one.process.pid}-" not in read_worker(site, run.run_id))
    frozen.process.send_signal(signal.SIGSTOP)
    try:
        async with Caller(other) as elsewhere:
            found = await check_run(elsewhere, run, seen)
            log = await elsewhere.log(run)
    finally:
        frozen.process.send_signal(signal.SIGCONT)
    assert (found["status"], found["output"], found["attempt"]) == ("completed", tokens(200), 2)
    assert shown_text(log) == tokens(200)
    assert frozen.stop() == 0
    async with Caller(other) as elsewhere:
        assert await elsewhere.log(run) == log
