"""The pages that everybody sees, and the two questions of whoever watches over the site."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import AsyncClient, Client
from django.utils import timezone

from runs.models import Worker


@pytest.fixture
def charlie(db: None) -> User:
    return User.objects.create_user("charlie", password="right", is_staff=True)


def see_worker(seconds_ago: float) -> None:
    seen_at = timezone.now() - timedelta(seconds=seconds_ago)
    Worker.objects.create(name="worker", started_at=seen_at, seen_at=seen_at)


def test_the_front_page_says_what_this_is_and_where_to_go(client: Client) -> None:
    page = client.get("/").content.decode()
    for address in ("/accounts/login/", "/v1/docs"):
        assert f'href="{address}"' in page


def test_pages_need_no_inline_script_or_style(client: Client) -> None:
    for path in ("/", "/accounts/login/", "/nowhere"):
        page = client.get(path).content.decode()
        assert "<script" not in page
        assert "<style" not in page
        assert "style=" not in page


def test_somebody_who_is_signed_in_can_sign_out(client: Client, charlie: User) -> None:
    client.force_login(charlie)
    assert "Sign out" in client.get("/").content.decode()
    assert client.post("/accounts/logout/").status_code == 302
    assert "Sign in" in client.get("/").content.decode()


def test_a_wrong_password_does_not_tell_whether_the_user_exists(client: Client, charlie: User) -> None:
    pages = [
        client.post("/accounts/login/", {"username": name, "password": "wrong"}).content.decode()
        for name in ("charlie", "nobody")
    ]
    assert "do not match" in pages[0]
    assert pages[0].replace("charlie", "nobody").split("<label")[1:] == pages[1].split("<label")[1:]


def test_signing_in_does_not_lead_to_other_sites(client: Client, charlie: User) -> None:
    form = {"username": "charlie", "password": "right", "next": "https://evil.example/"}
    assert client.post("/accounts/login/", form).headers["Location"] == "/"


def test_an_unknown_address_has_a_page_of_its_own(client: Client) -> None:
    response = client.get("/nowhere")
    assert response.status_code == 404
    assert "There is nothing at this address" in response.content.decode()


def test_an_error_has_a_page_that_needs_nothing(client: Client, monkeypatch: Any) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("runs.views.home.render", fail)
    client.raise_request_exception = False
    response = client.get("/")
    assert response.status_code == 500
    assert "Something went wrong here" in response.content.decode()
    assert "RuntimeError" not in response.content.decode()


def test_pages_cannot_be_framed_or_sniffed(client: Client) -> None:
    headers = client.get("/").headers
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_files_are_served_with_their_type_and_can_be_kept(client: Client) -> None:
    response = client.get("/static/css/base.css")
    assert (response.status_code, response.headers["Content-Type"]) == (200, 'text/css; charset="utf-8"')
    again = client.get("/static/css/base.css", headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/static/../manage.py").status_code == 404
    assert client.post("/static/css/base.css").status_code == 405


async def test_files_are_served_the_same_way_asynchronously(async_client: AsyncClient) -> None:
    response = await async_client.get("/static/favicon.svg")
    assert response.headers["Content-Type"] == "image/svg+xml"
    assert response.content.startswith(b"<svg")


def test_a_process_that_is_up_says_so_without_its_database(client: Client) -> None:
    """No fixture gives this test a database: a query would fail."""
    response = client.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_process_is_asked_by_its_address_and_without_tls(
    client: Client, transactional_db: None, settings: Any, path: str
) -> None:
    """As load balancers and containers do."""
    see_worker(seconds_ago=1)
    settings.ALLOWED_HOSTS = ["agents.example.org"]
    settings.SECURE_SSL_REDIRECT = True
    assert client.get(path, headers={"Host": "10.0.0.7:8000"}).status_code == 200


def test_a_site_with_a_worker_is_ready(client: Client, transactional_db: None) -> None:
    see_worker(seconds_ago=1)
    response = client.get("/readyz")
    assert (response.status_code, response.json()) == (200, {"status": "ok", "problems": [], "warnings": []})


@pytest.mark.parametrize("seconds_ago", [None, 16])
def test_a_site_without_a_living_worker_is_not_ready(
    client: Client, transactional_db: None, seconds_ago: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    if seconds_ago is not None:
        see_worker(seconds_ago)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["problems"] == ["No worker was seen in the last 15 seconds."]
    assert caplog.records == []


def test_a_site_without_its_database_is_not_ready(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr("runs.views.health.Worker.objects.alive", fail)
    response = client.get("/readyz")
    assert (response.status_code, response.json()["problems"]) == (503, ["The database does not answer."])
