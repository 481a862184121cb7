"""POST /v1/runs."""

from decimal import Decimal

import pytest
from django.db import IntegrityError

from runs import actions
from runs.actions import RunOrder, submit
from runs.database import in_reader, in_writer
from runs.models import Agent, Conversation, Event, Message, Run, Status
from tests.api.conftest import People
from tests.factories import finished_run, make_agent, make_run, start_run, waiting_run


async def test_a_run_is_accepted_and_stored_with_its_first_event(people: People) -> None:
    """R1"""
    answer = await people.as_alice.post("/v1/runs", {"input": "hello"})

    assert answer.status == 202
    run = await in_reader(Run.objects.select_related("conversation", "agent", "owner").get)
    assert answer.json == {
        "run_id": run.public_id,
        "status": "started",
        "conversation_id": run.conversation.public_id,
    }
    assert (run.agent.slug, run.owner, run.status) == ("agent", people.alice, Status.QUEUED)
    assert run.input == [{"role": "user", "content": "hello"}]
    assert await in_reader(lambda: list(Event.objects.values_list("seq", "type"))) == [(1, "run.queued")]


async def test_every_field_reaches_the_run(people: People) -> None:
    """R1"""
    await in_writer(make_agent, "other", max_steps=50)
    body = {
        "input": "hello",
        "agent": "other",
        "stream_tokens": False,
        "max_steps": 3,
        "max_seconds": 1.5,
        "max_tokens": 1000,
        "max_cost": "0.25",
        "reasoning_effort": "low",
        "metadata": {"ticket": 7},
    }
    assert (await people.as_alice.post("/v1/runs", body)).status == 202

    run = await in_reader(Run.objects.select_related("agent").get)
    assert run.agent.slug == "other"
    assert not run.has_token_streaming
    assert (run.max_steps, run.max_seconds, run.max_tokens, run.max_cost) == (3, 1.5, 1000, Decimal("0.25"))
    assert (run.reasoning_effort, run.metadata) == ("low", {"ticket": 7})


async def test_what_is_null_counts_as_not_given(people: People) -> None:
    """R1"""
    names = (
        "agent",
        "conversation",
        "max_steps",
        "max_seconds",
        "max_tokens",
        "max_cost",
        "reasoning_effort",
        "metadata",
    )
    assert (await people.as_alice.post("/v1/runs", {"input": "hello", **dict.fromkeys(names)})).status == 202


async def test_a_caller_lowers_limits_and_never_raises_them(people: People) -> None:
    """R1, L1"""
    await in_writer(make_agent, "small", max_steps=2, max_seconds=5, max_tokens=10, max_cost=Decimal("0.01"))
    body = {"input": "x", "agent": "small", "max_steps": 9, "max_seconds": 99, "max_tokens": 999, "max_cost": 5}
    assert (await people.as_alice.post("/v1/runs", body)).status == 202

    run = await in_reader(Run.objects.get)
    assert (run.max_steps, run.max_seconds, run.max_tokens, run.max_cost) == (2, 5, 10, Decimal("0.01"))


async def test_a_conversation_goes_on(people: People) -> None:
    """R1"""
    first = (await people.as_alice.post("/v1/runs", {"input": "one"})).json
    second = (await people.as_alice.post("/v1/runs", {"input": "two", "conversation": first["conversation_id"]})).json

    assert second["conversation_id"] == first["conversation_id"]
    assert second["run_id"] != first["run_id"]


async def test_messages_are_taken_with_texts_and_images(people: People) -> None:
    """R1"""
    messages = [
        {"role": "system", "content": "Be short."},
        {"role": "assistant", "content": "What is it?"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "This."},
                {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
            ],
        },
    ]
    answer = await people.as_alice.post("/v1/runs", {"input": messages})

    assert answer.status == 202
    run = await in_reader(Run.objects.get)
    assert run.input == messages
    assert run.input_text == "This.", "what is asked"


async def test_an_unknown_agent_or_conversation_is_not_found(people: People) -> None:
    """R2"""
    for field, code in (("agent", "agent_not_found"), ("conversation", "conversation_not_found")):
        answer = await people.as_alice.post("/v1/runs", {"input": "x", field: "nobody"})
        assert (answer.status, answer.error["code"], answer.error["param"]) == (404, code, field)
    assert await in_reader(Run.objects.count) == 0


