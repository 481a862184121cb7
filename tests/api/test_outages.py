"""A database that is away: callers are told to come back, and who follows a run is kept."""

import logging

import psycopg
import pytest
from django.db import OperationalError
from redis.exceptions import ConnectionError as RedisGone

from runs import access, actions, events
from runs.database import in_writer
from runs.outages import OneLine
from tests.api.asking import closed_with
from tests.api.completing import PATH, STREAM, Hands, says
from tests.api.conftest import People
from tests.factories import finished_run


class Outage:
    """For so many calls, where it is put."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def cut(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        whole = getattr(owner, name)

        def broken(*args: object, **kwargs: object) -> object:
            if self.calls:
                self.calls -= 1
                raise OperationalError("server closed the connection\n\tunexpectedly")
            return whole(*args, **kwargs)

        monkeypatch.setattr(owner, name, broken)


async def test_a_call_is_refused_for_a_moment(
    people: People, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Outage(1).cut(monkeypatch, access, "visible_runs")
    answer = await people.as_alice.get("/v1/runs")
    assert (answer.status, answer.error["code"], answer.headers["retry-after"]) == (503, "database_unavailable", "1")
    assert "Traceback" not in caplog.text
    assert (await people.as_alice.get("/v1/runs")).status == 200


class NotStored(Exception):
    """As procrastinate and Django's transactions tell it: in words of their own."""


async def test_an_outage_that_somebody_else_tells_is_an_outage(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(*args: object) -> None:
        raise NotStored from psycopg.errors.AdminShutdown("terminating connection due to administrator command")

    with monkeypatch.context() as broken:
        broken.setattr(access, "visible_runs", tell)
        answer = await people.as_alice.get("/v1/runs")
        assert (answer.status, answer.error["code"]) == (503, "database_unavailable")
    with pytest.raises(OperationalError, match="administrator"):
        await in_writer(tell)
    assert (await people.as_alice.get("/v1/runs")).status == 200


async def test_a_stream_waits_for_the_database(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """R4, R5"""
    run = await in_writer(finished_run, people.alice)
    whole = await people.as_alice.events(f"/v1/runs/{run.public_id}/events")
    monkeypatch.setattr(events, "AWAY_SECONDS", 0.001)
    Outage(3).cut(monkeypatch, events, "read_log")
    assert await people.as_alice.events(f"/v1/runs/{run.public_id}/events") == whole


async def test_a_socket_is_told_to_come_back(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    run = await in_writer(finished_run, people.alice)
    Outage(1).cut(monkeypatch, access, "followable_runs")
    assert await closed_with(people.as_alice, f"/ws/runs/{run.public_id}/") == 1013


async def test_a_client_that_leaves_while_the_database_is_away_stops_its_run(
    people: People, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R17: nobody else will ask for it."""
    monkeypatch.setattr(events, "AWAY_SECONDS", 0.001)
    async with people.as_alice.stream(PATH, body=STREAM) as stream:
        run = await hands.do(says("half"))
        while "half" not in str(await stream.next_frame()):
            pass
        Outage(3).cut(monkeypatch, actions, "request_stop")
    await in_writer(run.refresh_from_db)
    assert run.stop_requested_by == "alice"


def test_a_lost_connection_is_one_line_in_the_log_and_anything_else_is_not_touched() -> None:
    def record_of(error: Exception, name: str = "somebody") -> logging.LogRecord:
        try:
            raise RuntimeError("it failed") from error
        except RuntimeError as failure:
            return logging.LogRecord(name, logging.ERROR, "", 0, "It\nfailed.", (), (type(failure), failure, None))

    outage = record_of(OperationalError("server closed\n\tthe connection"))
    assert OneLine().filter(outage)
    assert (outage.getMessage(), outage.levelname, outage.exc_info) == (
        "It failed. (server closed the connection)",
        "WARNING",
        None,
    )
    assert not OneLine().filter(record_of(OperationalError("again"), "asyncio"))
    assert OneLine().filter(ring := record_of(RedisGone("Connection refused")))
    assert (ring.getMessage(), ring.levelname) == ("It failed. (Connection refused)", "WARNING")
    mistake = record_of(ValueError("a mistake"))
    assert OneLine().filter(mistake)
    assert mistake.exc_info is not None
    assert mistake.levelname == "ERROR"


def test_what_the_server_says_of_an_outage_is_one_line_too() -> None:
    """PostgreSQL says it in three."""
    error = OperationalError("server closed\n\tThis probably means\n")
    record = logging.LogRecord("runs", logging.WARNING, "", 0, "It is away (%s); again.", (error,), None)
    assert OneLine().filter(record)
    assert record.getMessage() == "It is away (server closed This probably means); again."
