"""Conversations, their messages, a run's messages, and the agents."""

from decimal import Decimal
from typing import Any

import pytest

from runs import actions
from runs.database import in_reader, in_writer
from runs.models import Conversation, Message, Run
from tests.api.conftest import People
from tests.factories import end_run, finished_run, make_agent, make_run, start_run


def talk(people: People) -> tuple[Run, Run]:
    """Two runs of one conversation with a tool call in the first; eight messages in all."""
    first = start_run(make_run(people.alice, "what is 2*3"))
    calls = [{"id": "call_1", "type": "function", "function": {"name": "calculator", "arguments": "{}"}}]
    rows: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "6", "tool_call_id": "call_1", "name": "calculator"},
        {"role": "assistant", "content": "It is si", "is_partial": True},
    ]
    conversation = first.conversation
    for position, row in enumerate(rows, start=2):
        Message.objects.create(conversation=conversation, run=first, position=position, **row)
    end_run(first)
    parts = [{"type": "text", "text": "look"}]
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": parts}]
    second = start_run(make_run(people.alice, messages=messages, conversation_id=conversation.public_id))
    for position in (7, 8):
        Message.objects.create(conversation=conversation, run=second, position=position, role="assistant", content="ok")
    return first, end_run(second)


async def test_messages_come_in_order_as_they_are_stored(people: People) -> None:
    """R13"""
    first, second = await in_writer(talk, people)
    shown = (await people.as_alice.get(f"/v1/conversations/{first.conversation.public_id}/messages")).json

    assert [message["position"] for message in shown["data"]] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [message["run_id"] for message in shown["data"]] == [first.public_id] * 4 + [second.public_id] * 4
    assert shown["next_cursor"] is None
    asked, called, answered, partial, *_, parts, _, _ = shown["data"]
    assert (asked["role"], asked["content"]) == ("user", "what is 2*3")
    assert called["tool_calls"][0]["function"]["name"] == "calculator"
    assert (answered["tool_call_id"], answered["name"], answered["content"]) == ("call_1", "calculator", "6")
    assert partial["partial"] is True
    assert parts["content"] == [{"type": "text", "text": "look"}]
    assert not {"tool_calls", "tool_call_id", "name", "partial"} & set(asked), "only where they apply"


async def test_a_runs_messages_are_its_own(people: People) -> None:
    """R13"""
    first, second = await in_writer(talk, people)
    for run, positions in ((first, [1, 2, 3, 4]), (second, [5, 6, 7, 8])):
        shown = (await people.as_alice.get(f"/v1/runs/{run.public_id}/messages")).json
        assert [message["position"] for message in shown["data"]] == positions


async def test_messages_come_in_pages(people: People) -> None:
    """R13"""
    first, _ = await in_writer(talk, people)
    path = f"/v1/conversations/{first.conversation.public_id}/messages"
    seen: list[int] = []
    query = "limit=3"
    for _ in range(3):
        page = (await people.as_alice.get(f"{path}?{query}")).json
        seen += [message["position"] for message in page["data"]]
        query = f"limit=3&cursor={page['next_cursor']}"
    assert (seen, page["next_cursor"]) == ([1, 2, 3, 4, 5, 6, 7, 8], None)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "cursor=-1", "cursor=x", "status=queued"])
async def test_bad_parameters_of_messages_are_refused(people: People, query: str) -> None:
    """R13"""
    first, _ = await in_writer(talk, people)
    for path in (f"/v1/conversations/{first.conversation.public_id}/messages", f"/v1/runs/{first.public_id}/messages"):
        answer = await people.as_alice.get(f"{path}?{query}")
        assert (answer.status, answer.error["param"]) == (400, query.partition("=")[0])


async def test_a_cursor_of_another_conversation_is_refused(people: People) -> None:
    """R13"""
    first, _ = await in_writer(talk, people)
    other = await in_writer(finished_run, people.alice)
    path = "/v1/conversations/{}/messages?limit=1&cursor={}"
    page = (await people.as_alice.get(path.format(first.conversation.public_id, ""))).json
    answer = await people.as_alice.get(path.format(other.conversation.public_id, page["next_cursor"]))
    assert (answer.status, answer.error["param"]) == (400, "cursor")


async def test_other_peoples_messages_and_conversations_do_not_exist(people: People) -> None:
    """R6, R13"""
    run = await in_writer(finished_run, people.alice)
    conversation = f"/v1/conversations/{run.conversation.public_id}"
    for path in (f"/v1/runs/{run.public_id}/messages", f"{conversation}/messages", conversation):
        assert (await people.as_alice.get(path)).status == 200
        assert (await people.as_charlie.get(path)).status == 200
        others = await people.as_bob.get(path)
        unknown = await people.as_bob.get(path.replace(run.public_id, "run_0").replace(conversation[18:], "conv_0"))
        assert (others.status, others.error["code"]) == (unknown.status, unknown.error["code"])
        assert others.status == 404