async def test_an_agent_that_is_switched_off_is_not_found(people: People) -> None:
    """R2"""
    await in_writer(make_agent, "off", is_active=False)
    assert (await people.as_alice.post("/v1/runs", {"input": "x", "agent": "off"})).status == 404


async def test_a_conversation_whose_agent_is_switched_off_goes_on_later(people: People) -> None:
    """R2: not while it is off, and the message names the field."""
    run = await in_writer(make_run, people.alice)
    await in_writer(Agent.objects.filter(pk=run.agent_id).update, is_active=False)
    body = {"input": "x", "conversation": run.conversation.public_id}
    answer = await people.as_alice.post("/v1/runs", body)
    assert (answer.status, answer.error["code"], answer.error["param"]) == (404, "agent_not_found", "agent")
    await in_writer(Agent.objects.filter(pk=run.agent_id).update, is_active=True)
    assert (await people.as_alice.post("/v1/runs", body)).status == 202


async def test_a_conversation_takes_only_so_many_runs_that_wait(people: People, monkeypatch) -> None:
    """R16: what is queued is bounded, and the next one is refused in words."""
    monkeypatch.setattr(submit, "MAX_WAITING", 2)
    run = await in_writer(make_run, people.alice)
    body = {"input": "x", "conversation": run.conversation.public_id}
    assert (await people.as_alice.post("/v1/runs", body)).status == 202
    answer = await people.as_alice.post("/v1/runs", body)
    assert (answer.status, answer.error["type"], answer.error["code"]) == (429, "rate_limit_error", "queue_full")
    assert await in_reader(Run.objects.count) == 2


async def test_nobody_speaks_in_somebody_elses_conversation(people: People) -> None:
    """R2: not even staff, and to others it does not exist."""
    run = await in_writer(make_run, people.alice)
    body = {"input": "x", "conversation": run.conversation.public_id}
    for client in (people.as_bob, people.as_charlie):
        answer = await client.post("/v1/runs", body)
        unknown = await client.post("/v1/runs", {"input": "x", "conversation": "conv_" + "0" * 24})
        assert answer.status == unknown.status == 404
        assert answer.error["code"] == unknown.error["code"]


async def test_the_conversations_agent_cannot_be_changed_in_passing(people: People) -> None:
    """R2"""
    await in_writer(make_agent, "other")
    run = await in_writer(make_run, people.alice)
    body = {"input": "x", "conversation": run.conversation.public_id, "agent": "other"}
    answer = await people.as_alice.post("/v1/runs", body)
    assert (answer.status, answer.error["param"]) == (400, "agent")


async def test_without_a_default_agent_one_must_be_named(people: People) -> None:
    """R2"""

    def leave_no_default() -> None:
        agent = make_agent("second", is_default=True)
        agent.is_default = False
        actions.save_agent(agent)

    await in_writer(leave_no_default)
    answer = await people.as_alice.post("/v1/runs", {"input": "x"})
    assert (answer.status, answer.error["param"]) == (404, "agent")


# -- sent twice


async def test_the_same_key_and_body_start_one_run(people: People) -> None:
    """R15"""
    first = await people.as_alice.post("/v1/runs", {"input": "x", "max_steps": 2}, Idempotency_Key="k")
    second = await people.as_alice.post("/v1/runs", {"max_steps": 2, "input": "x"}, Idempotency_Key="k")

    assert first.status == second.status == 202
    assert second.body == first.body
    assert await in_reader(Run.objects.count) == await in_reader(Conversation.objects.count) == 1


async def test_the_second_answer_repeats_the_first_even_after_the_end(people: People) -> None:
    """R15"""
    first = await people.as_alice.post("/v1/runs", {"input": "x"}, Idempotency_Key="k")
    await people.as_alice.post(f"/v1/runs/{first.json['run_id']}/stop")
    assert (await people.as_alice.post("/v1/runs", {"input": "x"}, Idempotency_Key="k")).body == first.body


async def test_the_same_key_with_another_body_is_refused(people: People) -> None:
    """R15"""
    await people.as_alice.post("/v1/runs", {"input": "x"}, Idempotency_Key="k")
    for body in ({"input": "y"}, {"input": "x", "metadata": {"a": 1}}):
        answer = await people.as_alice.post("/v1/runs", body, Idempotency_Key="k")
        assert (answer.status, answer.error["code"]) == (422, "idempotency_key_reused")
    assert await in_reader(Run.objects.count) == 1


