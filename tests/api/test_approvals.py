"""POST /v1/runs/{id}/approvals and GET /v1/approvals, as far as they go without a worker."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from channels.layers import get_channel_layer
from django.db import connection
from django.test import Client as DjangoClient
from django.test.utils import CaptureQueriesContext

from runs import actions, bell
from runs.database import in_reader, in_writer
from runs.models import Approval, Run, Status
from tests.api.asking import Answer, Client
from tests.api.conftest import CSRF, People, make_people
from tests.factories import finished_run, make_key, make_run, start_run, waiting_run

LETTER = {"to": "ada@example.com", "subject": "Hello", "body": "Dear Ada"}


async def decide(client: Client, run: Run, *decisions: Any, **headers: str) -> Answer:
    return await client.post(f"/v1/runs/{run.public_id}/approvals", {"decisions": list(decisions)}, **headers)


def yes(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"tool_call_id": call_id, "approve": True, **fields}


def no(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"tool_call_id": call_id, "approve": False, **fields}


async def statuses(run: Run) -> list[str]:
    return await in_reader(lambda: list(run.approvals.order_by("pk").values_list("status", flat=True)))


async def test_a_run_goes_on_when_the_last_call_is_decided(people: People) -> None:
    """R14: 202, and the worker is rung for with the last one."""
    run = await in_writer(waiting_run, people.alice, "a", "b")
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(bell.WORKERS, channel)
    answer = await decide(people.as_alice, run, no("a", reason="No."))
    expected = {"run_id": run.public_id, "status": "requires_approval", "pending": 1}
    assert (answer.status, answer.json) == (202, expected)
    answer = await decide(people.as_charlie, run, yes("b", arguments={**LETTER, "to": "eve@example.com"}))
    assert (answer.status, answer.json) == (202, {**expected, "status": "queued", "pending": 0})
    async with asyncio.timeout(5):
        assert await layer.receive(channel) == {"type": "work", "run": run.pk, "worker": ""}
    claims = await in_writer(actions.claim_runs, "worker", 10)
    assert [claim.run.pk for claim in claims] == [run.pk]


async def test_a_run_that_waits_shows_what_for(people: People) -> None:
    """R11, R14."""
    run = await in_writer(waiting_run, people.alice, "a", "b")
    shown = (await people.as_alice.get(f"/v1/runs/{run.public_id}")).json
    assert shown["status"] == "requires_approval"
    assert [approval["tool_call_id"] for approval in shown["pending_approvals"]] == ["a", "b"]
    approval = shown["pending_approvals"][0]
    assert (approval["arguments"], approval["why"], approval["status"]) == (LETTER, "May I?", "pending")
    assert approval["schema"]["required"] == ["to", "subject", "body"]
    assert (approval["agent"], approval["owner"], approval["run_id"]) == ("agent", "alice", run.public_id)
    assert (approval["edited_arguments"], approval["decided_by"], approval["decided_at"]) == (None, "", None)
    waits = datetime.fromisoformat(approval["expires_at"]) - datetime.fromisoformat(approval["requested_at"])
    assert (waits, approval["on_expiry"]) == (timedelta(hours=168), "deny")
    await decide(people.as_alice, run, yes("a"))
    listed = (await people.as_alice.get("/v1/runs?status=requires_approval")).json["data"]
    assert [approval["tool_call_id"] for approval in listed[0]["pending_approvals"]] == ["b"]
    await decide(people.as_alice, run, yes("b"))
    assert (await people.as_alice.get(f"/v1/runs/{run.public_id}")).json["pending_approvals"] == []


async def test_a_second_decision_is_told_who_decided_what(people: People) -> None:
    """R14: and the run's state is untouched."""
    run = await in_writer(waiting_run, people.alice, "a", "b")
    await decide(people.as_charlie, run, no("a"))
    answer = await decide(people.as_alice, run, yes("a"), yes("b"))
    assert (answer.status, answer.error["code"]) == (409, "already_decided")
    assert "send_email (a) is decided already: charlie denied it" in answer.error["message"]
    assert await statuses(run) == ["denied", "pending"]
    await decide(people.as_alice, run, yes("b"))
    answer = await decide(people.as_charlie, run, no("b"))
    assert (answer.status, answer.error["code"]) == (409, "already_decided")
    assert "alice approved it" in answer.error["message"]
    assert (await in_reader(Run.objects.get, pk=run.pk)).status == Status.QUEUED


