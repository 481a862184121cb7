"""Whatever is sent, the answer is a 4xx in the envelope that names what is wrong, and nothing is stored."""

import json
from typing import Any

import pytest
from django.conf import settings

from runs.api import orders
from runs.database import in_reader, in_writer
from runs.models import Conversation, Run
from tests.api.conftest import People
from tests.api.corpus import IDS, NOT_AN_OBJECT, USER, WRONG_FIELDS, nested
from tests.factories import finished_run


def test_the_corpus_is_not_empty() -> None:
    assert len(WRONG_FIELDS) > 100
    assert {field for field, _ in WRONG_FIELDS} > set(orders.NewRun.model_fields)


async def test_a_body_that_is_no_object_is_refused(people: People) -> None:
    """R2"""
    for body, words in NOT_AN_OBJECT:
        answer = await people.as_alice.ask("POST", "/v1/runs", body)
        assert answer.status == 400, body[:100]
        assert answer.error["code"] == "invalid_json"
        assert words in answer.error["message"], (body[:100], answer.error)
    assert await in_reader(Run.objects.count) == await in_reader(Conversation.objects.count) == 0


async def test_a_wrong_field_is_refused_by_name(people: People) -> None:
    """R2"""
    for field, body in WRONG_FIELDS:
        answer = await people.as_alice.post("/v1/runs", body)
        assert answer.status == 400, str(body)[:200]
        assert answer.error["param"] == field, (str(body)[:200], answer.error)
        assert field in answer.error["message"], answer.error
        assert answer.error["type"] == "invalid_request_error"
    assert await in_reader(Run.objects.count) == await in_reader(Conversation.objects.count) == 0


async def test_all_unknown_fields_are_named(people: People) -> None:
    """R2"""
    message = (await people.as_alice.post("/v1/runs", {"input": "x", "one": 1, "two": 2})).error["message"]
    assert "one" in message
    assert "two" in message


async def test_what_is_just_within_bounds_is_taken_and_shown_again(people: People) -> None:
    """R1: the corpus above refuses what it should, and no more."""
    bodies: list[dict[str, Any]] = [
        {"input": "x" * orders.MAX_TEXT},
        {"input": "🙂 \u2028 \x01 \x7f \ufeff \uffff e\u0301"},
        {"input": [USER] * orders.MAX_MESSAGES},
        {
            "input": "x",
            "max_steps": 2**31 - 1,
            "max_tokens": 2**31 - 1,
            "max_seconds": 1e308,
            "max_cost": "999999.999999",
        },
        {"input": "x", "max_cost": 0.000001},
        {"input": "x", "max_seconds": 1},
        {"input": "x", "metadata": {"": [None, True, -(2**63) + 1, 2**63 - 1, 1e-300, 1e15, {"ключ": "🙂"}]}},
        {"input": "x", "metadata": {"a": nested(50)}},
        {"input": "x", "metadata": {"a": "x" * (orders.MAX_METADATA_BYTES - 8)}},
    ]
    for body in bodies:
        answer = await people.as_alice.post("/v1/runs", body)
        assert answer.status == 202, (str(body)[:200], answer.body[:300])
        shown = (await people.as_alice.get(f"/v1/runs/{answer.json['run_id']}")).json
        assert shown["input"] == body["input"]
        assert shown["metadata"] == body.get("metadata", {})


async def test_a_huge_float_is_the_same_number_again(people: People) -> None:
    """R1: PostgreSQL writes 1e300 with all its zeros, which is the same number."""
    started = (await people.as_alice.post("/v1/runs", {"input": "x", "metadata": {"a": 1e300}})).json
    shown = (await people.as_alice.get(f"/v1/runs/{started['run_id']}")).json
    assert float(shown["metadata"]["a"]) == 1e300


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "x", "a/b; c"]
)
async def test_only_json_is_taken(people: People, kind: str) -> None:
    """R2"""
    run = await in_writer(finished_run, people.alice)
    for method, path in (("POST", "/v1/runs"), ("PATCH", f"/v1/conversations/{run.conversation.public_id}")):
        answer = await people.as_alice.ask(
            method, path, b'{"input": "x", "title": "x"}', headers={"Content-Type": kind}
        )
        assert (answer.status, answer.error["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/json;x=y"])
async def test_json_is_taken_however_it_is_written(people: People, kind: str) -> None:
    """R1"""
    answer = await people.as_alice.ask("POST", "/v1/runs", b'{"input": "x"}', headers={"Content-Type": kind})
    assert answer.status == 202


# -- sizes


async def test_a_body_that_says_that_it_is_too_large_is_refused(people: People) -> None:
    """R2: whether or not it is true."""
    huge = json.dumps({"input": "x" * 10_000_000}).encode()
    answer = await people.as_alice.ask("POST", "/v1/runs", huge)
    assert (answer.status, answer.error["code"]) == (413, "body_too_large")
    for length in ("9" * 30, str(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1), "-1", "x"):
        answer = await people.as_alice.ask("POST", "/v1/runs", b"{}", headers={"Content-Length": length})
        assert 400 <= answer.status < 500
        assert answer.error


