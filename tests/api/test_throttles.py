"""So many calls a minute, for each key and for each person without one."""

from typing import Any

import pytest
from django.core.cache import cache

from runs.database import in_reader
from tests.api.conftest import People


@pytest.fixture
def few_calls(settings: Any) -> None:
    settings.AGENTSITE = {**settings.AGENTSITE, "CALLS_PER_MINUTE": 3}


async def test_each_key_has_its_calls_a_minute(
    people: People, few_calls: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 60_000_000.0 + 12.5
    monkeypatch.setattr("time.time", lambda: now)
    for _ in range(3):
        assert (await people.as_alice.get("/v1/runs")).status == 200
    for path in ("/v1/runs", "/v1/runs/run_1/events", "/v1/agents"):
        answer = await people.as_alice.get(path)
        assert (answer.status, answer.error["type"]) == (429, "rate_limit_error")
        assert answer.error["code"] == "rate_limit_exceeded"
        assert answer.headers["retry-after"] == "48", "what is left of the minute, rounded up"
    assert (await people.as_bob.get("/v1/runs")).status == 200
    now += 47.5
    assert (await people.as_alice.get("/v1/runs")).status == 200


async def test_a_person_without_a_key_is_counted_too(people: People, few_calls: None) -> None:
    browser = await people.in_browser(people.alice)
    statuses = [(await browser.get("/v1/runs")).status for _ in range(7)]
    assert statuses.count(429) >= 1
    assert (await people.as_alice.get("/v1/runs")).status == 200, "the key has its own"


async def test_strangers_are_not_counted(people: People, few_calls: None) -> None:
    assert {(await people.stranger.get("/v1/runs")).status for _ in range(5)} == {401}


async def test_the_count_survives_a_cache_that_forgets(people: People, few_calls: None) -> None:
    """A counter that is evicted between two calls begins anew instead of failing the call."""
    assert (await people.as_alice.get("/v1/runs")).status == 200
    await in_reader(cache.clear)
    assert (await people.as_alice.get("/v1/runs")).status == 200
