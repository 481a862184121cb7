"""A process that is frozen in the middle of a transaction keeps its locks. PostgreSQL must not wait for it for ever."""

import time
from datetime import timedelta

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.commands import migrate
from django.db import connection
from django.db.models.functions import Now

from runs import actions
from runs.models import Run
from tests.factories import make_agent, make_run, start_run

pytestmark = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite belongs to one process")


@pytest.mark.django_db
def test_the_server_ends_a_frozen_transaction_before_the_lease_has_run_out() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT setting::int FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'")
        [milliseconds] = cursor.fetchone() or [0]
    assert 0 < milliseconds < settings.AGENTSITE["LEASE_SECONDS"] * 1000


def timeout_here() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        return str((cursor.fetchone() or [""])[0])


@pytest.mark.django_db
def test_a_migration_may_stand_still_in_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, seen = timeout_here(), []
    monkeypatch.setattr(migrate.Command, "handle", lambda *args, **options: seen.append(timeout_here()))
    call_command("migrate", verbosity=0)
    assert seen == ["0"]
    assert timeout_here() == usual != "0"


@pytest.mark.django_db(transaction=True)
def test_a_run_that_a_frozen_worker_has_locked_is_passed_over_and_then_taken() -> None:
    """T4: with the lock held, a run whose lease has run out belongs to nobody; when the server has ended that
    transaction it is taken, and the frozen one can write nothing any more."""
    make_agent()
    run = start_run(make_run(User.objects.create_user("alice")))
    options = {**connection.get_connection_params(), "options": "-c idle_in_transaction_session_timeout=500"}
    del options["cursor_factory"], options["context"]
    with psycopg.connect(**options) as frozen:
        frozen.execute("SELECT 1 FROM runs_run WHERE id = %s FOR UPDATE", [run.pk])
        later = timedelta(seconds=2 * settings.AGENTSITE["LEASE_SECONDS"])
        # Not the run's row, which is locked, but the clock: the lease has run out.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("runs.actions.claim.Now", lambda: Now() + later)
            assert actions.claim_lost_runs("other", 10) == []
            until = time.monotonic() + 20
            while not (claims := actions.claim_lost_runs("other", 10)):
                assert time.monotonic() < until, "it is locked for ever"
        assert [claim.run.pk for claim in claims] == [run.pk]
        with pytest.raises(psycopg.Error):
            frozen.execute("UPDATE runs_run SET output = 'too late' WHERE id = %s", [run.pk])
    assert Run.objects.get(pk=run.pk).output == ""
