"""What the API's handler does in place of Django's middleware, and what happens when things go wrong."""

import asyncio
from typing import Any

import pytest
from django.core.exceptions import DisallowedHost, SuspiciousOperation
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import OperationalError
from django.test import Client as DjangoClient
from django.test import RequestFactory

from agentsite.asgi import application
from runs import access
from runs.api.errors import bad_request, server_error
from runs.api.handler import ApiHandler, _read_body
from tests.api.asking import make_scope
from tests.api.conftest import People, make_people
from tests.factories import make_run

END_OF_BODY: dict[str, Any] = {"type": "http.request", "body": b"", "more_body": False}


async def test_the_unexpected_is_logged_and_tells_its_caller_nothing(
    people: People, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("a secret of the server")

    monkeypatch.setattr(access, "visible_runs", fail)
    answer = await people.as_alice.get("/v1/runs")
    assert (answer.status, answer.error["type"], answer.error["code"]) == (500, "api_error", "internal_error")
    assert "secret" not in answer.body.decode()
    assert "Traceback" in caplog.text
    assert "a secret of the server" in caplog.text


async def test_a_broken_connection_breaks_one_call_and_not_the_next(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads keep their connections, so a broken one must not be kept."""
    used: list[BaseDatabaseWrapper] = []

    def lose_connection(user: object) -> None:
        used.append(connections["default"])
        used[0].errors_occurred = True
        raise OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as broken:
        broken.setattr(access, "usable_agents", lose_connection)
        broken.setattr(type(connections["default"]), "is_usable", lambda self: False)
        assert (await people.as_alice.get("/v1/agents")).status == 503
    assert used[0].connection is None
    assert (await people.as_alice.get("/v1/agents")).status == 200


async def test_an_unknown_host_is_refused_in_the_envelope(people: People) -> None:
    for path in ("/v1/runs", "/v1/runs/run_1/events"):
        answer = await people.as_alice.get(path, Host="evil.example")
        assert (answer.status, answer.error["code"]) == (400, "unknown_host")


async def test_an_unknown_host_is_refused_in_the_envelope_by_django_too(people: People) -> None:
    """Where no server calls the handler: Django's own test client, or another WSGI or ASGI application."""
    request = RequestFactory().get("/v1/runs")
    assert bad_request(request, DisallowedHost("evil")).headers["Content-Type"] == "application/json"
    assert server_error(request).status_code == 500
    assert server_error(request).headers["Content-Type"] == "application/json"
    page = bad_request(RequestFactory().get("/"), DisallowedHost("evil"))
    assert (page.status_code, page.headers["Content-Type"]) == (400, "text/html; charset=utf-8")
    assert "AGENTSITE_HOSTS" in page.content.decode()
    assert "AGENTSITE_HOSTS" not in bad_request(RequestFactory().get("/"), SuspiciousOperation()).content.decode()


async def test_answers_carry_the_security_headers(people: People) -> None:
    for answer in (await people.as_alice.get("/v1/runs"), await people.stranger.get("/v1/runs")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["content-length"] == str(len(answer.body))


async def test_a_public_site_sends_calls_to_https(
    people: People, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SECURE_SSL_REDIRECT = True
    monkeypatch.setattr("agentsite.asgi.api_application", ApiHandler())
    answer = await people.as_alice.get("/v1/runs")
    assert (answer.status, answer.headers["location"]) == (301, "https://localhost/v1/runs")


async def test_a_client_that_leaves_before_its_body_is_complete_is_dropped(people: People) -> None:
    messages: list[Any] = []
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    inbox.put_nowait({"type": "http.request", "body": b"{", "more_body": True})
    inbox.put_nowait({"type": "http.disconnect"})

    async def send(message: Any) -> None:
        messages.append(message)

    async with asyncio.timeout(5):
        await application(make_scope("POST", "/v1/runs", people.as_alice.headers), inbox.get, send)
    assert messages == []


async def test_of_a_body_that_is_too_large_no_more_is_kept_than_shows_it(settings: Any) -> None:
    """R2: however much is sent, memory holds one byte more than is allowed."""
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    chunks = iter([*({"type": "http.request", "body": b"x" * 300, "more_body": True} for _ in range(99)), END_OF_BODY])

    async def receive() -> dict[str, Any]:
        return next(chunks)

    assert len(await _read_body(receive)) == 1001
    assert list(chunks) == [], "it is read to its end, so that the connection can be used again"


async def test_a_head_request_is_answered_like_a_get(people: People) -> None:
    assert (await people.as_alice.ask("HEAD", "/v1/runs")).status == 200


def test_the_same_views_answer_without_the_handler(transactional_db: None) -> None:
    """Django's own handler, with all its middleware, gives the same answers."""
    people = make_people()
    run = make_run(people.alice)
    client = DjangoClient(headers=people.as_alice.headers)
    assert client.get(f"/v1/runs/{run.public_id}").json()["run_id"] == run.public_id
    assert DjangoClient().get(f"/v1/runs/{run.public_id}").status_code == 401
    browser = DjangoClient(enforce_csrf_checks=True)
    browser.force_login(people.alice)
    assert browser.get("/v1/runs").status_code == 200
    assert browser.post(f"/v1/runs/{run.public_id}/stop").status_code == 403


async def test_pages_that_are_no_calls_go_to_django(people: People) -> None:
    for path in ("/healthz", "/v1/docs"):
        assert (await people.stranger.get(path)).status == 200


async def test_a_server_that_tells_of_its_life_gets_a_nod() -> None:
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    told: list[Any] = []

    async def send(message: Any) -> None:
        told.append(message["type"])

    inbox.put_nowait({"type": "lifespan.startup"})
    inbox.put_nowait({"type": "lifespan.shutdown"})
    async with asyncio.timeout(5):
        await application({"type": "lifespan"}, inbox.get, send)
    assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_what_is_neither_call_nor_socket_is_refused() -> None:
    async def receive() -> dict[str, Any]:
        raise AssertionError("nothing is read")

    async def send(message: object) -> None:
        raise AssertionError("nothing is sent")

    with pytest.raises(ValueError, match="no application"):
        await application({"type": "gopher"}, receive, send)
