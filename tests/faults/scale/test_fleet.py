"""Many processes, and everything as with one: order, stop, affinity, draining."""

import asyncio
import signal

import aiohttp
import pytest

from tests.faults.calling import Caller, Started, until
from tests.faults.promises import (
    check_conversation_goes_on,
    check_run,
    has_seen,
    shown_text,
    tokens,
    words_shown,
)
from tests.faults.scale.conftest import OUTAGES
from tests.faults.scale.fleet import Fleet
from tests.serving import free_port
from tests.valkey import Valkey


async def test_runs_are_executed_by_workers_and_followed_at_any_web_server(fleet: Fleet, caller: Caller) -> None:
    """R1, R4"""
    await fleet.start(web=1, workers=2)
    runs = [await caller.start(f"#tokens={number}") for number in range(1, 7)]
    async with Caller(fleet.web[1]) as elsewhere:
        for number, run in enumerate(runs, start=1):
            assert (await check_run(elsewhere, run))["output"] == tokens(number)
            assert await caller.log(run) == await elsewhere.log(run)
    assert await fleet.stop() == [0, 0, 0, 0]


async def test_a_job_is_deferred_in_the_transaction_that_makes_the_run(fleet: Fleet, caller: Caller) -> None:
    """T5: accepted is stored, the way to a worker included; without workers both wait."""
    fleet.web[0].start()
    status, ready = await caller.ask("GET", "/readyz")
    assert (status, ready["status"], ready["problems"]) == (200, "ok", [])
    assert ready["warnings"] == ["No worker was seen in the last 15 seconds."]
    run = await caller.start("#tokens=3")
    found = fleet.ask(
        "SELECT job.status, run.status FROM procrastinate_jobs job JOIN runs_run run"
        " ON run.id = (job.args->>'run')::int WHERE run.public_id = %s",
        run.run_id,
    )
    assert found == [("todo", "queued")]
    # A job that is lost strands nobody: workers look for themselves.
    fleet.ask("DELETE FROM procrastinate_jobs")
    fleet.make_worker().start()
    assert (await check_run(caller, run))["output"] == tokens(3)


async def test_a_conversation_is_worked_on_by_one_at_a_time_and_in_order(fleet: Fleet, caller: Caller) -> None:
    """R16: over all workers, and the worker that ends one run takes the next itself."""
    await fleet.start(web=0, workers=3)
    first = await caller.start("#tokens=20 #rate=100")
    behind = [await caller.start(f"#tokens={number}", conversation=first.conversation_id) for number in range(1, 9)]
    for run in [first, *behind]:
        await check_run(caller, run)
    order = fleet.ask("SELECT public_id, last_worker FROM runs_run ORDER BY started_at, ended_at")
    assert [public_id for public_id, _ in order] == [run.run_id for run in [first, *behind]]
    assert len({name for _, name in order}) == 1
    said = [message["content"] for message in await caller.messages(first) if message["role"] == "assistant"]
    assert said == [tokens(20), *(tokens(number) for number in range(1, 9))]


async def test_a_run_goes_to_the_worker_that_has_its_agent(fleet: Fleet, caller: Caller) -> None:
    """P1: 4 workers, 12 conversations with 6 runs each, at the same time."""
    await fleet.start(web=0, workers=4)

    async def talk(number: int) -> None:
        run = await caller.start(f"#tokens={number + 1}")
        await caller.log(run)
        for _ in range(5):
            await caller.log(await caller.start("#tokens=2", conversation=run.conversation_id))

    await asyncio.gather(*(talk(number) for number in range(12)))
    counts = fleet.ask("SELECT count(*) FROM runs_run GROUP BY conversation_id")
    assert counts == [(6,)] * 12
    used = {name for (name,) in fleet.ask("SELECT DISTINCT last_worker FROM runs_run")}
    pools = "SELECT coalesce(sum((pool->>'hits')::int), 0), coalesce(sum((pool->>'misses')::int), 0) FROM runs_worker"
    await until(lambda: sum(fleet.ask(pools)[0]) == 72)  # as the workers report it
    hits, _ = fleet.ask(pools)[0]
    print(f"{hits} of 60 later runs found their agent, with {len(used)} of 4 workers at work")
    # A loaded machine may be slower than the advance that the right worker has.
    assert hits >= 48


