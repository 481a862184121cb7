"""What POST /v1/chat/completions takes, keeps and refuses, and for whom; the agents as models."""

import json
from typing import Any

from runs.api import completion_orders
from runs.api.schema import document
from runs.database import in_reader, in_writer
from runs.models import Conversation, Message, Run, Status
from tests.api.asking import Client
from tests.api.completing import ASK, PATH, STREAM, USER, Hands, ask, ends, fails, says, thinks
from tests.api.conftest import CSRF, People
from tests.api.test_schema import check, validator
from tests.factories import finished_run, make_agent, make_run, start_run


async def stored(client: Client, hands: Hands, messages: list[dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    """A call's messages as they stand in its conversation."""
    answer, run = await ask(client, hands, {**ASK, "messages": messages, **more}, ends())
    assert answer.status == 200, answer.body
    rows = await in_reader(lambda: list(Message.objects.filter(run=run).order_by("position")))
    kept = ("role", "content", "tool_calls", "tool_call_id", "name")
    return [{name: getattr(row, name) for name in kept if getattr(row, name)} for row in rows]


async def test_the_whole_history_is_taken(people: People, hands: Hands) -> None:
    """R17: all roles and parts, with fields that other servers put into their answers."""
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    image = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
    history: list[dict[str, Any]] = [
        {"role": "system", "content": "Be short."},
        {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind."}]},
        {"role": "user", "content": "What?", "name": "ann"},
        {"role": "assistant", "content": None, "tool_calls": [{**call, "index": 0}], "refusal": None, "audio": None},
        {"role": "tool", "content": "", "tool_call_id": "call_1"},
        {"role": "assistant", "content": "", "reasoning_content": "Hm.", "annotations": []},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"role": "assistant", "refusal": "Never."},
        {"role": "user", "content": [{"type": "text", "text": "This."}, image]},
    ]
    assert await stored(people.as_alice, hands, history) == [
        {"role": "system", "content": "Be short."},
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "What?", "name": "ann"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1"},
        {"role": "assistant", "content": "No."},
        {"role": "assistant", "content": "Never."},
        {"role": "user", "content": [{"type": "text", "text": "This."}, image]},
    ]
    run = await in_reader(Run.objects.select_related("conversation").get)
    assert (run.input_text, run.conversation.title) == ("This.", "This.")
    assert (await people.as_alice.get(f"/v1/runs/{run.public_id}")).json["input"] == run.input


async def test_each_call_begins_a_conversation_unless_it_names_one(people: People, hands: Hands) -> None:
    """R17: of one that goes on, only what is new is taken."""
    await stored(people.as_alice, hands, [USER])
    await stored(people.as_alice, hands, [USER])
    conversations = await in_reader(lambda: list(Conversation.objects.order_by("pk")))
    assert len(conversations) == 2
    history = [{"role": "system", "content": "s"}, USER, {"role": "assistant", "content": "a"}]
    more = {"role": "user", "content": "more"}
    metadata = {"conversation": conversations[0].public_id, "order": "7"}
    assert await stored(people.as_alice, hands, [*history, more], metadata=metadata) == [more]
    assert await stored(people.as_alice, hands, [more], metadata=metadata) == [more]
    run = await in_reader(lambda: Run.objects.latest("pk"))
    assert run.conversation_id == conversations[0].pk
    assert run.metadata == metadata


async def test_a_conversation_that_cannot_go_on_is_refused(people: People, hands: Hands) -> None:
    """R17, R16"""
    other = await in_writer(lambda: (make_agent("other"), finished_run(people.alice, agent_slug="other"))[1])
    bobs = await in_writer(finished_run, people.bob)
    cases = [("conv_0", 404), (bobs.conversation.public_id, 404), (other.conversation.public_id, 400)]
    for conversation, status in cases:
        answer = await people.as_alice.post(PATH, {**ASK, "metadata": {"conversation": conversation}})
        param = "metadata" if status == 404 else "model"
        assert (answer.status, answer.error["param"]) == (status, param)
    waiting = await in_writer(lambda: start_run(make_run(people.alice)))
    await in_writer(lambda: Run.objects.filter(pk=waiting.pk).update(status=Status.REQUIRES_APPROVAL))
    body = {**ASK, "metadata": {"conversation": waiting.conversation.public_id}}
    answer = await people.as_alice.post(PATH, body)
    assert (answer.status, answer.error["code"]) == (409, "pending_approval")


IGNORED: dict[str, Any] = {
    "temperature": 1,
    "top_p": 0.5,
    "frequency_penalty": -1.5,
    "presence_penalty": 0,
    "logit_bias": {"50256": -100},
    "seed": -3,
    "stop": ["a", "b"],
    "max_tokens": 5,
    "max_completion_tokens": 5,
    "logprobs": False,
    "top_logprobs": 0,
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "functions": [{"name": "f"}],
    "parallel_tool_calls": True,
    "verbosity": "low",
    "prediction": {"type": "content", "content": "x"},
    "audio": {"voice": "x"},
    "web_search_options": {},
    "moderation": {"model": "x"},
    "user": "u",
    "safety_identifier": "s",
    "store": True,
    "service_tier": "auto",
    "prompt_cache_key": "k",
    "prompt_cache_options": {},
    "prompt_cache_retention": "24h",
}
TRIVIAL: dict[str, Any] = {
    "n": 1,
    "response_format": {"type": "text"},
    "modalities": ["text"],
    "tool_choice": "auto",
    "function_call": "none",
    "stream": False,
    "stream_options": {"include_usage": False, "include_obfuscation": True},
    "reasoning_effort": "high",
    "metadata": {"k": "v"},
}


async def test_every_parameter_of_openai_is_taken(people: People, hands: Hands) -> None:
    """R17: those that cannot apply, or are other servers', change nothing; null is as if they were not given."""
    assert {"model", "messages", *IGNORED, *TRIVIAL} == set(completion_orders.NewCompletion.model_fields)
    of_other_servers = {"top_k": 40, "stream_options": {"chunk_size": 3}}
    for body in (
        {**ASK, **IGNORED, **TRIVIAL},
        {**ASK, **dict.fromkeys([*IGNORED, *TRIVIAL])},
        {**ASK, **of_other_servers},
    ):
        answer, run = await ask(people.as_alice, hands, body, ends())
        assert answer.status == 200, answer.body
        assert (run.max_tokens, run.max_steps) == (None, run.agent.max_steps)
        assert run.reasoning_effort == (body.get("reasoning_effort") or "")


NO_MESSAGES: list[Any] = [None, [], "hello", {}, [None], ["x"], [[]], [{}]]
WRONG: list[tuple[str, dict[str, Any]]] = [
    *((field, {**ASK, field: {"not": ["this"]}}) for field in IGNORED if not isinstance(IGNORED[field], dict)),
    *((field, {**ASK, field: "text"}) for field in IGNORED if isinstance(IGNORED[field], dict)),
    *((field, {**ASK, field: 7}) for field in TRIVIAL),
    *((field, {**ASK, field: "7"}) for field in ("temperature", "seed", "max_tokens", "n", "stream", "logprobs")),
    ("model", {"messages": [USER]}),
    ("model", {**ASK, "model": None}),
    ("model", {**ASK, "model": ""}),
    ("messages", {"model": "agent"}),
    *(("messages", {**ASK, "messages": wrong}) for wrong in NO_MESSAGES),
    *(
        ("messages", {**ASK, "messages": [message]})
        for message in (
            {"role": "nobody", "content": "x"},
            {"role": ["user"], "content": "x"},
            {"role": "user"},
            {"role": "user", "content": None},
            {"role": "user", "content": 7},
            {"role": "user", "content": []},
            {"role": "user", "content": " \n"},
            {"role": "user", "content": [{"type": "text", "text": ""}]},
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]},
            {"role": "user", "content": "x", "name": "n" * 101},
            {"role": "user", "content": "x" * 1_000_001},
            {"role": "system", "content": "only instructions"},
            {"role": "assistant", "content": "x"},
            {"role": "tool", "content": "x", "tool_call_id": "c"},
        )
    ),
    *(
        ("messages", {**ASK, "messages": [message, USER]})
        for message in (
            {"role": "tool", "content": "x"},
            {"role": "tool", "content": "x", "tool_call_id": "c" * 151},
            {"role": "assistant", "tool_calls": [{"id": "c"}]},
            {"role": "assistant", "tool_calls": [{"id": "", "function": {"name": "f", "arguments": ""}}]},
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}]},
            {"role": "assistant", "content": "x" * 1_000_000},
            {"role": "user", "content": "a\0b"},
        )
    ),
    ("n", {**ASK, "n": 2}),
    ("response_format", {**ASK, "response_format": {"type": "json_object"}}),
    ("modalities", {**ASK, "modalities": ["text", "audio"]}),
    ("tool_choice", {**ASK, "tool_choice": "required"}),
    ("tool_choice", {**ASK, "tool_choice": {"type": "function", "function": {"name": "f"}}}),
    ("metadata", {**ASK, "metadata": {"k": 1}}),
    ("metadata", {**ASK, "metadata": {"k": "v" * 513}}),
    ("metadata", {**ASK, "metadata": {str(number): "v" for number in range(17)}}),
    ("reasoning_effort", {**ASK, "reasoning_effort": "enormous"}),
    ("stream_options", {**ASK, "stream_options": {"include_usage": "yes"}}),
    ("temperature", {**ASK, "temperature": "hot"}),
]