async def test_two_people_may_use_the_same_key(people: People) -> None:
    """R15"""
    alices = await people.as_alice.post("/v1/runs", {"input": "x"}, Idempotency_Key="k")
    bobs = await people.as_bob.post("/v1/runs", {"input": "y"}, Idempotency_Key="k")
    assert bobs.status == 202
    assert bobs.json["run_id"] != alices.json["run_id"]


async def test_a_twin_that_was_stored_in_the_same_moment_is_repeated(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R15: the look-up finds nothing, the unique constraint decides, and the loser repeats the winner's answer."""
    first = await people.as_alice.post("/v1/runs", {"input": "x"}, Idempotency_Key="k")
    find, blind = submit._find_earlier, [True]

    def find_too_early(*args: object) -> Run | None:
        return None if blind and blind.pop() else find(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(submit, "_find_earlier", find_too_early)
    second = await people.as_alice.post("/v1/runs", {"input": "x"}, Idempotency_Key="k")

    assert not blind
    assert (second.status, second.body) == (202, first.body)
    assert await in_reader(Run.objects.count) == await in_reader(Conversation.objects.count) == 1


async def test_a_conflict_that_is_no_twin_is_not_hidden(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """R15"""

    attempts = []

    def conflict(user: object, order: RunOrder) -> Run:
        attempts.append(order.idempotency_key)
        raise IntegrityError

    monkeypatch.setattr("runs.actions.submit._store_run", conflict)
    assert (await people.as_alice.post("/v1/runs", {"input": "x"})).status == 500
    assert (await people.as_alice.post("/v1/runs", {"input": "x"}, Idempotency_Key="k")).status == 500
    assert attempts == ["", "k", "k"]


@pytest.mark.parametrize("key", ["", "x" * 201, "tab\tinside", "ümlaut"])
async def test_a_bad_idempotency_key_is_refused(people: People, key: str) -> None:
    """R15"""
    answer = await people.as_alice.post("/v1/runs", {"input": "x"}, Idempotency_Key=key)
    assert (answer.status, answer.error["param"]) == (400, "Idempotency-Key")
    assert await in_reader(Run.objects.count) == 0


# -- a conversation that is busy


async def test_a_run_into_a_busy_conversation_waits_behind_it(people: People) -> None:
    """R16"""

    def busy() -> Run:
        return start_run(make_run(people.alice, "one"))

    first = await in_writer(busy)
    body = {"conversation": first.conversation.public_id}
    second = await people.as_alice.post("/v1/runs", {"input": "two", **body})
    third = await people.as_alice.post("/v1/runs", {"input": "three", **body})

    assert second.status == third.status == 202
    claims = await in_writer(actions.claim_runs, "worker", 10)
    assert claims == [], "nothing starts beside the active run"
    waiting = await in_reader(lambda: list(Run.objects.filter(status="queued").order_by("pk").values_list("public_id")))
    assert waiting == [(second.json["run_id"],), (third.json["run_id"],)]


async def test_what_waits_keeps_its_words_to_itself(people: People) -> None:
    """R16: the input of a run that waits does not land between the messages of the active one."""

    def busy() -> Run:
        return start_run(make_run(people.alice, "one"))

    first = await in_writer(busy)
    await people.as_alice.post("/v1/runs", {"input": "two", "conversation": first.conversation.public_id})
    assert await in_reader(lambda: list(Message.objects.values_list("content", flat=True))) == ["one"]


async def test_a_conversation_that_waits_for_an_approval_takes_no_run(people: People) -> None:
    """R16"""
    run = await in_writer(waiting_run, people.alice, "a")
    answer = await people.as_alice.post("/v1/runs", {"input": "x", "conversation": run.conversation.public_id})
    assert (answer.status, answer.error["code"]) == (409, "pending_approval")


async def test_after_the_end_the_conversation_takes_the_next_run(people: People) -> None:
    """R16"""
    run = await in_writer(finished_run, people.alice)
    answer = await people.as_alice.post("/v1/runs", {"input": "x", "conversation": run.conversation.public_id})
    assert answer.status == 202
