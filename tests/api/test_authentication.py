"""Who is let in, and what a stranger learns: nothing."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from runs import access
from runs.api.urls import urlpatterns
from runs.database import in_reader, in_writer
from runs.models import ApiKey, Run
from runs.models.access import digest_of
from tests.api.asking import Client
from tests.api.conftest import CSRF, People
from tests.factories import make_key, make_run

UNKNOWN_RUN = "run_" + "0" * 24
ROUTES = [
    ("POST", "/v1/runs"),
    ("GET", "/v1/runs"),
    ("GET", "/v1/runs/{run}"),
    ("PATCH", "/v1/runs/{run}"),
    ("GET", "/v1/runs/{run}/events"),
    ("GET", "/v1/runs/{run}/messages"),
    ("POST", "/v1/runs/{run}/stop"),
    ("POST", "/v1/runs/{run}/approvals"),
    ("GET", "/v1/approvals"),
    ("GET", "/v1/conversations"),
    ("GET", "/v1/conversations/{conversation}"),
    ("PATCH", "/v1/conversations/{conversation}"),
    ("GET", "/v1/conversations/{conversation}/messages"),
    ("POST", "/v1/conversations/{conversation}/reset"),
    ("POST", "/v1/conversations/{conversation}/restore"),
    ("GET", "/v1/agents"),
    ("GET", "/v1/pool"),
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{model}"),
    ("GET", "/v1/nothing/here"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_stranger_learns_nothing(people: People, method: str, path: str) -> None:
    """R3: the same 401 for what exists and for what does not, whatever is sent."""
    run = await in_writer(make_run, people.alice)
    real = path.format(run=run.public_id, conversation=run.conversation.public_id, model=run.agent.slug)
    unreal = path.format(run=UNKNOWN_RUN, conversation="conv_" + "0" * 24, model="nobody")
    answers = [
        await people.stranger.ask(method, real),
        await people.stranger.ask(method, unreal),
        await people.stranger.ask(method, real, b"not json", headers={"Content-Type": "text/plain"}),
        await people.stranger.ask("DELETE", real),
        await people.stranger.ask(method, real + "?limit=-1&starting_after=x"),
    ]
    for answer in answers:
        assert answer.status == 401
        assert answer.error["type"] == "authentication_error"
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.body == answers[0].body


def test_no_path_is_left_out() -> None:
    """R3: any call, except for the document that says how to call, and its page."""
    known = {re.sub(r"{\w+}", "<>", path.removeprefix("/v1/")) for _, path in ROUTES}
    paths = {re.sub(r"<.*?>", "<>", str(pattern.pattern)) for pattern in urlpatterns}
    assert paths - known == {"schema", "docs", ""}


async def test_nothing_is_looked_up_for_a_stranger(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """R3: decided before anything is looked up."""

    def look_up(*args: object) -> None:
        raise AssertionError("looked up")

    for name in (
        "access.visible_runs",
        "access.followable_runs",
        "access.visible_conversations",
        "access.restorable_conversations",
        "access.usable_agents",
        "access.decidable_approvals",
        "actions.submit_run",
    ):
        monkeypatch.setattr(f"runs.{name}", look_up)
    for method, path in ROUTES:
        assert (await people.stranger.ask(method, path, b'{"input": "x"}')).status == 401


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Bearer nonsense", "bearer ask_\xff", "Bearer a b c"])
async def test_a_wrong_key_is_refused(people: People, header: str) -> None:
    """R3"""
    answer = await people.stranger.get("/v1/runs", Authorization=header)
    assert (answer.status, answer.error["code"]) == (401, "invalid_key")


@pytest.mark.parametrize(
    "fields", [{"revoked_at": timezone.now()}, {"expires_at": timezone.now() - timedelta(seconds=1)}]
)
async def test_a_key_that_is_revoked_or_expired_is_refused(people: People, fields: dict[str, object]) -> None:
    """R3"""
    key = await in_writer(lambda: make_key(people.alice, **fields))
    assert (await Client.with_key(key).get("/v1/runs")).status == 401


async def test_a_key_in_use_is_refused_soon_after_it_is_revoked(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R3: a key that was seen a moment ago is not looked up again, but only for that moment."""
    assert (await people.as_alice.get("/v1/runs")).status == 200
    await in_writer(ApiKey.objects.filter(user=people.alice).update, revoked_at=timezone.now())
    monkeypatch.setattr(access, "KEY_SECONDS", -1)
    assert (await people.as_alice.get("/v1/runs")).status == 401