async def test_what_is_wrong_is_refused_by_name(people: People) -> None:
    """R17, R2"""
    for field, body in WRONG:
        answer = await people.as_alice.post(PATH, body)
        assert (answer.status, answer.error["param"]) == (400, field), (str(body)[:200], answer.body[:200])
        assert field in answer.error["message"]
        assert " as " not in answer.error["message"].split(":")[0]
    assert await in_reader(Run.objects.count) == await in_reader(Conversation.objects.count) == 0


async def test_the_document_says_what_is_taken_and_answered(people: People, hands: Hands) -> None:
    """R17"""
    schema = json.loads(document())
    valid = validator(schema, {"$ref": "#/components/schemas/NewCompletion"})
    for body in (ASK, {**ASK, **IGNORED, **TRIVIAL}, {**ASK, **dict.fromkeys([*IGNORED, *TRIVIAL])}):
        valid.validate(body)
    beyond_a_schema = ("the last message", "characters of text", "NUL")
    for field, body in WRONG:
        message = (await people.as_alice.post(PATH, body)).error["message"]
        assert any(words in message for words in beyond_a_schema) or not valid.is_valid(body), (field, message)
    for doings in ([thinks("x"), says("x"), ends()], [fails("llm_error")], [fails("llm_timeout")], [fails("x")]):
        answer, _ = await ask(people.as_alice, hands, ASK, *doings)
        check(schema, "post", PATH, answer)
    for body in ({}, {**ASK, "model": "nobody"}, {**ASK, "metadata": {"conversation": "conv_0"}}):
        check(schema, "post", PATH, await people.as_alice.post(PATH, body))
    check(schema, "post", PATH, await people.stranger.post(PATH, ASK))
    for client in (people.as_alice, people.stranger):
        check(schema, "get", "/v1/models", await client.get("/v1/models"))
        for model in ("agent", "nobody"):
            check(schema, "get", "/v1/models/{model}", await client.get(f"/v1/models/{model}"))