async def test_a_run_does_not_wait_for_a_worker_that_died(fleet: Fleet, caller: Caller) -> None:
    """P10"""
    await fleet.start(web=0, workers=2)
    run = await caller.start("#tokens=2")
    await check_run(caller, run)
    gone = fleet.worker_of(run.run_id)
    gone.kill()
    # Its row looks alive for seconds.
    next_one = await caller.start("#tokens=3", conversation=run.conversation_id)
    assert (await check_run(caller, next_one))["attempt"] == 1
    assert fleet.worker_of(next_one.run_id) is not gone


async def test_an_approval_at_a_web_server_lets_the_worker_go_on(fleet: Fleet, caller: Caller) -> None:
    """R14"""
    await fleet.start(web=0, workers=3)
    run = await caller.start("send an email to bob@example.com", agent="demo")
    seen = await caller.see(run, has_seen("approval.requested"))
    decision = {"tool_call_id": seen[-1].event["tool_call_id"], "approve": True}
    status, answer = await caller.ask("POST", f"/v1/runs/{run.run_id}/approvals", {"decisions": [decision]})
    assert (status, answer["pending"]) == (202, 0)
    found = await check_run(caller, run, seen)
    assert (found["status"], found["attempt"]) == ("completed", 2)


async def test_a_stop_crosses_processes(fleet: Fleet, caller: Caller) -> None:
    """C1, C2, C3, R7, C12: by Redis, long before the once-a-second look."""
    await fleet.start(web=0, workers=2)
    receipts = []
    for _ in range(5):
        run = await caller.start("#tokens=500 #rate=50")
        await caller.see(run, words_shown(3))
        assert await caller.stop(run) == 200
        found = await check_run(caller, run)
        assert (found["status"], found["stop_reason"]) == ("cancelled", "cancelled")
        receipts.append(found["receipt"])
        await check_conversation_goes_on(caller, run)
    print("model closed after", [receipt["model_closed_ms"] for receipt in receipts], "ms")
    # Not one of five by the database alone.
    assert sorted(receipt["ended_ms"] for receipt in receipts)[2] < 500


@pytest.mark.expects_log(*OUTAGES)
async def test_without_redis_a_stop_takes_the_way_through_the_database(
    fleet: Fleet, caller: Caller, valkey: Valkey
) -> None:
    """C1, C2: and runs start, end and are followed, too."""
    await fleet.start(web=0, workers=2)
    run = await caller.start("#tokens=1000 #rate=50")
    await caller.see(run, words_shown(3))
    valkey.kill()
    assert await caller.stop(run) == 200
    found = await check_run(caller, run)
    assert found["status"] == "cancelled"
    print(f"stopped after {found['receipt']['ended_ms']} ms")
    assert found["receipt"]["ended_ms"] < 2000
    without = await caller.start("#tokens=40 #rate=100")
    assert (await check_run(caller, without))["output"] == tokens(40)

    valkey.start()
    await until(lambda: all("Redis answers again" in process.log for process in fleet.workers))
    with_it = await caller.start("#tokens=40 #rate=100")
    assert (await check_run(caller, with_it))["output"] == tokens(40)


async def test_a_worker_that_gets_sigterm_finishes_what_it_can(fleet: Fleet, caller: Caller) -> None:
    """Draining: what ends within the grace period ends here, the rest goes on elsewhere, and nothing is doubled."""
    await fleet.start(web=0, workers=2)
    short = [await caller.start("#tokens=60 #rate=60") for _ in range(6)]
    long = [
        await caller.start('#tool=mark {"name": "long"} #tokens=600 #rate=60', agent="sequential") for _ in range(6)
    ]
    seen = {run: await caller.see(run, words_shown(3)) for run in [*short, *long]}
    leaving = fleet.worker_of(long[0].run_id)
    its_short = [run for run in short if fleet.worker_of(run.run_id) is leaving]
    leaving.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(leaving.process.wait, 30) == 0
    leaving.is_up = False
    for run in its_short:
        assert (await caller.look(run))["attempt"] == 1
    for run in [*short, *long]:
        found = await check_run(caller, run, seen[run])
        count = 60 if run in short else 600
        assert (found["status"], found["output"]) == ("completed", tokens(count))
        assert shown_text(await caller.log(run)) == tokens(count)
    assert (await caller.look(long[0]))["attempt"] == 2
    # Handed over is not lost.
    assert fleet.ask("SELECT sum(losses) FROM runs_run") == [(0,)]


