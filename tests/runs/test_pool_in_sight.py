"""The pool as people see it: counters, entries, and a button that obeys P5."""

import asyncio
import re

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from runs import pools
from runs.database import in_reader, in_writer
from runs.models import Worker
from tests.scripted import Gate


async def look() -> pools.Pool:
    (pool,) = await asyncio.to_thread(pools.look_at_pools)
    return pool


async def test_a_fresh_picture_is_there_when_somebody_asks(working) -> None:
    """P1: hits and misses; who is idle and who is not."""
    gate = Gate()
    run = await working.ended(await working.submit())
    await working.ended(await working.submit(conversation=run.conversation))
    working.script([gate])
    active = await working.submit(user=working.bob)
    await gate.reached.wait()
    pool = await look()
    assert pool.is_fresh
    assert (pool.capacity, pool.size, pool.active, pool.hits, pool.misses, pool.evictions) == (128, 2, 1, 1, 2, {})
    newest, oldest = pool.entries
    assert (newest.conversation_id, newest.state, newest.agent) == (active.conversation.public_id, "in use", "agent")
    assert (oldest.conversation_id, oldest.state) == (run.conversation.public_id, "idle")
    assert oldest.idle_seconds is not None
    assert re.fullmatch("[0-9a-f]{8}", oldest.signature)


async def test_an_idle_agent_is_let_go_and_one_in_a_run_is_not(working) -> None:
    """P5, P10: refused in the middle of a stream, and the run completes with its own agent."""
    gate = Gate()
    working.script(["Hel", gate, "lo."])
    run = await working.submit()
    await working.shown(run, "Hel")
    conversation_id = run.conversation.public_id
    assert await asyncio.to_thread(pools.evict_agent, conversation_id) == "active"
    assert not working.provider.is_closed
    gate.open()
    assert (await working.ended(run)).output == "Hello."
    await working.until(lambda: not working.worker.pool.is_active(conversation_id))
    assert await asyncio.to_thread(pools.evict_agent, conversation_id) == "evicted"
    assert await asyncio.to_thread(pools.evict_agent, conversation_id) == "absent"
    assert (await look()).evictions == {"manual": 1}
    again = await working.ended(await working.submit(conversation=run.conversation))
    assert again.status == "completed"
    await working.check(again)


async def test_a_live_run_is_not_touched_when_its_neighbours_are_evicted_around_it(working) -> None:
    """P3, P5"""
    neighbours = [await working.ended(await working.submit()) for _ in range(3)]
    gate = Gate()
    working.script(["Hel", gate, "lo."])
    run = await working.submit()
    await working.shown(run, "Hel")
    for neighbour in neighbours:
        assert await asyncio.to_thread(pools.evict_agent, neighbour.conversation.public_id) == "evicted"
    gate.open()
    run = await working.ended(run)
    assert run.output == "Hello."
    await working.check(run)


async def test_a_worker_that_does_not_answer_is_shown_as_it_was(working, monkeypatch) -> None:
    await working.ended(await working.submit())
    await look()
    monkeypatch.setattr("runs.pools.ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(working.worker.window, "ask", lambda question, evict=None: None)
    pool = await look()
    assert (pool.is_fresh, pool.size) == (False, 1)
    assert await asyncio.to_thread(pools.evict_agent, pool.entries[0].conversation_id) == "unanswered"


async def test_the_picture_is_also_renewed_without_a_question(working) -> None:
    await working.ended(await working.submit())
    working.worker.window.show()

    async def is_shown() -> bool:
        row = await in_reader(Worker.objects.get)
        return row.pool.get("size") == 1

    async with asyncio.timeout(20):
        while not await is_shown():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_large_pool_is_shown_in_part_and_says_so(working, monkeypatch) -> None:
    monkeypatch.setattr("runs.window.MOST_ENTRIES", 1)
    for _ in range(2):
        newest = await working.ended(await working.submit())
    pool = await look()
    assert [entry.conversation_id for entry in pool.entries] == [newest.conversation.public_id]
    assert pool.hidden == 1


async def test_the_page_shows_the_agents_and_its_button_lets_one_go(working) -> None:
    run = await working.ended(await working.submit())
    conversation_id = run.conversation.public_id

    def visit() -> None:
        client = Client()
        client.force_login(User.objects.create_superuser("root"))
        link = reverse("admin:runs_worker_pool")
        assert link in client.get(reverse("admin:runs_worker_changelist")).content.decode()
        page = client.get(link).content.decode()
        for words in (conversation_id, "idle", "1 of 128 places taken", "1 misses"):
            assert words in page
        page = client.post(link, {"conversation": conversation_id}, follow=True).content.decode()
        assert f"The agent of {conversation_id} was let go." in page
        assert "1 × manual" in page
        assert "No agent is alive." in page
        page = client.post(link, {"conversation": "conv_0"}, follow=True).content.decode()
        assert "There is no such conversation." in page

    await asyncio.to_thread(visit)
    assert conversation_id not in working.worker.pool


async def test_the_page_says_when_an_agent_was_left_alone(working) -> None:
    """P5"""
    gate = Gate()
    working.script([gate])
    run = await working.submit()
    await gate.reached.wait()

    def visit() -> str:
        client = Client()
        client.force_login(User.objects.create_superuser("root"))
        link = reverse("admin:runs_worker_pool")
        return client.post(link, {"conversation": run.conversation.public_id}, follow=True).content.decode()

    page = await asyncio.to_thread(visit)
    assert "is in the middle of a run and was left alone" in page
    assert working.worker.pool.is_active(run.conversation.public_id)


@pytest.mark.django_db
def test_who_may_only_look_has_no_button_and_others_no_page(client: Client) -> None:
    link = reverse("admin:runs_worker_pool")
    client.force_login(User.objects.create_user("alice"))
    assert client.get(link).status_code == 302
    dora = User.objects.create_user("dora", is_staff=True)
    client.force_login(dora)
    assert client.get(link).status_code == 403
    dora.user_permissions.add(Permission.objects.get(codename="view_worker"))
    assert "No worker has shown its pool" in client.get(link).content.decode()
    assert client.post(link, {"conversation": "conv_1"}).status_code == 403
    assert client.delete(link).status_code == 405


async def test_a_change_of_what_a_message_may_change_keeps_the_agent_and_its_prompt(working) -> None:
    """P1, P2: byte-identical from run to run, whatever the effort."""

    def instruct() -> None:
        working.agent.instructions = "Grüße alle."
        working.agent.save()

    await in_writer(instruct)
    run = await working.ended(await working.submit(reasoning_effort="low"))
    agent = await working.live_agent(run)
    await working.ended(await working.submit(conversation=run.conversation, reasoning_effort="high"))
    assert await working.live_agent(run) is agent
    first, second = working.provider.requests
    assert (first.reasoning_effort, second.reasoning_effort) == ("low", "high")
    assert first.system_prompt.encode() == second.system_prompt.encode() == "Grüße alle.".encode()
    assert list(second.messages[:1]) == list(first.messages), "the prefix is the same"