async def test_a_key_that_expires_while_it_is_used_is_refused_at_once(people: People) -> None:
    """R3"""
    soon = timezone.now() + timedelta(hours=1)
    key = await in_writer(lambda: make_key(people.alice, expires_at=soon))
    client = Client.with_key(key)
    assert (await client.get("/v1/runs")).status == 200
    seen = access._seen_keys[digest_of(key)][1]
    seen.expires_at = timezone.now()
    assert (await client.get("/v1/runs")).status == 401


async def test_the_key_of_somebody_who_left_is_refused(people: People) -> None:
    """R3"""
    await in_writer(User.objects.filter(username="alice").update, is_active=False)
    assert (await people.as_alice.get("/v1/runs")).status == 401


async def test_a_wrong_key_is_not_covered_by_a_session(people: People) -> None:
    """R3"""
    browser = await people.in_browser(people.alice, Authorization="Bearer nonsense")
    assert (await browser.get("/v1/runs")).status == 401


# -- sessions


async def test_a_browser_session_reads(people: People) -> None:
    """R3: key or session."""
    run = await in_writer(make_run, people.alice)
    browser = await people.in_browser(people.alice)
    assert (await browser.get(f"/v1/runs/{run.public_id}")).json["run_id"] == run.public_id


async def test_a_session_that_changes_something_needs_its_csrf_token(people: People) -> None:
    """R3"""
    browser = await people.in_browser(people.alice)
    run = await in_writer(make_run, people.alice)
    for path in ("/v1/runs", f"/v1/runs/{run.public_id}/stop", "/v1/chat/completions"):
        answer = await browser.post(path, {"input": "x"})
        assert (answer.status, answer.error["type"], answer.error["code"]) == (403, "permission_error", "csrf_failed")
        assert (await browser.post(path, {"input": "x"}, X_CSRFToken="d" * 32)).status == 403
    assert await in_reader(Run.objects.filter(stop_requested_at=None).count) == 1

    assert (await browser.post("/v1/runs", {"input": "x"}, X_CSRFToken=CSRF)).status == 202


async def test_a_csrf_token_in_a_form_is_read_within_bounds(people: People) -> None:
    """R3: Django looks for the token in forms too; a huge or broken one is refused like any other body."""
    browser = await people.in_browser(people.alice)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await browser.ask("POST", "/v1/runs", b"a" * 3_000_000, headers=form)
    assert (answer.status, answer.error["code"]) == (413, "body_too_large")
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x"):
        answer = await browser.ask("POST", "/v1/runs", b"--y\r\nbroken", headers={"Content-Type": kind})
        assert answer.status in (400, 403)
        assert answer.error
    answer = await browser.ask("POST", "/v1/runs", f"csrfmiddlewaretoken={CSRF}".encode(), headers=form)
    assert answer.status == 415


async def test_a_session_from_another_site_is_refused(people: People) -> None:
    """R3: Django's check of the origin holds here too."""
    browser = await people.in_browser(people.alice, Origin="https://evil.example", X_CSRFToken=CSRF)
    assert (await browser.post("/v1/runs", {"input": "x"})).status == 403


async def test_a_key_needs_no_csrf_token_even_in_a_browser(people: People) -> None:
    """R3"""
    browser = await people.in_browser(people.alice, **people.as_alice.headers)
    assert (await browser.post("/v1/runs", {"input": "x"})).status == 202


@pytest.mark.parametrize("cookie", ["sessionid=", "sessionid=nonsense", "sessionid=\xff", "nonsense"])
async def test_a_session_that_is_none_is_a_stranger(people: People, cookie: str) -> None:
    """R3"""
    for path in ("/v1/runs", f"/v1/runs/{UNKNOWN_RUN}/events"):
        assert (await people.stranger.get(path, Cookie=cookie)).status == 401


@pytest.mark.parametrize("backend", ["ModelBackend", "AllowAllUsersModelBackend"])
async def test_the_session_of_somebody_who_left_is_a_stranger(people: People, settings: Any, backend: str) -> None:
    """R3: also where the way to sign in would let them."""
    settings.AUTHENTICATION_BACKENDS = [f"django.contrib.auth.backends.{backend}"]
    browser = await people.in_browser(people.alice)
    await in_writer(User.objects.filter(username="alice").update, is_active=False)
    assert (await browser.get("/v1/runs")).status == 401