async def test_a_second_signal_ends_the_patience_of_a_worker(fleet: Fleet, caller: Caller) -> None:
    """What it has is handed over at once."""
    fleet.environment["AGENTSITE_DRAIN_SECONDS"] = "600"
    await fleet.start(web=0, workers=1)
    run = await caller.start("#tokens=300 #rate=60")
    await caller.see(run, words_shown(3))
    leaving = fleet.workers[0]
    leaving.is_up = False

    def has_left() -> bool:
        leaving.process.send_signal(signal.SIGTERM)
        return leaving.process.poll() is not None

    await until(has_left)
    assert leaving.process.returncode == 0
    assert fleet.statuses()[run.run_id] == "queued"
    await asyncio.to_thread(fleet.make_worker().start)
    assert (await check_run(caller, run))["output"] == tokens(300)


async def test_a_rolling_restart_under_load_breaks_nothing(fleet: Fleet, caller: Caller) -> None:
    """R5, T4, T5: workers and web servers are replaced one after another while runs start, stream and end."""
    await fleet.start(web=1, workers=2)
    is_over = asyncio.Event()
    started: list[Started] = []

    async def load(number: int) -> None:
        last: Started | None = None
        while not is_over.is_set():
            order = {"conversation": last.conversation_id} if last else {}
            last = (
                await caller.start(f'#tool=mark {{"name": "m{number}"}} #tokens=30 #rate=60', agent="parallel", **order)
                if not last
                else await caller.start("#tokens=30 #rate=60", **order)
            )
            started.append(last)
            await caller.watch_persistently(last)

    loading = [asyncio.create_task(load(number)) for number in range(6)]
    await until(lambda: len(started) >= 6)
    for worker in list(fleet.workers):
        await asyncio.to_thread(fleet.make_worker().start)
        assert await fleet.stop(worker) == [0]
    # A proxy would send nothing to the one that is replaced; here the load is at the other.
    assert await fleet.stop(fleet.web[1]) == [0]
    await asyncio.to_thread(fleet.web[1].start)
    is_over.set()
    await asyncio.gather(*loading)
    for run in started:
        found = await check_run(caller, run)
        assert (found["status"], found["output"]) == ("completed", tokens(30))
    print(f"{len(started)} runs, none lost")


@pytest.mark.expects_log("was taken over by another worker", "The database is not available")
async def test_a_frozen_worker_is_replaced_and_writes_nothing_more(fleet: Fleet, caller: Caller) -> None:
    """T4, T5, C2"""
    await fleet.start(web=0, workers=2)
    run = await caller.start("#tokens=200 #rate=60")
    seen = await caller.see(run, words_shown(30))
    frozen = fleet.worker_of(run.run_id)
    frozen.process.send_signal(signal.SIGSTOP)
    try:
        found = await check_run(caller, run, seen)
        log = await caller.log(run)
    finally:
        frozen.process.send_signal(signal.SIGCONT)
    assert (found["status"], found["output"], found["attempt"]) == ("completed", tokens(200), 2)
    assert shown_text(log) == tokens(200)
    await until(lambda: "was taken over by another worker" in frozen.log)
    assert await caller.log(run) == log
    assert await fleet.stop(frozen) == [0]


async def test_a_worker_says_whether_it_is_ready(fleet: Fleet, caller: Caller) -> None:
    port = free_port()
    fleet.environment.update(AGENTSITE_WORKER_PORT=str(port), AGENTSITE_METRICS_TOKEN="token")
    fleet.web[0].start()
    worker = fleet.make_worker()
    await asyncio.to_thread(worker.start)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

        async def ask(path: str, **headers: str) -> tuple[int, str]:
            async with session.get(path, headers=headers) as answer:
                return answer.status, await answer.text()

        assert (await ask("/healthz"))[0] == 200
        assert (await ask("/readyz"))[0] == 200
        assert (await ask("/metrics"))[0] == 404
        status, figures = await ask("/metrics", Authorization="Bearer token")
        assert status == 200
        assert "agentsite_workers 1.0" in figures
        fleet.ask("UPDATE runs_worker SET is_draining = true")

        async def is_not_ready() -> bool:
            return await ask("/readyz") == (503, '{"status": "not ready", "problems": ["The worker is draining."]}')

        await until(is_not_ready)
