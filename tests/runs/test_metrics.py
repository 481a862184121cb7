"""/metrics: for those who know the token, and what it tells."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from runs import actions, metrics
from runs.models import Worker
from tests.factories import make_agent, make_run, start_run
from tests.runs.stage import Stage


def read_figures(text: str) -> dict[str, float]:
    """As Prometheus reads them."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            name = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert name not in found, f"{name} is told twice"
            found[name] = sample.value
    return found


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer "}, {"Authorization": "Bearer wrong"}])
@pytest.mark.parametrize("token", ["", "right"])
def test_figures_are_for_nobody_without_the_token(client: Client, settings, headers, token) -> None:
    settings.AGENTSITE = {**settings.AGENTSITE, "METRICS_TOKEN": token}
    assert client.get("/metrics", headers=headers).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_the_site_tells_what_waits(client: Client, settings) -> None:
    settings.AGENTSITE = {**settings.AGENTSITE, "METRICS_TOKEN": "right"}
    make_agent()
    make_run(User.objects.create_user("alice"))
    answer = client.get("/metrics", headers={"Authorization": "Bearer right"})
    assert answer.status_code == 200
    figures = read_figures(answer.content.decode())
    assert figures['agentsite_runs{status="queued"}'] == 1
    assert figures['agentsite_runs{status="running"}'] == 0
    assert figures["agentsite_queue_oldest_seconds"] > 0
    assert figures["agentsite_workers"] == 0


async def test_a_worker_tells_how_fast_it_was(working: Stage) -> None:
    from runs.database import in_reader
    from runs.metrics import write_metrics

    async def figures() -> dict[str, float]:
        return read_figures((await in_reader(write_metrics)).decode())

    before = await figures()
    working.script(["hello"])
    run = await working.submit()
    await working.ended(run)
    await working.until(lambda: working.worker is not None and not working.worker.executions)
    after = await figures()
    ended = 'agentsite_runs_ended_total{status="completed",stop_reason="end_turn"}'
    assert after[ended] == before.get(ended, 0) + 1
    for name in ("agentsite_first_text_seconds_count", "agentsite_journal_commit_seconds_count"):
        assert after[name] > before[name]
    assert after["agentsite_watchers"] == 0


def count_ends(status: str, stop_reason: str) -> float:
    text = metrics.write_metrics().decode()
    return read_figures(text).get(f'agentsite_runs_ended_total{{status="{status}",stop_reason="{stop_reason}"}}', 0)


@pytest.mark.django_db(transaction=True)
def test_an_end_that_no_worker_wrote_is_counted_as_well(settings) -> None:
    """Of a run that was stopped while it waited, and of one whose worker was lost too often: whoever watches for the
    latter must see it."""
    settings.AGENTSITE = {**settings.AGENTSITE, "MAX_ATTEMPTS": 1}
    make_agent()
    alice = User.objects.create_user("alice")
    stopped, failed = count_ends("cancelled", "cancelled"), count_ends("failed", "error")
    actions.request_stop(make_run(alice).pk, by="alice", via="api")
    assert count_ends("cancelled", "cancelled") == stopped + 1
    lost = start_run(make_run(alice))
    type(lost).objects.filter(pk=lost.pk).update(lease_expires_at=timezone.now() - timedelta(hours=1))
    assert actions.claim_lost_runs("another", 10) == []
    assert count_ends("failed", "error") == failed + 1


@pytest.mark.django_db(transaction=True)
def test_a_clock_that_is_behind_makes_no_stop_faster_than_light(monkeypatch: pytest.MonkeyPatch) -> None:
    """C12: the machine that took the request and the one that ends the run may disagree about the time."""
    make_agent()
    run = start_run(make_run(User.objects.create_user("alice")))
    actions.request_stop(run.pk, by="alice", via="api")
    type(run).objects.filter(pk=run.pk).update(lease_expires_at=timezone.now() - timedelta(hours=1))
    real_now = timezone.now
    monkeypatch.setattr("django.utils.timezone.now", lambda: real_now() - timedelta(minutes=5))
    before = read_figures(metrics.write_metrics().decode())["agentsite_stop_seconds_sum"]
    actions.claim_lost_runs("behind", 10)
    run.refresh_from_db()
    assert run.receipt["ended_ms"] == 0
    assert read_figures(metrics.write_metrics().decode())["agentsite_stop_seconds_sum"] == before


@pytest.mark.django_db(transaction=True)
def test_without_the_database_a_process_tells_what_it_knows_itself(
    client: Client, settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That is when somebody looks."""

    def away() -> None:
        raise OperationalError("the server closed the connection")

    settings.AGENTSITE = {**settings.AGENTSITE, "METRICS_TOKEN": "right"}
    monkeypatch.setattr(Worker.objects, "alive", away)
    answer = client.get("/metrics", headers={"Authorization": "Bearer right"})
    assert answer.status_code == 200
    figures = read_figures(answer.content.decode())
    assert "agentsite_watchers" in figures
    assert "agentsite_runs" not in "".join(name for name in figures if "ended" not in name)
    assert "Traceback" not in caplog.text