async def test_a_body_in_chunks_is_held_to_the_same_limit(people: People) -> None:
    """R2: and no more of it is kept than is needed to know."""
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    answer = await people.as_alice.ask("POST", "/v1/runs", chunks=(b"x" * 2**16 for _ in range(200)))
    assert (answer.status, answer.error["code"]) == (413, "body_too_large")
    body = b'{"input": "x"}'
    exact = [body, b" " * (most - len(body))]
    assert (await people.as_alice.ask("POST", "/v1/runs", chunks=exact)).status == 202
    assert (await people.as_alice.ask("POST", "/v1/runs", chunks=[*exact, b" "])).status == 413
    in_bits = [bytes([byte]) for byte in body]
    assert (await people.as_alice.ask("POST", "/v1/runs", chunks=in_bits)).status == 202


async def test_a_stranger_is_refused_before_the_size_is(people: People) -> None:
    """R3"""
    assert (await people.stranger.ask("POST", "/v1/runs", b"x" * 10_000_000)).status == 401


# -- paths


PATHS = [
    "/v1/runs/{id}",
    "/v1/runs/{id}/events",
    "/v1/runs/{id}/messages",
    "/v1/conversations/{id}",
    "/v1/conversations/{id}/messages",
]


async def test_an_unknown_id_is_not_found_whatever_it_is_made_of(people: People) -> None:
    """R6"""
    for identity in IDS:
        for path in PATHS:
            answer = await people.as_alice.get(path.format(id=identity))
            assert (answer.status, answer.error["type"]) == (404, "invalid_request_error"), (path, identity[:50])
        answer = await people.as_alice.post(f"/v1/runs/{identity}/stop")
        assert (answer.status, answer.error["code"][-9:]) == (404, "not_found")


async def test_an_id_that_is_nearly_right_is_not_found(people: People) -> None:
    """R6"""
    run = await in_writer(finished_run, people.alice)
    for path in PATHS:
        whole = run.public_id if "/runs/" in path else run.conversation.public_id
        assert (await people.as_alice.get(path.format(id=whole))).status == 200
        for identity in (whole[:-1], whole + "0", whole.upper()):
            assert (await people.as_alice.get(path.format(id=identity))).status == 404


@pytest.mark.parametrize("path", ["/v1/", "/v1/nothing", "/v1/runs/", "/v1/runs/a/b", "/v1/RUNS", "/v1/runs/a/stop/"])
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE", "OPTIONS", "NONSENSE"])
async def test_an_unknown_path_is_not_found(people: People, method: str, path: str) -> None:
    answer = await people.as_alice.ask(method, path)
    assert (answer.status, answer.error["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/runs", "GET, HEAD, POST"),
        ("/v1/runs/run_1", "GET, HEAD, PATCH, DELETE"),
        ("/v1/runs/run_1/stop", "POST"),
        ("/v1/runs/run_1/messages", "GET, HEAD"),
        ("/v1/conversations", "GET, HEAD"),
        ("/v1/conversations/conv_1", "GET, HEAD, PATCH, DELETE"),
        ("/v1/conversations/conv_1/reset", "POST"),
        ("/v1/conversations/conv_1/restore", "POST"),
        ("/v1/pool", "GET, HEAD"),
        ("/v1/agents", "GET, HEAD"),
    ],
)
async def test_a_method_that_a_path_does_not_take_is_refused(people: People, path: str, allowed: str) -> None:
    for method in ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS", "TRACE", "NONSENSE"):
        if method not in allowed.split(", "):
            answer = await people.as_alice.ask(method, path, b"{}")
            assert answer.status == 405, method
            assert answer.headers["allow"] == allowed
            assert not answer.body if method == "HEAD" else answer.error["code"] == "method_not_allowed"


@pytest.mark.parametrize("query", ["", "?", "?%", "?%FF=%FF", "?a=b&a=b", "?" + "&".join("x=1" for _ in range(2000))])
async def test_no_query_string_breaks_a_path(people: People, query: str) -> None:
    run = await in_writer(finished_run, people.alice)
    for path in ("/v1/runs", "/v1/conversations", "/v1/agents", *(path.format(id=run.public_id) for path in PATHS)):
        answer = await people.as_alice.get(path + query)
        assert answer.status in (200, 400, 404), (path, answer.body)


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "nonsense", "*/*;q=0"])
async def test_the_answer_is_json_whatever_is_accepted(people: People, accept: str) -> None:
    assert (await people.as_alice.get("/v1/runs?format=", Accept=accept)).error["param"] == "format"
    assert (await people.as_alice.get("/v1/runs", Accept=accept)).json["data"] == []
