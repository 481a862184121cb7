"""PATCH and DELETE /v1/runs/{id}: another input for a run that waits, or none at all."""

import json

import pytest

from runs import actions
from runs.actions import Refused
from runs.database import in_reader, in_writer
from runs.models import Message, Run
from tests.api.asking import Answer, Client
from tests.api.conftest import People
from tests.factories import end_run, finished_run, make_run, start_run


async def patch(client: Client, run: Run, **body: object) -> Answer:
    return await client.ask("PATCH", f"/v1/runs/{run.public_id}", json.dumps(body).encode())


async def test_a_waiting_run_takes_another_input_and_says_so_in_its_log(people: People) -> None:
    run = await in_writer(make_run, people.alice, "helo")
    answer = await patch(people.as_alice, run, input="hello")
    assert (answer.status, answer.json["input"], answer.json["status"]) == (200, "hello", "queued")
    await patch(people.as_alice, run, input="hello again")
    await in_writer(lambda: end_run(start_run(run)))
    seen = await people.as_alice.events(f"/v1/runs/{run.public_id}/events")
    assert [(event["seq"], event["type"], event.get("input")) for event in seen] == [
        (1, "run.queued", None),
        (2, "run.edited", "hello"),
        (3, "run.edited", "hello again"),
        (4, "run.started", "hello again"),
        (5, "run.completed", None),
    ]


async def test_the_changed_input_is_what_the_model_gets(people: People) -> None:
    run = await in_writer(make_run, people.alice, "helo")
    await patch(people.as_alice, run, input="hello")
    await in_writer(start_run, run)
    assert await in_reader(lambda: list(Message.objects.values_list("content", flat=True))) == ["hello"]


async def test_a_run_that_a_worker_has_taken_is_not_changed_under_its_hands(people: People) -> None:
    run = await in_writer(lambda: start_run(make_run(people.alice, "hello")))
    answer = await patch(people.as_alice, run, input="something else")
    assert (answer.status, answer.error["code"]) == (409, "run_started")
    assert (await in_reader(Run.objects.get, pk=run.pk)).input_text == "hello"


async def test_a_run_that_was_handed_back_has_started_all_the_same(people: People) -> None:
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    await in_writer(lambda: Run.objects.filter(pk=run.pk).update(status="queued", worker=""))
    assert (await patch(people.as_alice, run, input="something else")).status == 409


async def test_a_run_that_has_ended_is_not_changed(people: People) -> None:
    run = await in_writer(finished_run, people.alice)
    answer = await patch(people.as_alice, run, input="something else")
    assert (answer.status, answer.error["code"]) == (404, "run_not_active")


async def test_nobody_puts_words_into_somebody_elses_mouth(people: People) -> None:
    run = await in_writer(make_run, people.alice)
    assert (await patch(people.as_bob, run, input="mine")).status == 404
    answer = await patch(people.as_charlie, run, input="mine")
    assert (answer.status, answer.error["code"]) == (403, "not_yours")
    assert (await patch(people.stranger, run, input="mine")).status == 401


MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "What is this?"}]},
]


async def test_messages_take_the_place_of_the_input_as_they_are(people: People) -> None:
    run = await in_writer(make_run, people.alice, "helo")
    answer = await patch(people.as_alice, run, input=MESSAGES)
    assert (answer.status, answer.json["input"]) == (200, MESSAGES)
    await in_writer(start_run, run)
    seen = await in_reader(lambda: list(Message.objects.order_by("position").values_list("role", "content")))
    assert seen == [(message["role"], message["content"]) for message in MESSAGES]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"input": " "},
        {"input": 7},
        {"input": "x", "agent": "other"},
        {"input": []},
        {"input": [{"role": "assistant", "content": "the last word"}]},
        {"input": [{"role": "user", "content": "x" * 600_000}, {"role": "user", "content": "x" * 600_000}]},
    ],
)
async def test_what_is_no_input_is_refused_and_changes_nothing(people: People, body: dict[str, object]) -> None:
    run = await in_writer(make_run, people.alice)
    answer = await patch(people.as_alice, run, **body)
    assert answer.status == 400
    assert (await in_reader(Run.objects.get, pk=run.pk)).edits == 0


async def test_a_run_that_is_stopped_meanwhile_stays_stopped(people: People) -> None:
    run = await in_writer(make_run, people.alice)
    await in_reader(lambda: actions.request_stop(run.pk, by="alice", via="api"))
    with pytest.raises(Refused, match="ended"):
        await in_reader(actions.edit_run, run.pk, [{"role": "user", "content": "late"}])


async def withdraw(client: Client, run: Run) -> Answer:
    return await client.ask("DELETE", f"/v1/runs/{run.public_id}")


async def test_a_run_that_is_taken_back_ends_as_stopped_and_no_model_ever_reads_it(people: People) -> None:
    first = await in_writer(lambda: start_run(make_run(people.alice, "first")))
    order = {"conversation_id": first.conversation.public_id}
    second = await in_writer(lambda: make_run(people.alice, "taken back", **order))
    third = await in_writer(lambda: make_run(people.alice, "third", **order))
    answer = await withdraw(people.as_alice, second)
    assert (answer.status, answer.json) == (200, {"run_id": second.public_id, "status": "withdrawn"})
    seen = await people.as_alice.events(f"/v1/runs/{second.public_id}/events")
    assert [event["type"] for event in seen] == ["run.queued", "run.cancelled"]
    assert (seen[-1]["stop_reason"], seen[-1]["withdrawn"]) == ("cancelled", True)
    looked = (await people.as_alice.get(f"/v1/runs/{second.public_id}")).json
    assert (looked["status"], looked["withdrawn"], looked["receipt"]["requested_by"]) == ("cancelled", True, "alice")
    await in_writer(lambda: (end_run(first), end_run(start_run(third))))
    texts = await in_reader(lambda: list(Message.objects.order_by("position").values_list("content", "position")))
    assert texts == [("first", 1), ("third", 2)]


async def test_what_a_worker_has_taken_is_stopped_and_not_taken_back(people: People) -> None:
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    answer = await withdraw(people.as_alice, run)
    assert (answer.status, answer.error["code"]) == (409, "run_started")
    ended = await in_writer(finished_run, people.alice)
    assert (await withdraw(people.as_alice, ended)).error["code"] == "run_not_active"


async def test_only_its_owner_takes_a_run_back(people: People) -> None:
    run = await in_writer(make_run, people.alice)
    statuses = [(await withdraw(client, run)).status for client in (people.as_bob, people.as_charlie, people.stranger)]
    assert statuses == [404, 403, 401]
    assert (await in_reader(Run.objects.get, pk=run.pk)).is_active