async def test_a_run_that_waits_for_nobody_takes_no_decision(people: People) -> None:
    """R14, C7."""
    waiting = await in_writer(make_run, people.alice)
    running = await in_writer(lambda: start_run(make_run(people.bob)))
    finished = await in_writer(finished_run, people.charlie)
    stopped = await in_writer(waiting_run, people.alice, "a", conversation_id=None)
    await people.as_alice.post(f"/v1/runs/{stopped.public_id}/stop")
    for run in (waiting, running, finished, stopped):
        answer = await decide(people.as_charlie, run, yes("a"))
        assert (answer.status, answer.error["code"]) == (409, "not_awaiting_approval")
    assert await statuses(stopped) == ["stopped"]


@pytest.mark.parametrize(
    ("decisions", "param"),
    [
        ([yes("b")], "decisions.0.tool_call_id"),
        ([yes("a"), yes("b")], "decisions.1.tool_call_id"),
        ([yes("a"), no("a")], "decisions.1.tool_call_id"),
        ([yes("a", arguments={})], "decisions.0.arguments"),
        ([yes("a", arguments={**LETTER, "to": 1})], "decisions.0.arguments.to"),
        ([yes("a", arguments={**LETTER, "extra": 1})], "decisions.0.arguments"),
        ([no("a", arguments=LETTER)], "decisions.0.arguments"),
        ([yes("a", arguments=[])], "decisions"),
        ([yes("a", arguments="x")], "decisions"),
        ([yes("a", reason=1)], "decisions"),
        ([yes("a", reason="x" * 5000)], "decisions"),
        ([yes("a", reason="nul \0")], "decisions"),
        ([yes("a", extra=1)], "decisions"),
        ([{"tool_call_id": "a"}], "decisions"),
        ([{"tool_call_id": "a", "approve": "yes"}], "decisions"),
        ([{"approve": True}], "decisions"),
        (["a"], "decisions"),
        ([], "decisions"),
    ],
)
async def test_what_is_wrong_is_named_and_everything_waits_on(people: People, decisions: list[Any], param: str) -> None:
    """R14, R2."""
    run = await in_writer(waiting_run, people.alice, "a")
    answer = await decide(people.as_alice, run, *decisions)
    assert (answer.status, answer.error["param"]) == (400, param)
    assert await statuses(run) == ["pending"]
    shown = (await people.as_alice.get(f"/v1/runs/{run.public_id}")).json
    assert (shown["status"], len(shown["pending_approvals"])) == ("requires_approval", 1)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"decisions": {}}', b'{"decision": []}', b"nonsense"])
async def test_a_body_must_hold_decisions(people: People, body: bytes) -> None:
    """R2."""
    run = await in_writer(waiting_run, people.alice, "a")
    path = f"/v1/runs/{run.public_id}/approvals"
    answer = await people.as_alice.ask("POST", path, body, headers={"Content-Type": "application/json"})
    assert answer.status == 400
    assert await statuses(run) == ["pending"]


async def test_nobody_else_sees_or_decides(people: People) -> None:
    """R3, R6, R14: somebody else's approvals look like none at all."""
    run = await in_writer(waiting_run, people.alice, "a")
    for client, status in ((people.as_bob, 404), (people.stranger, 401)):
        assert (await decide(client, run, yes("a"))).status == status
    unknown = await people.as_bob.post("/v1/runs/run_0/approvals", {"decisions": [yes("a")]})
    assert unknown.status == 404
    assert (await people.as_bob.get("/v1/approvals")).json == {
        "data": [],
        "next_cursor": None,
        "counts": {"pending": 0},
    }
    assert (await people.stranger.get("/v1/approvals")).status == 401
    assert await statuses(run) == ["pending"]
    for client in (people.as_alice, people.as_charlie):
        assert (await client.get("/v1/approvals?status=pending")).json["counts"] == {"pending": 1}


