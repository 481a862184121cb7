"""The document at /v1/schema says what the server does: every route, every answer, every body."""

import json
import re
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import URLPattern
from jsonschema import Draft202012Validator

from runs.api.schema import document
from runs.api.urls import urlpatterns
from runs.database import in_writer
from runs.models import Message, Run, Status, StopReason
from tests.api.asking import Answer
from tests.api.conftest import People
from tests.api.corpus import WRONG_FIELDS
from tests.factories import end_run, finished_run, make_run, start_run, waiting_run

# What only words can say of a body, and no JSON schema.
BEYOND_A_SCHEMA = (
    "the last message must be",
    "characters of text",
    "at most 16384 bytes",
    "above 0",
    "NUL",
    "surrogate",
)


@pytest.fixture(scope="module")
def schema() -> Iterator[dict[str, Any]]:
    document.cache_clear()
    yield json.loads(document())
    document.cache_clear()


def validator(schema: dict[str, Any], part: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**part, "components": schema["components"]})


def check(schema: dict[str, Any], method: str, path: str, answer: Answer) -> None:
    """An answer is one that the document knows, and looks as it says."""
    responses = schema["paths"][path][method]["responses"]
    assert str(answer.status) in responses, f"{method} {path} answers {answer.status}: {answer.body!r}"
    content = responses[str(answer.status)]["content"]
    assert answer.headers["content-type"] in content
    if answer.headers["content-type"] == "application/json":
        validator(schema, content["application/json"]["schema"]).validate(answer.json)


def test_the_document_is_valid_and_without_warnings() -> None:
    call_command("spectacular", validate=True, fail_on_warn=True, stdout=StringIO())


async def test_the_document_and_its_page_are_public_and_need_no_other_host(people: People) -> None:
    answer = await people.stranger.get("/v1/schema")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json["openapi"].startswith("3.1")
    page = await people.stranger.get("/v1/docs")
    assert page.status == 200
    html = page.body.decode()
    script = await people.stranger.get("/v1/docs?script=")
    assert (script.status, "/v1/schema" in script.body.decode()) == (200, True)
    assert "/static/drf_spectacular_sidecar/" in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert "https://" not in html
    sources = re.findall(r'(?:src|href)="([^"]+)"', html)
    assert len(sources) >= 3
    for source in sources:
        assert (await people.stranger.get(source)).status == 200, source
    for path in ("/v1/schema", "/v1/docs"):
        answer = await people.stranger.ask("POST", path)
        assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")


def test_every_route_is_described(schema: dict[str, Any]) -> None:
    routes = {str(pattern.pattern) for pattern in urlpatterns if isinstance(pattern, URLPattern)}
    routes -= {"schema", "docs", ""}
    described = {path.removeprefix("/v1/").replace("{", "<str:").replace("}", ">") for path in schema["paths"]}
    assert described == routes
    names = [operation["operationId"] for path in schema["paths"].values() for operation in path.values()]
    assert len(set(names)) == len(names)
    assert all(
        operation["security"] == [{"key": []}, {"session": []}]
        for path in schema["paths"].values()
        for operation in path.values()
    )


