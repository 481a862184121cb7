"""GET /v1/runs/{id}: one run."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test import Client as DjangoClient
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from runs import access, actions
from runs.actions import Usage
from runs.database import in_writer
from runs.models import Run, Status, StopReason
from tests.api.conftest import People, make_people
from tests.factories import end_run, finished_run, make_run, start_run


async def test_a_finished_run_shows_what_came_of_it(people: People) -> None:
    """R11"""
    first_token_at = timezone.now()

    def finish() -> Run:
        run = start_run(make_run(people.alice, "question", metadata={"a": [1]}, max_steps=4))
        usage = Usage(2, 30, 12, Decimal("0.00042"), first_token_at=first_token_at)
        return end_run(run, "answer", usage)

    run = await in_writer(finish)
    shown = (await people.as_alice.get(f"/v1/runs/{run.public_id}")).json

    assert shown["run_id"] == run.public_id
    assert (shown["status"], shown["stop_reason"]) == ("completed", "end_turn")
    assert (shown["input"], shown["output"]) == ("question", "answer")
    assert shown["usage"] == {
        "prompt_tokens": 30,
        "completion_tokens": 12,
        "total_tokens": 42,
        "cost": "0.00042000",
        "estimated": False,
    }
    assert shown["error"] is None
    assert (shown["agent"], shown["agent_version"], shown["owner"]) == ("agent", 1, "alice")
    assert shown["conversation_id"] == run.conversation.public_id
    assert (shown["metadata"], shown["steps"], shown["attempt"]) == ({"a": [1]}, 2, 1)
    assert shown["limits"] == {"max_steps": 4, "max_seconds": 900.0, "max_tokens": None, "max_cost": None}
    assert shown["receipt"] is shown["stop_requested_at"] is None
    timings = {name: datetime.fromisoformat(text) for name, text in shown["timings"].items()}
    assert list(timings) == ["queued_at", "started_at", "first_token_at", "ended_at"]
    assert timings["first_token_at"] == first_token_at
    assert timings["queued_at"] <= timings["started_at"] <= timings["ended_at"]


async def test_a_run_that_waits_has_neither_end_nor_reason(people: People) -> None:
    """R11"""
    run = await in_writer(make_run, people.alice)
    shown = (await people.as_alice.get(f"/v1/runs/{run.public_id}")).json
    assert (shown["status"], shown["stop_reason"], shown["output"]) == ("queued", None, "")
    assert shown["timings"]["started_at"] is shown["timings"]["first_token_at"] is shown["timings"]["ended_at"] is None
    assert shown["usage"]["cost"] is None


async def test_a_run_that_was_told_to_stop_is_stopping(people: People) -> None:
    """R11, R7"""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    assert (await people.as_alice.get(f"/v1/runs/{run.public_id}")).json["status"] == "running"
    await people.as_alice.post(f"/v1/runs/{run.public_id}/stop")
    shown = (await people.as_alice.get(f"/v1/runs/{run.public_id}")).json
    assert (shown["status"], shown["stop_reason"]) == ("stopping", None)
    assert shown["stop_requested_at"] is not None


async def test_a_stopped_run_shows_its_receipt(people: People) -> None:
    """R11, C2"""
    run = await in_writer(make_run, people.alice)
    await people.as_alice.post(f"/v1/runs/{run.public_id}/stop")
    shown = (await people.as_alice.get(f"/v1/runs/{run.public_id}")).json
    assert (shown["status"], shown["stop_reason"]) == ("cancelled", "cancelled")
    assert (shown["receipt"]["requested_by"], shown["receipt"]["requested_via"]) == ("alice", "api")


async def test_input_is_shown_as_it_was_sent(people: People) -> None:
    """R11"""
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]
    inputs: list[Any] = [
        "  a text with spaces ",
        [{"role": "user", "content": parts}],
        [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
    ]
    for sent in inputs:
        started = (await people.as_alice.post("/v1/runs", {"input": sent})).json
        assert (await people.as_alice.get(f"/v1/runs/{started['run_id']}")).json["input"] == sent


@pytest.mark.parametrize(
    ("error_type", "alices", "charlies"), [("internal_error", "", "Traceback"), ("llm_error", "Traceback", "Traceback")]
)
async def test_only_staff_see_the_detail_of_an_unexpected_error(
    people: People, error_type: str, alices: str, charlies: str
) -> None:
    """R11, E1"""
    error = {"error_type": error_type, "message": "It broke.", "detail": "Traceback"}

    def fail() -> Run:
        run = start_run(make_run(people.alice))
        return end_run(run, "", status=Status.FAILED, stop_reason=StopReason.ERROR, error=error)

    run = await in_writer(fail)
    for client, detail in ((people.as_alice, alices), (people.as_charlie, charlies)):
        one = (await client.get(f"/v1/runs/{run.public_id}")).json
        listed = (await client.get("/v1/runs")).json["data"][0]
        assert one == listed
        assert (one["status"], one["stop_reason"]) == ("failed", "error")
        assert one["error"] == {"error_type": error_type, "message": "It broke.", "detail": detail}


async def test_other_peoples_runs_do_not_exist(people: People) -> None:
    """R6"""
    run = await in_writer(finished_run, people.alice)
    others = await people.as_bob.get(f"/v1/runs/{run.public_id}")
    unknown = await people.as_bob.get("/v1/runs/run_" + "0" * 24)
    assert (others.status, others.error["code"]) == (unknown.status, unknown.error["code"]) == (404, "run_not_found")
    assert (await people.as_charlie.get(f"/v1/runs/{run.public_id}")).json["owner"] == "alice"


async def test_what_a_model_left_behind_is_shown_whatever_it_is(people: People) -> None:
    """R11: a number past 64 bits in a receipt must not break the answer."""
    run = await in_writer(finished_run, people.alice)
    await in_writer(Run.objects.filter(pk=run.pk).update, receipt={"huge": 2**70})
    answer = await people.as_alice.get(f"/v1/runs/{run.public_id}")
    assert json.loads(answer.body)["receipt"] == {"huge": 2**70}


async def test_nobody_in_between_may_keep_an_answer(people: People) -> None:
    run = await in_writer(finished_run, people.alice)
    assert (await people.as_alice.get(f"/v1/runs/{run.public_id}")).headers["cache-control"] == "no-store"


def test_a_call_makes_few_queries(transactional_db: None) -> None:
    """The hot path stays short: the key, then the work."""
    people = make_people()
    client = DjangoClient(headers=people.as_alice.headers)

    def count(path: str, body: object = None) -> int:
        access.forget_keys()  # at its worst, when the key was not seen a moment ago
        with CaptureQueriesContext(connection) as queries:
            answer = client.get(path) if body is None else client.post(path, body, "application/json")
        assert answer.status_code in (200, 202)
        return sum(query["sql"].split()[0] in ("SELECT", "INSERT", "UPDATE") for query in queries.captured_queries)

    run_id = client.post("/v1/runs", data={"input": "x"}, content_type="application/json").json()["run_id"]
    assert count("/v1/runs", {"input": "x"}) == 5
    assert count(f"/v1/runs/{run_id}") == 2
    assert count("/v1/runs") == 2
    actions.claim_runs("worker", 10)
    assert count(f"/v1/runs/{run_id}/stop", {}) == 4
