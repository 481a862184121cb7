"""What is asked at one web server and done by another process: with somebody busy, dead, or asking the same thing."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from uuid import uuid4

import psycopg
import pytest

from tests.faults.calling import Caller, Gone, Started, until
from tests.faults.promises import check_run, has_seen, read_effects, tokens, words_shown
from tests.faults.scale.conftest import OUTAGES
from tests.faults.scale.fleet import Fleet


@asynccontextmanager
async def two_callers(fleet: Fleet, first: Caller) -> AsyncIterator[tuple[Caller, Caller]]:
    """At two web servers, of which the fixture has made the first."""
    await fleet.start(web=1, workers=0)
    async with Caller(fleet.web[1]) as second:
        yield first, second


async def test_a_run_goes_to_another_worker_when_the_one_with_its_agent_is_busy_or_drains(
    fleet: Fleet, caller: Caller
) -> None:
    """P10, R16"""
    fleet.environment["AGENTSITE_MAX_CONCURRENT_RUNS"] = "1"
    await fleet.start(web=0, workers=2)
    run = await caller.start("#tokens=2")
    await check_run(caller, run)
    its = fleet.worker_of(run.run_id)
    # Each has room for one. Of the two that go on for long, one is with the worker in question.
    long = [await caller.start("#tokens=3000 #rate=50") for _ in range(2)]
    await until(lambda: [fleet.statuses()[one.run_id] for one in long] == ["running"] * 2)
    other = next(one for one in long if fleet.worker_of(one.run_id) is not its)
    assert await caller.stop(other) == 200
    second = await caller.start("#tokens=3", conversation=run.conversation_id)
    assert (await check_run(caller, second))["output"] == tokens(3)
    assert fleet.worker_of(second.run_id) is not its

    fleet.ask("UPDATE runs_worker SET is_draining = true WHERE name = %s", fleet.worker_of(second.run_id).name)
    [busy] = [one for one in long if one is not other]
    assert await caller.stop(busy) == 200
    third = await caller.start("#tokens=4", conversation=run.conversation_id)
    assert (await check_run(caller, third))["output"] == tokens(4)
    assert fleet.worker_of(third.run_id) is its


async def test_the_same_order_at_two_web_servers_at_once_is_one_run(fleet: Fleet, caller: Caller) -> None:
    """R15"""
    async with two_callers(fleet, caller) as callers:

        async def order(caller: Caller, key: str) -> tuple[int, str]:
            status, answer = await caller.ask("POST", "/v1/runs", {"input": "#tokens=2"}, Idempotency_Key=key)
            return status, answer.get("run_id")

        keys = [uuid4().hex for _ in range(15)]
        answers = await asyncio.gather(*(order(one, key) for key in keys for one in (*callers, *callers)))
        assert {status for status, _ in answers} == {202}
        assert len({run_id for _, run_id in answers}) == len(keys)
        assert fleet.ask("SELECT count(*) FROM runs_run") == [(len(keys),)]


async def test_an_approval_is_decided_elsewhere_after_the_worker_that_asked_died(fleet: Fleet, caller: Caller) -> None:
    """R14, T4"""
    async with two_callers(fleet, caller) as (here, elsewhere):
        await asyncio.to_thread(fleet.make_worker().start)
        run = await here.start('#tool=mark_if_approved {"name": "once"} #tokens=3', agent="sequential")
        seen = await here.see(run, has_seen("approval.requested"))
        await until(lambda: fleet.statuses()[run.run_id] == "requires_approval")
        fleet.workers[0].kill()
        await asyncio.to_thread(fleet.make_worker().start)
        decision = {"tool_call_id": seen[-1].event["tool_call_id"], "approve": True}
        order = ("POST", f"/v1/runs/{run.run_id}/approvals", {"decisions": [decision]})
        answers = await asyncio.gather(here.ask(*order), elsewhere.ask(*order))
        assert sorted(status for status, _ in answers) in ([202, 400], [202, 409])
        found = await check_run(elsewhere, run, seen)
        assert (found["status"], found["output"]) == ("completed", tokens(3))
        assert read_effects(fleet.environment["EFFECTS_FILE"]) == ["once"]


async def test_a_reset_and_a_deletion_reach_the_worker_that_has_the_agent(fleet: Fleet, caller: Caller) -> None:
    """P3, C2"""
    async with two_callers(fleet, caller) as (here, elsewhere):
        await fleet.start(web=0, workers=2)
        run = await here.start("#tokens=2")
        await check_run(here, run)
        assert (await elsewhere.ask("POST", f"/v1/conversations/{run.conversation_id}/reset"))[0] == 200
        second = await here.start("#tokens=2000 #rate=50", conversation=run.conversation_id)
        await here.see(second, words_shown(3))
        async with here.following(second) as frames:
            async with elsewhere.session.delete(f"/v1/conversations/{run.conversation_id}") as answer:
                assert answer.status in (200, 202, 204)
            seen = [frame async for frame in frames]
        assert seen[-1].type == "run.cancelled"
        assert fleet.ask("SELECT count(*) FROM runs_message WHERE position <= 2")[0][0] == 2
        assert set(fleet.statuses().values()) == {"completed", "cancelled"}


async def test_a_run_goes_on_when_the_web_server_of_its_completion_is_killed(fleet: Fleet, caller: Caller) -> None:
    """R17: nobody has closed the connection who could have wanted a stop. docs/openai.md says so."""
    async with two_callers(fleet, caller) as (here, elsewhere):
        await asyncio.to_thread(fleet.make_worker().start)
        body = {"model": "demo", "stream": True, "messages": [{"role": "user", "content": "#tokens=200 #rate=100"}]}
        async with here.session.post("/v1/chat/completions", json=body) as answer:
            await answer.content.readuntil(b"tok3")
            await here.kill()
            with pytest.raises(Gone):
                while await answer.content.readany():
                    pass
        [(run_id, conversation_id)] = fleet.ask(
            "SELECT run.public_id, conversation.public_id FROM runs_run run"
            " JOIN runs_conversation conversation ON conversation.id = run.conversation_id"
        )
        found = await check_run(elsewhere, Started(run_id, conversation_id))
        assert (found["status"], found["output"]) == ("completed", tokens(200))


async def test_jobs_for_nothing_harm_nobody_and_are_forgotten(fleet: Fleet, caller: Caller) -> None:
    """T5: a run that was removed before its job came, and jobs that are long done."""
    await fleet.start(web=0, workers=1)
    fleet.ask(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, args, status)"
        " SELECT 'runs', 'take_run', jsonb_build_object('run', 1000000 + number, 'worker', ''), 'todo'"
        " FROM generate_series(1, 50) AS number"
    )
    fleet.ask(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, args, status)"
        " SELECT 'runs', 'take_run', '{\"run\": 1, \"worker\": \"\"}', 'succeeded' FROM generate_series(1, 6000)"
    )
    run = await caller.start("#tokens=3")
    assert (await check_run(caller, run))["output"] == tokens(3)
    await until(
        lambda: fleet.ask("SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')") == [(0,)]
    )
    await until(lambda: fleet.ask("SELECT count(*) FROM procrastinate_jobs")[0][0] <= 5001)
    assert fleet.ask("SELECT count(*) FROM procrastinate_jobs WHERE status = 'failed'") == [(0,)]


@contextmanager
def all_connections_taken(url: str) -> Iterator[None]:
    """By others, for as long as the block lasts: nobody else has one."""
    with ExitStack() as stack, psycopg.connect(url, autocommit=True) as asking:
        taken = {asking.info.backend_pid}

        def take() -> None:
            with pytest.raises(psycopg.OperationalError, match="too many clients"):
                while True:
                    taken.add(stack.enter_context(psycopg.connect(url, autocommit=True)).info.backend_pid)

        take()
        others = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> ALL(%s)"
        while asking.execute(f"SELECT count(pg_terminate_backend(pid)) {others}", [list(taken)]).fetchone() != (0,):
            take()
        yield


@pytest.mark.expects_log(*OUTAGES)
async def test_a_database_without_a_free_connection_refuses_in_words(fleet: Fleet, caller: Caller) -> None:
    """503 in the envelope and no 500, also for those who watch over the site; afterwards all is well by itself."""
    fleet.web[0].start()
    run = await caller.start("#tokens=1")
    with all_connections_taken(fleet.environment["DATABASE_URL"]):
        calls = [("GET", "/v1/runs"), ("POST", f"/v1/runs/{run.run_id}/stop"), ("GET", "/readyz")]
        answers = await asyncio.gather(*(caller.ask(*call) for call in calls))
        assert [status for status, _ in answers] == [503, 503, 503]
        assert [answer["error"]["code"] for _, answer in answers[:2]] == ["database_unavailable"] * 2
        assert answers[2][1]["problems"] == ["The database does not answer."]
    await asyncio.to_thread(fleet.make_worker().start)

    async def is_well() -> bool:
        return (await caller.ask("GET", "/v1/runs"))[0] == 200

    await until(is_well)
    assert (await check_run(caller, run))["output"] == tokens(1)