# -- conversations


async def test_conversations_are_listed_newest_first_in_pages(people: People) -> None:
    runs = [await in_writer(make_run, people.alice, f"Talk {number}") for number in range(3)]
    await in_writer(make_run, people.bob)
    expected = [run.conversation.public_id for run in reversed(runs)]
    page = (await people.as_alice.get("/v1/conversations?limit=2")).json
    rest = (await people.as_alice.get(f"/v1/conversations?limit=2&cursor={page['next_cursor']}")).json
    assert [shown["conversation_id"] for shown in page["data"] + rest["data"]] == expected
    assert rest["next_cursor"] is None
    assert page["data"][0]["title"] == "Talk 2"
    assert (page["data"][0]["agent"], page["data"][0]["owner"]) == ("agent", "alice")
    assert len((await people.as_charlie.get("/v1/conversations")).json["data"]) == 4


async def test_a_conversation_shows_how_its_last_run_ended(people: People) -> None:
    """C2"""
    run = await in_writer(make_run, people.alice)
    path = f"/v1/conversations/{run.conversation.public_id}"
    assert (await people.as_alice.get(path)).json["last_stop_reason"] is None
    await in_writer(lambda: actions.request_stop(run.pk, by="alice", via="api"))
    assert (await people.as_alice.get(path)).json["last_stop_reason"] == "cancelled"


async def test_its_owner_renames_a_conversation(people: People) -> None:
    run = await in_writer(make_run, people.alice)
    path = f"/v1/conversations/{run.conversation.public_id}"
    before = (await people.as_alice.get(path)).json
    answer = await people.as_alice.ask("PATCH", path, b'{"title": " New title "}')
    assert answer.status == 200
    assert answer.json == {**before, "title": "New title"}
    assert (await people.as_alice.get(path)).json == answer.json


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{}", "title"),
        (b'{"title": 1}', "title"),
        (b'{"title": null}', "title"),
        (b'{"title": "a\\u0000b"}', "title"),
        (b'{"title": "\\ud800"}', "title"),
        (b'{"title": "' + b"x" * 201 + b'"}', "title"),
        (b'{"title": "x", "owner": "bob"}', "owner"),
        (b"[]", None),
        (b"", None),
    ],
)
async def test_a_bad_change_is_refused(people: People, body: bytes, param: str | None) -> None:
    run = await in_writer(make_run, people.alice)
    answer = await people.as_alice.ask("PATCH", f"/v1/conversations/{run.conversation.public_id}", body)
    assert (answer.status, answer.error["param"]) == (400, param)


async def test_nobody_else_renames_a_conversation(people: People) -> None:
    run = await in_writer(make_run, people.alice, "Mine")
    path = f"/v1/conversations/{run.conversation.public_id}"
    assert (await people.as_bob.ask("PATCH", path, b'{"title": "x"}')).status == 404
    assert (await people.as_charlie.ask("PATCH", path, b'{"title": "x"}')).status == 403, "staff look"
    assert (await in_reader(Conversation.objects.get)).title == "Mine"


# -- agents


async def test_agents_that_can_be_used_are_listed(people: People) -> None:
    fields = {"description": "Adds.", "examples": ["2+2?"], "tools": ["calculator"], "max_cost": Decimal("1.5")}
    await in_writer(lambda: make_agent("adder", **fields))
    await in_writer(lambda: make_agent("off", is_active=False))
    shown = (await people.as_alice.get("/v1/agents")).json
    assert [agent["slug"] for agent in shown["data"]] == ["agent", "adder"]
    assert shown["data"][0]["default"] is True
    assert shown["data"][1] == {
        "slug": "adder",
        "name": "Adder",
        "description": "Adds.",
        "examples": ["2+2?"],
        "model": "scripted",
        "tools": ["calculator"],
        "version": 1,
        "default": False,
        "limits": {"max_steps": 20, "max_seconds": 900.0, "max_tokens": None, "max_cost": "1.500000"},
    }
    assert shown["next_cursor"] is None


async def test_an_agent_keeps_its_instructions_to_itself(people: People) -> None:
    await in_writer(lambda: make_agent("secretive", instructions="the secret prompt"))
    assert b"secret prompt" not in (await people.as_alice.get("/v1/agents")).body