async def test_every_answer_is_as_the_document_says(people: People, schema: dict[str, Any]) -> None:
    """R1 to R13: each route with what exists, what does not, what is wrong, and nobody."""

    def runs_of_all_kinds() -> Run:
        failure = {"error_type": "internal_error", "message": "It broke.", "detail": "Traceback"}
        end_run(start_run(make_run(people.alice)), status=Status.FAILED, stop_reason=StopReason.ERROR, error=failure)
        run = finished_run(people.alice, metadata={"a": [1, None]}, max_tokens=7)
        extras: list[dict[str, Any]] = [
            {"tool_calls": [{"id": "c", "type": "function"}]},
            {"tool_call_id": "c", "name": "n"},
            {"is_partial": True},
        ]
        for position, extra in enumerate(extras, start=2):
            Message.objects.create(
                conversation=run.conversation, run=run, position=position, role="assistant", content="x", **extra
            )
        make_run(people.alice, messages=[{"role": "user", "content": [{"type": "text", "text": "x"}]}])
        return run

    run = await in_writer(runs_of_all_kinds)
    waiting = await in_writer(waiting_run, people.alice, "a", "b")
    alice, stranger = people.as_alice, people.stranger
    started = await alice.post("/v1/runs", {"input": "x"}, Idempotency_Key="k")
    check(schema, "post", "/v1/runs", started)
    for body, key in (({}, "l"), ({"input": "x", "agent": "?"}, "l"), ({"input": "y"}, "k"), ({"input": "x"}, "")):
        check(schema, "post", "/v1/runs", await alice.post("/v1/runs", body, Idempotency_Key=key))
    check(schema, "post", "/v1/runs", await alice.ask("POST", "/v1/runs", b"x" * 3_000_000))
    check(schema, "post", "/v1/runs", await alice.ask("POST", "/v1/runs", headers={"Content-Type": "text/plain"}))
    browser = await people.in_browser(people.alice)
    check(schema, "post", "/v1/runs", await browser.post("/v1/runs", {}))
    for query in ("", "?limit=1", "?limit=0"):
        for path in ("/v1/runs", "/v1/conversations", "/v1/agents", "/v1/approvals"):
            check(schema, "get", path, await alice.get(path + query))
            check(schema, "get", path, await stranger.get(path + query))

    stop = f"/v1/runs/{started.json['run_id']}/stop"
    for client in (stranger, browser, alice, alice):
        check(schema, "post", "/v1/runs/{run_id}/stop", await client.post(stop))

    described = "/v1/runs/{run_id}/approvals"
    for decision in ({"approve": False}, {"approve": 1}, {"approve": True}, {"approve": True, "arguments": {}}):
        asked: dict[str, Any] = {"decisions": [{"tool_call_id": "a", **decision}]}
        for place in (waiting.public_id, "run_0"):
            check(schema, "post", described, await alice.post(f"/v1/runs/{place}/approvals", asked))
    for client in (stranger, browser, people.as_bob):
        check(schema, "post", described, await client.post(f"/v1/runs/{waiting.public_id}/approvals", {}))
    check(schema, "get", "/v1/approvals", await alice.get("/v1/approvals?status=denied"))
    check(schema, "get", "/v1/approvals", await alice.get("/v1/approvals?status=nonsense"))
    check(schema, "get", "/v1/runs/{run_id}", await alice.get(f"/v1/runs/{waiting.public_id}"))

    places = {"{run_id}": (run.public_id, "run_0"), "{conversation_id}": (run.conversation.public_id, "conv_0")}
    for described in schema["paths"]:
        for name, identities in places.items():
            for identity in identities:
                if name in described and "get" in schema["paths"][described]:
                    for client in (alice, people.as_charlie, people.as_bob, stranger):
                        answer = await client.get(described.replace(name, identity))
                        check(schema, "get", described, answer)
                if name in described and "patch" in schema["paths"][described]:
                    for client in (alice, people.as_charlie, people.as_bob, stranger):
                        answer = await client.ask("PATCH", described.replace(name, identity), b'{"title": "x"}')
                        check(schema, "patch", described, answer)
    for client in (people.as_charlie, alice, stranger):
        check(schema, "get", "/v1/pool", await client.get("/v1/pool"))
    described = "/v1/conversations/{conversation_id}"
    for identity in places["{conversation_id}"]:
        for client in (stranger, people.as_charlie, browser, alice):
            path = described.replace("{conversation_id}", identity)
            check(schema, "post", f"{described}/reset", await client.post(f"{path}/reset"))
            check(schema, "delete", described, await client.ask("DELETE", path))
            check(schema, "post", f"{described}/restore", await client.post(f"{path}/restore"))
    described = "/v1/runs/{run_id}/events"
    check(schema, "get", described, await alice.get(f"/v1/runs/{run.public_id}/events?starting_after=-1"))


async def test_too_many_calls_are_answered_as_the_document_says(
    people: People, schema: dict[str, Any], settings: Any
) -> None:
    settings.AGENTSITE = {**settings.AGENTSITE, "CALLS_PER_MINUTE": 1}
    await people.as_alice.get("/v1/runs")
    for path, operations in schema["paths"].items():
        for method in operations:
            plain = path.format(run_id="run_1", conversation_id="conv_1", model="agent")
            answer = await people.as_alice.ask(method.upper(), plain)
            assert answer.status == 429
            check(schema, method, path, answer)


async def test_the_document_and_the_server_agree_about_bodies(people: People, schema: dict[str, Any]) -> None:
    """R2: what the server refuses, the document forbids, as far as a schema can; what it allows, the server takes."""
    valid = validator(schema, {"$ref": "#/components/schemas/NewRun"})
    for field, body in WRONG_FIELDS:
        message = (await people.as_alice.post("/v1/runs", body)).error["message"]
        if not any(words in message for words in BEYOND_A_SCHEMA) and "deeper" not in message:
            if isinstance(body.get(field), float) and body[field].is_integer():
                continue  # to JSON schema 1.0 is an integer
            assert not valid.is_valid(body), (field, str(body)[:200])
    parts = [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    taken: list[dict[str, Any]] = [
        {"input": "x"},
        {"input": [{"role": "user", "content": parts}]},
        {"input": "x", "agent": "agent", "stream_tokens": False, "max_steps": 1, "max_seconds": 0.5, "max_tokens": 1},
        {"input": "x", "max_cost": "1.5", "reasoning_effort": "minimal", "metadata": {"a": {"b": [1]}}},
        {"input": "x", "max_cost": 1, "agent": None, "conversation": None, "metadata": None},
    ]
    for body in taken:
        valid.validate(body)
        assert (await people.as_alice.post("/v1/runs", body)).status == 202


def test_parameters_are_described(schema: dict[str, Any]) -> None:
    """R5, R12, R15"""

    def names(method: str, path: str) -> set[str]:
        return {parameter["name"] for parameter in schema["paths"][path][method]["parameters"]}

    filters = {"agent", "conversation", "status", "stop_reason", "q", "created_after", "limit", "cursor"}
    assert names("get", "/v1/runs") == filters
    assert names("get", "/v1/approvals") == {"status", "limit", "cursor"}
    assert names("post", "/v1/runs") == {"Idempotency-Key"}
    assert names("get", "/v1/runs/{run_id}/events") == {"run_id", "starting_after", "Last-Event-ID"}
    assert names("get", "/v1/conversations/{conversation_id}/messages") == {"conversation_id", "limit", "cursor"}