async def test_who_is_not_known_or_asks_for_nobody_is_refused(people: People) -> None:
    """R17, R3"""
    assert (await people.stranger.post(PATH, ASK)).status == 401
    assert (await people.stranger.get(PATH)).status == 401
    answer = await people.as_alice.get(PATH)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    await in_writer(make_agent, "off", is_active=False)
    for model in ("nobody", "off"):
        answer = await people.as_alice.post(PATH, {**ASK, "model": model})
        assert (answer.status, answer.error["code"], answer.error["param"]) == (404, "model_not_found", "model")
        answer = await people.as_alice.get(f"/v1/models/{model}")
        assert (answer.status, answer.error["code"]) == (404, "model_not_found")
    assert (await people.as_alice.ask("POST", PATH, b"{")).error["code"] == "invalid_json"
    assert (await people.as_alice.ask("POST", PATH, b"x" * 3_000_000)).status == 413


async def test_a_browser_needs_its_csrf_token_and_stops_as_the_console(people: People, hands: Hands) -> None:
    """R17, R3"""
    browser = await people.in_browser(people.alice)
    answer = await browser.post(PATH, ASK)
    assert (answer.status, answer.error["code"]) == (403, "csrf_failed")
    async with browser.stream(PATH, body=STREAM, X_CSRFToken=CSRF):
        run = await hands.heard()
    run = await in_reader(Run.objects.get, pk=run.pk)
    assert (run.stop_requested_by, run.stop_requested_via) == ("alice", "console")


async def test_agents_are_listed_as_models(people: People) -> None:
    """R17"""
    agent = await in_writer(lambda: (make_agent("off", is_active=False), make_agent("Aaa"))[1])
    listed = (await people.as_alice.get("/v1/models")).json
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["Aaa", "agent"]
    one = {"id": "Aaa", "object": "model", "created": int(agent.created_at.timestamp()), "owned_by": "agentsite"}
    assert listed["data"][0] == (await people.as_alice.get("/v1/models/Aaa")).json == one
    assert (await people.as_alice.get("/v1/models?limit=1")).error["param"] == "limit"
    assert (await people.stranger.get("/v1/models")).status == 401
