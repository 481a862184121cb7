"""GET /v1/runs: newest first, in pages, filtered, and only what the caller may see."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from runs import actions
from runs.database import in_writer
from runs.models import Run, Status, StopReason
from tests.api.asking import Client
from tests.api.conftest import People
from tests.factories import end_run, finished_run, make_agent, make_run, start_run


async def ids(client: Client, query: str = "") -> list[str]:
    answer = await client.get(f"/v1/runs?{query}")
    assert answer.status == 200, answer.body
    return [run["run_id"] for run in answer.json["data"]]


async def test_people_see_their_own_runs_newest_first_and_staff_see_all(people: People) -> None:
    """R12"""
    first = await in_writer(finished_run, people.alice)
    second = await in_writer(make_run, people.bob)
    third = await in_writer(make_run, people.alice)
    assert await ids(people.as_alice) == [third.public_id, first.public_id]
    assert await ids(people.as_bob) == [second.public_id]
    assert await ids(people.as_charlie) == [third.public_id, second.public_id, first.public_id]


async def test_pages_follow_one_another_whatever_comes_meanwhile(people: People) -> None:
    """R12"""
    runs = [await in_writer(make_run, people.alice, str(number)) for number in range(7)]
    expected = [run.public_id for run in reversed(runs)]
    seen: list[str] = []
    query = "limit=3"
    for size in (3, 3, 1):
        page = (await people.as_alice.get(f"/v1/runs?{query}")).json
        assert len(page["data"]) == size
        seen += [run["run_id"] for run in page["data"]]
        await in_writer(make_run, people.alice, "newer")
        query = f"limit=3&cursor={page['next_cursor']}"
    assert page["next_cursor"] is None
    assert seen == expected


async def test_a_page_that_ends_with_the_last_run_is_the_last(people: People) -> None:
    """R12"""
    for number in range(4):
        await in_writer(make_run, people.alice, str(number))
    page = (await people.as_alice.get("/v1/runs?limit=2")).json
    page = (await people.as_alice.get(f"/v1/runs?limit=2&cursor={page['next_cursor']}")).json
    assert (len(page["data"]), page["next_cursor"]) == (2, None)


async def test_a_page_holds_twenty_unless_told(people: People) -> None:
    """R12"""

    def make_many() -> None:
        for _ in range(21):
            make_run(people.alice)

    await in_writer(make_many)
    page = (await people.as_alice.get("/v1/runs")).json
    assert len(page["data"]) == 20
    assert page["next_cursor"]
    assert len((await people.as_alice.get("/v1/runs?limit=100")).json["data"]) == 21


async def test_a_cursor_works_only_for_its_list_and_its_caller(people: People) -> None:
    """R12"""
    for _ in range(2):
        await in_writer(make_run, people.alice)
    runs = (await people.as_alice.get("/v1/runs?limit=1")).json["next_cursor"]
    conversations = (await people.as_alice.get("/v1/conversations?limit=1")).json["next_cursor"]
    assert runs
    assert conversations
    for client, path in (
        (people.as_alice, f"/v1/conversations?cursor={runs}"),
        (people.as_alice, f"/v1/runs?cursor={conversations}"),
        (people.as_bob, f"/v1/runs?cursor={runs}"),
        (people.as_alice, f"/v1/runs?cursor={runs[:-1]}"),
    ):
        answer = await client.get(path)
        assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "invalid_cursor", "cursor")


@pytest.mark.parametrize("cursor", ["-1", "0", "5", "x", "%00", "%FF", "MTIz", "a" * 200, "%F0%9F%99%82", ":", "W10"])
async def test_a_made_up_cursor_is_refused(people: People, cursor: str) -> None:
    """R12"""
    for path in ("/v1/runs", "/v1/conversations", "/v1/agents"):
        answer = await people.as_alice.get(f"{path}?cursor={cursor}")
        assert (answer.status, answer.error["param"]) == (400, "cursor")


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=101", "limit"),
        ("limit=1.5", "limit"),
        ("limit=x", "limit"),
        ("limit=" + "9" * 100, "limit"),
        ("limit=%D9%A3", "limit"),
        ("status=nonsense", "status"),
        ("status=COMPLETED", "status"),
        ("stop_reason=nonsense", "stop_reason"),
        ("status=queued&status=running", "status"),
        ("created_after=yesterday", "created_after"),
        ("created_after=2024-13-01", "created_after"),
        ("created_after=2024-02-30T00:00:00Z", "created_after"),
        ("created_after=0001-01-01T00:00:00%2B14:00", "created_after"),
        ("created_after=99999-01-01", "created_after"),
        ("q=%00", "q"),
        ("agent=%00", "agent"),
        ("conversation=a%00b", "conversation"),
        ("q=" + "x" * 201, "q"),
        ("stauts=queued", "stauts"),
        ("%00=1", "\\x00"),
    ],
)
async def test_a_bad_parameter_is_refused_by_name(people: People, query: str, param: str) -> None:
    """R12"""
    answer = await people.as_alice.get(f"/v1/runs?{query}")
    assert (answer.status, answer.error["param"]) == (400, param)


async def test_a_parameter_without_a_value_filters_nothing(people: People) -> None:
    """R12"""
    run = await in_writer(make_run, people.alice)
    query = "agent=&conversation=&status=&stop_reason=&q=&created_after=&limit=&cursor="
    assert await ids(people.as_alice, query) == [run.public_id]


async def test_runs_are_filtered_by_agent_and_conversation(people: People) -> None:
    """R12"""
    await in_writer(make_agent, "other")
    one = await in_writer(make_run, people.alice)
    two = await in_writer(lambda: make_run(people.alice, agent_slug="other"))
    assert await ids(people.as_alice, "agent=other") == [two.public_id]
    assert await ids(people.as_alice, "agent=nobody") == []
    assert await ids(people.as_alice, f"conversation={one.conversation.public_id}") == [one.public_id]
    assert await ids(people.as_bob, f"conversation={one.conversation.public_id}") == []


async def test_runs_are_filtered_by_status_as_it_is_shown(people: People) -> None:
    """R12"""

    def one_of_each() -> dict[str, str]:
        completed = finished_run(people.alice)
        failed = end_run(start_run(make_run(people.alice)), status=Status.FAILED, stop_reason=StopReason.ERROR)
        cancelled = actions.request_stop(make_run(people.alice).pk, by="alice", via="api")
        stopping = actions.request_stop(start_run(make_run(people.alice)).pk, by="alice", via="api")
        waiting = start_run(make_run(people.alice))
        Run.objects.filter(pk=waiting.pk).update(status=Status.REQUIRES_APPROVAL)
        running = start_run(make_run(people.alice))
        queued = make_run(people.alice)
        named = {
            "completed": completed,
            "failed": failed,
            "cancelled": cancelled,
            "stopping": stopping,
            "requires_approval": waiting,
            "running": running,
            "queued": queued,
        }
        return {status: run.public_id for status, run in named.items()}

    for status, run_id in (await in_writer(one_of_each)).items():
        assert await ids(people.as_alice, f"status={status}") == [run_id]
        assert (await people.as_alice.get(f"/v1/runs/{run_id}")).json["status"] == status


async def test_runs_are_filtered_by_stop_reason(people: People) -> None:
    """R12"""
    await in_writer(finished_run, people.alice)
    limited = await in_writer(lambda: end_run(start_run(make_run(people.alice)), stop_reason=StopReason.MAX_STEPS))
    assert await ids(people.as_alice, "stop_reason=max_steps") == [limited.public_id]
    assert await ids(people.as_alice, "stop_reason=max_steps&status=failed") == []


async def test_words_are_found_in_input_and_output(people: People) -> None:
    """R12"""
    asked = await in_writer(lambda: end_run(start_run(make_run(people.alice, "Why is the Sky blue?")), "Scattering."))
    told = await in_writer(lambda: end_run(start_run(make_run(people.alice, "Tell me more")), "The sky is 100% blue."))
    assert await ids(people.as_alice, "q=sky") == [told.public_id, asked.public_id]
    assert await ids(people.as_alice, "q=scattering") == [asked.public_id]
    assert await ids(people.as_alice, "q=100%25") == [told.public_id]
    assert await ids(people.as_alice, "q=%25") == [told.public_id], "a percent sign is a percent sign"
    assert await ids(people.as_alice, "q=%27%22%5C_") == []
    assert await ids(people.as_bob, "q=sky") == []


async def test_runs_are_filtered_by_time(people: People) -> None:
    """R12: a moment with any offset, a date is its midnight."""
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)

    def make_two() -> tuple[str, str]:
        early, late = make_run(people.alice, "early"), make_run(people.alice, "late")
        Run.objects.filter(pk=early.pk).update(queued_at=noon - timedelta(hours=1))
        Run.objects.filter(pk=late.pk).update(queued_at=noon + timedelta(hours=1))
        return early.public_id, late.public_id

    early, late = await in_writer(make_two)
    for moment, expected in {
        "2024-05-01T12:00:00Z": [late],
        "2024-05-01T14:00:00+02:00": [late],
        "2024-05-01 12:00": [late],
        "2024-05-01T13:00:00Z": [],
        "2024-05-01T12:59:59.999999Z": [late],
        "2024-05-01": [late, early],
        "2024-05-02": [],
        "0001-01-01": [late, early],
        "9999-12-31": [],
    }.items():
        assert await ids(people.as_alice, f"created_after={quote(moment)}") == expected, moment
    assert await ids(people.as_alice, "created_after=2024-05-01T14:00:00+02:00") == [late], "a plus that is not escaped"


async def test_a_moment_without_an_offset_is_in_the_sites_time_zone(people: People, settings: Any) -> None:
    """R12"""
    settings.TIME_ZONE = "Asia/Tokyo"
    run = await in_writer(make_run, people.alice)
    await in_writer(Run.objects.filter(pk=run.pk).update, queued_at=datetime(2024, 5, 1, 12, tzinfo=UTC))
    assert await ids(people.as_alice, "created_after=2024-05-01T20:59") == [run.public_id]
    assert await ids(people.as_alice, "created_after=2024-05-01T21:01") == []
