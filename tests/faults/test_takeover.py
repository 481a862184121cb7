"""Who may take a run from another worker, and when."""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from runs import actions
from runs.models import Run, Worker
from tests.factories import end_run, make_agent, make_run, start_run


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
