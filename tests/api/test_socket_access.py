"""Who may open a websocket: whoever may read the same over HTTP, and browsers only from pages of this site."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from runs import access
from runs.actions import delete_conversation
from runs.api import admission
from runs.database import in_writer
from runs.models import ApiKey
from tests.api.asking import closed_with, is_refused
from tests.api.conftest import People
from tests.factories import finished_run

OWN_PAGE = "http://localhost"


def numbers(seen: list[dict[str, Any]]) -> list[int]:
    return [event["seq"] for event in seen]


@pytest.mark.parametrize("path", ["/ws/runs/{run}/", "/ws/conversations/{conversation}/"])
async def test_strangers_are_refused_before_the_socket_opens(people: People, path: str) -> None:
    """R3: the same for what exists and what does not."""
    run = await in_writer(finished_run, people.alice)
    real = path.format(run=run.public_id, conversation=run.conversation.public_id)
    for place in (real, path.format(run="run_0", conversation="conv_0"), real + "?starting_after=x&after=x"):
        assert await is_refused(people.stranger, place)
        assert await is_refused(people.stranger, place, Origin=OWN_PAGE)
        assert await is_refused(people.stranger, place, Authorization="Bearer nonsense")
        assert await is_refused(people.stranger, place, Cookie="sessionid=nonsense", Origin=OWN_PAGE)


async def test_other_peoples_sockets_do_not_exist(people: People) -> None:
    """R6"""
    run = await in_writer(finished_run, people.alice)
    for identity in (run.public_id, "run_" + "0" * 24, "x", "nul\0", "run_ü"):
        assert await closed_with(people.as_bob, f"/ws/runs/{identity}/") == 4404
    for identity in (run.conversation.public_id, "conv_0", "x"):
        assert await closed_with(people.as_bob, f"/ws/conversations/{identity}/") == 4404


async def test_staff_watch_anybodys_run(people: People) -> None:
    run = await in_writer(finished_run, people.alice)
    async with people.as_charlie.socket(f"/ws/runs/{run.public_id}/") as socket:
        assert numbers((await socket.rest())[0]) == [1, 2, 3, 4, 5, 6]


async def test_a_browser_on_a_page_of_this_site_watches(people: People) -> None:
    run = await in_writer(finished_run, people.alice)
    browser = await people.in_browser(people.alice)
    async with browser.socket(f"/ws/runs/{run.public_id}/", Origin=OWN_PAGE) as socket:
        assert numbers((await socket.rest())[0]) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "https://evil.example",
        "http://localhost:3000",
        "http://localhost.evil.example",
        "localhost",
        "http://[",
        "file://",
    ],
)
async def test_a_browser_on_another_sites_page_is_refused(people: People, origin: str) -> None:
    """Another port of the same host is another site: its pages get this site's cookies as well."""
    run = await in_writer(finished_run, people.alice)
    browser = await people.in_browser(people.alice)
    assert await is_refused(browser, f"/ws/runs/{run.public_id}/", Origin=origin)
    assert await is_refused(browser, f"/ws/runs/{run.public_id}/")


async def test_a_trusted_origin_is_let_in(people: People, settings: Any) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://console.example"]
    run = await in_writer(finished_run, people.alice)
    browser = await people.in_browser(people.alice)
    async with browser.socket(f"/ws/runs/{run.public_id}/", Origin="https://console.example") as socket:
        assert socket.opening["type"] == "websocket.accept"


async def test_a_key_needs_no_origin_and_minds_none(people: People) -> None:
    run = await in_writer(finished_run, people.alice)
    for headers in ({}, {"Origin": "https://anywhere.example"}):
        async with people.as_alice.socket(f"/ws/runs/{run.public_id}/", **headers) as socket:
            assert socket.opening["type"] == "websocket.accept"


async def test_an_unknown_host_is_refused(people: People) -> None:
    run = await in_writer(finished_run, people.alice)
    assert await is_refused(people.as_alice, f"/ws/runs/{run.public_id}/", Host="evil.example")


async def test_somebody_who_left_is_refused(people: People) -> None:
    run = await in_writer(finished_run, people.alice)
    browser = await people.in_browser(people.alice)
    await in_writer(User.objects.filter(username="alice").update, is_active=False)
    assert await is_refused(people.as_alice, f"/ws/runs/{run.public_id}/")
    assert await is_refused(browser, f"/ws/runs/{run.public_id}/", Origin=OWN_PAGE)


async def test_too_many_calls_close_the_socket(people: People, settings: Any) -> None:
    settings.AGENTSITE = {**settings.AGENTSITE, "CALLS_PER_MINUTE": 1}
    await people.as_alice.get("/v1/runs")
    await people.as_alice.get("/v1/runs")
    assert await closed_with(people.as_alice, "/ws/runs/run_1/") == 4429


@pytest.mark.parametrize("path", ["/ws/conversations/{}/", "/ws/console/{}/"])
@pytest.mark.parametrize(
    ("event", "code"), [("switched off", 4401), ("revoked", 4401), ("deleted", 4404), ("no longer staff", 4404)]
)
async def test_a_socket_ends_for_whoever_may_not_watch_any_more(
    people: People, monkeypatch: pytest.MonkeyPatch, path: str, event: str, code: int
) -> None:
    """R3, R6: a page may stay open for days."""
    monkeypatch.setattr(admission, "LOOK_SECONDS", 0.05)
    run = await in_writer(finished_run, people.alice)
    client = people.as_charlie if event == "no longer staff" else people.as_alice

    def happen() -> None:
        match event:
            case "switched off":
                User.objects.filter(username="alice").update(is_active=False)
            case "revoked":
                ApiKey.objects.update(revoked_at=timezone.now())
            case "deleted":
                delete_conversation(run.conversation, by="alice", via="api")
            case "no longer staff":
                User.objects.filter(username="charlie").update(is_staff=False)
        access.forget_keys()

    async with client.socket(path.format(run.conversation.public_id)) as socket:
        assert socket.opening["type"] == "websocket.accept"
        await in_writer(happen)
        assert (await socket.rest())[1] == code
