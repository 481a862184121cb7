"""/metrics: for those who know the token, and what it tells."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.factories import make_agent, make_run
from tests.runs.stage import Stage


def read_figures(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


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