async def test_a_decision_in_a_browser_needs_its_token_and_says_where_it_came_from(people: People) -> None:
    """R14."""
    run = await in_writer(waiting_run, people.alice, "a")
    browser = await people.in_browser(people.alice)
    assert (await decide(browser, run, yes("a"))).error["code"] == "csrf_failed"
    assert (await decide(browser, run, yes("a"), X_CSRFToken=CSRF)).status == 202
    approval = await in_reader(Approval.objects.get)
    assert (approval.decided_by, approval.decided_via) == ("alice", "console")


async def test_the_list_has_filters_pages_and_counts(people: People) -> None:
    """R14."""
    runs = [await in_writer(waiting_run, people.alice, "a", "b") for _ in range(3)]
    await in_writer(waiting_run, people.bob, "c")
    await decide(people.as_alice, runs[0], yes("a"), no("b", reason="No."))
    await people.as_alice.post(f"/v1/runs/{runs[1].public_id}/stop")

    async def listed(client: Client, query: str) -> list[tuple[str, str]]:
        answer = (await client.get(f"/v1/approvals?{query}")).json
        return [(approval["run_id"], approval["tool_call_id"]) for approval in answer["data"]]

    first, second, third = (run.public_id for run in runs)
    everything = [(run_id, call_id) for run_id in (third, second, first) for call_id in ("b", "a")]
    assert await listed(people.as_alice, "") == everything
    assert await listed(people.as_alice, "status=pending") == [(third, "b"), (third, "a")]
    assert await listed(people.as_alice, "status=approved") == [(first, "a")]
    assert await listed(people.as_alice, "status=denied") == [(first, "b")]
    assert await listed(people.as_alice, "status=stopped") == [(second, "b"), (second, "a")]
    assert await listed(people.as_alice, "status=expired") == []
    assert len(await listed(people.as_charlie, "")) == 7
    page = (await people.as_alice.get("/v1/approvals?limit=4")).json
    rest = (await people.as_alice.get(f"/v1/approvals?limit=4&cursor={page['next_cursor']}")).json
    pages = [(each["run_id"], each["tool_call_id"]) for each in [*page["data"], *rest["data"]]]
    assert (pages, rest["next_cursor"], page["counts"]) == (everything, None, {"pending": 2})
    for query, param in (("status=nonsense", "status"), ("state=pending", "state"), ("limit=0", "limit")):
        answer = await people.as_alice.get(f"/v1/approvals?{query}")
        assert (answer.status, answer.error["param"]) == (400, param)


async def test_watchers_of_a_stream_see_the_decision_and_the_stop(people: People) -> None:
    """C7, T5."""
    run = await in_writer(waiting_run, people.alice, "a", "b")
    await decide(people.as_alice, run, no("a"))
    await people.as_alice.post(f"/v1/runs/{run.public_id}/stop")
    seen = await people.as_alice.events(f"/v1/runs/{run.public_id}/events")
    assert [event["type"] for event in seen][2:] == [
        *("approval.requested", "approval.requested"),
        *("approval.decided", "tool.completed"),
        *("approval.decided", "tool.completed"),
        "run.cancelled",
    ]


@pytest.mark.django_db
def test_lists_cost_the_same_for_one_waiting_run_and_for_ten(client: DjangoClient) -> None:
    people = make_people()
    headers = {"Authorization": f"Bearer {make_key(people.alice)}"}

    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(path, headers=headers).status_code == 200
        return len(captured)

    waiting_run(people.alice, "a", "b")
    few = [queries(path) for path in ("/v1/runs", "/v1/approvals")]
    for _ in range(9):
        waiting_run(people.alice, "a", "b")
    assert [queries(path) for path in ("/v1/runs", "/v1/approvals")] <= few
