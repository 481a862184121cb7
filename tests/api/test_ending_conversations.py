"""Deleting, restoring and resetting a conversation over HTTP, and the pool for staff."""

from datetime import datetime, timedelta

from django.utils import timezone

from runs.database import in_reader, in_writer
from runs.models import Conversation, Run
from tests.api.conftest import People
from tests.factories import end_run, finished_run, make_run, start_run


async def test_a_deleted_conversation_is_found_nowhere_until_it_is_restored(people: People) -> None:
    """R6: for its owner, for staff, in lists and by every path that leads to it."""
    run = await in_writer(finished_run, people.alice)
    path = f"/v1/conversations/{run.conversation.public_id}"
    answer = await people.as_alice.ask("DELETE", path)
    assert answer.status == 200
    assert (answer.json["conversation_id"], answer.json["status"]) == (run.conversation.public_id, "deleted")
    left = datetime.fromisoformat(answer.json["restorable_until"]) - timezone.now()
    assert timedelta(seconds=200) < left <= timedelta(seconds=300)
    places = [path, f"{path}/messages", f"/v1/runs/{run.public_id}", f"/v1/runs/{run.public_id}/messages"]
    for client in (people.as_alice, people.as_charlie):
        for place in [*places, f"/v1/runs/{run.public_id}/events"]:
            assert (await client.get(place)).status == 404, place
        for collection in ("/v1/conversations", "/v1/runs"):
            assert (await client.get(collection)).json["data"] == []
        assert (await client.post(f"/v1/runs/{run.public_id}/stop")).status == 404
        assert (await client.ask("PATCH", path, b'{"title": "x"}')).status == 404
        assert (await client.ask("DELETE", path)).status == 404
        assert (await client.post(f"{path}/reset")).status == 404
    more = {"input": "x", "conversation": run.conversation.public_id}
    assert (await people.as_alice.post("/v1/runs", more)).status == 404

    for client in (people.as_bob, people.as_charlie):
        assert (await client.post(f"{path}/restore")).status == 404
    restored = await people.as_alice.post(f"{path}/restore")
    assert (restored.status, restored.json["conversation_id"]) == (200, run.conversation.public_id)
    assert (await people.as_alice.post(f"{path}/restore")).status == 404, "it is not deleted any more"
    for place in places:
        assert (await people.as_alice.get(place)).status == 200


async def test_after_the_undo_time_there_is_no_way_back(people: People) -> None:
    run = await in_writer(finished_run, people.alice)
    path = f"/v1/conversations/{run.conversation.public_id}"
    await people.as_alice.ask("DELETE", path)
    then = timezone.now() - timedelta(seconds=301)
    await in_writer(lambda: Conversation.objects.filter(pk=run.conversation_id).update(deleted_at=then))
    answer = await people.as_alice.post(f"{path}/restore")
    assert (answer.status, answer.error["code"]) == (404, "conversation_not_found")


async def test_deleting_stops_the_runs_by_the_callers_own_way(people: People) -> None:
    """R7, C5"""
    run = await in_writer(make_run, people.alice)
    browser = await people.in_browser(people.alice, X_CSRFToken="c" * 32)
    assert (await browser.ask("DELETE", f"/v1/conversations/{run.conversation.public_id}")).status == 200
    stopped = await in_reader(Run.objects.get, pk=run.pk)
    assert (stopped.status, stopped.stop_requested_by, stopped.stop_requested_via) == ("cancelled", "alice", "console")


async def test_only_the_owner_deletes_and_resets(people: People) -> None:
    run = await in_writer(finished_run, people.alice)
    path = f"/v1/conversations/{run.conversation.public_id}"
    assert (await people.as_charlie.ask("DELETE", path)).error["code"] == "not_yours"
    assert (await people.as_charlie.post(f"{path}/reset")).error["code"] == "not_yours"
    assert (await people.as_bob.ask("DELETE", path)).status == 404
    assert (await people.as_bob.post(f"{path}/reset")).status == 404
    assert (await people.stranger.ask("DELETE", path)).status == 401
    assert (await people.as_alice.get(path)).status == 200


async def test_a_reset_keeps_the_messages_and_is_refused_while_a_run_is_active(people: People) -> None:
    """P3"""
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    path = f"/v1/conversations/{run.conversation.public_id}"
    answer = await people.as_alice.post(f"{path}/reset")
    assert (answer.status, answer.error["code"]) == (409, "run_active")
    await in_writer(end_run, run)
    answer = await people.as_alice.post(f"{path}/reset")
    assert (answer.status, answer.json["context_from"]) == (200, 1)
    assert len((await people.as_alice.get(f"{path}/messages")).json["data"]) == 1


async def test_the_pool_is_for_staff(people: People) -> None:
    answer = await people.as_charlie.get("/v1/pool")
    assert (answer.status, answer.json) == (200, {"data": [], "next_cursor": None})
    answer = await people.as_alice.get("/v1/pool")
    assert (answer.status, answer.error["code"]) == (403, "not_allowed")
    assert (await people.stranger.get("/v1/pool")).status == 401
