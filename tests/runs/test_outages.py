"""A database that is away when a worker begins with a run: the run waits for it, and can be interrupted meanwhile."""

import pytest
from django.db import OperationalError

from runs import events, execution
from runs.models import Conversation, Message, Run
from tests.runs.stage import Stage


class Outage:
    """Of what a run needs to begin with a conversation that its worker does not know."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_over = False
        self.calls = 0
        whole = execution._context_of

        def broken(conversation: Conversation) -> list[Message]:
            self.calls += 1
            if self.is_over:
                return whole(conversation)
            raise OperationalError("server closed the connection\n\tunexpectedly")

        monkeypatch.setattr(execution, "_context_of", broken)
        monkeypatch.setattr(events, "AWAY_SECONDS", 0.01)


async def submit_after_another(stage: Stage) -> Run:
    """A run in a conversation that its worker has to read first."""
    await stage.start_worker()
    first = await stage.ended(await stage.submit("one"))
    await stage.stop_worker()
    stage.provider.requests.clear()
    return await stage.submit("two", conversation=first.conversation)


async def test_a_run_waits_for_the_database_and_does_not_fail(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = await submit_after_another(stage)
    outage = Outage(monkeypatch)
    await stage.start_worker()
    await stage.until(lambda: outage.calls > 2)
    outage.is_over = True
    run = await stage.ended(run)
    assert (run.status, run.output) == ("completed", "done")
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert "Traceback" not in caplog.text


async def test_a_run_that_waits_for_the_database_can_be_stopped(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """C2, C5"""
    run = await submit_after_another(stage)
    outage = Outage(monkeypatch)
    await stage.start_worker()
    await stage.until(lambda: outage.calls > 0)
    await stage.stop(run)
    run = await stage.ended(run)
    await stage.check(run)
    assert run.status == "cancelled"
    assert not stage.provider.requests


async def test_a_run_that_waits_for_the_database_is_handed_back(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    run = await submit_after_another(stage)
    outage = Outage(monkeypatch)
    await stage.start_worker()
    await stage.until(lambda: outage.calls > 0)
    await stage.stop_worker()
    assert (await stage.fresh(run)).status == "queued"
    outage.is_over = True
    await stage.start_worker()
    assert (await stage.ended(run)).status == "completed"
