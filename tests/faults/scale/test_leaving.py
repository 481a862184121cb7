"""Web servers that end while they are used: what they were asked is answered, and who follows comes back elsewhere."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import psycopg
import pytest

from tests.faults.calling import Caller, Started, until
from tests.faults.promises import check_run, shown_text, tokens, words_shown
from tests.faults.scale.fleet import Fleet
from tests.serving import Served


@contextmanager
def held(fleet: Fleet, run: Started) -> Iterator[psycopg.Connection]:
    """Whoever wants to add to the run's conversation waits as long as the block lasts."""
    with psycopg.connect(fleet.environment["DATABASE_URL"]) as connection:
        found = "SELECT 1 FROM runs_conversation WHERE public_id = %s FOR UPDATE"
        connection.execute(found, [run.conversation_id])
        yield connection


async def somebody_waits(fleet: Fleet) -> None:
    await until(lambda: fleet.ask("SELECT count(*) FROM pg_locks WHERE NOT granted") == [(1,)])


def takes_connections(web: Served) -> bool:
    """Sockets that listen on its port, as the kernel lists them."""
    listening = f":{web.port:04X} 00000000:0000 0A"
    with open("/proc/net/tcp") as table:
        return any(listening in line for line in table)


@asynccontextmanager
async def completion(caller: Caller, text: str) -> AsyncIterator[aiohttp.ClientResponse]:
    body = {"model": "demo", "stream": True, "messages": [{"role": "user", "content": text}]}
    async with caller.session.post("/v1/chat/completions", json=body) as response:
        assert response.status == 200
        yield response


async def test_a_web_server_that_ends_answers_what_it_was_asked(fleet: Fleet, caller: Caller) -> None:
    """R1: a rolling restart fails no call."""
    await fleet.start(web=0, workers=1)
    run = await caller.start("#tokens=1")
    await check_run(caller, run)
    with held(fleet, run):
        asking = asyncio.create_task(caller.start("#tokens=2", conversation=run.conversation_id))
        await somebody_waits(fleet)
        leaving = asyncio.create_task(fleet.stop(fleet.web[0]))
        await until(lambda: not takes_connections(fleet.web[0]))
    second = await asking
    assert await leaving == [0]
    fleet.web[0].start()
    assert (await check_run(caller, second))["output"] == tokens(2)


async def test_a_web_server_that_ends_lets_completions_finish_and_streams_come_back(
    fleet: Fleet, caller: Caller
) -> None:
    """R17, R5: who waits for an answer cannot ask for the rest of it elsewhere; who follows events can."""
    await fleet.start(web=1, workers=1)
    run = await caller.start("#tokens=400 #rate=100")
    async with completion(caller, "#tokens=150 #rate=100") as answer, Caller(fleet.web[1]) as elsewhere:
        seen = await caller.see(run, words_shown(3))
        async with caller.following(run) as frames:
            fleet.web[0].process.send_signal(signal.SIGTERM)
            fleet.web[0].is_up = False
            with pytest.raises((aiohttp.ClientError, StopAsyncIteration)):
                while True:
                    seen_last = await anext(frames)
        assert not seen_last.is_last
        text = (await answer.content.read()).decode()
        assert text.rstrip().endswith("data: [DONE]")
        assert "tok149" in text
        assert await asyncio.to_thread(fleet.web[0].process.wait, 30) == 0
        found = await check_run(elsewhere, run, seen)
        assert shown_text(await elsewhere.log(run)) == found["output"] == tokens(400)


@pytest.mark.parametrize("end", ["second signal", "time"])
async def test_the_patience_of_a_web_server_ends_and_nobody_has_stopped_anything(
    fleet: Fleet, caller: Caller, end: str
) -> None:
    """R17: a completion that was cut this way is nobody's stop; its run goes on."""
    fleet.environment["AGENTSITE_DRAIN_SECONDS"] = "600" if end == "second signal" else "1"
    await fleet.start(web=1, workers=1)
    leaving = fleet.web[0]
    async with completion(caller, "#tokens=300 #rate=40") as answer, Caller(fleet.web[1]) as elsewhere:
        await answer.content.readuntil(b"tok3")
        leaving.is_up = False

        leaving.process.send_signal(signal.SIGTERM)

        def has_left() -> bool:
            if end == "second signal":
                leaving.process.send_signal(signal.SIGTERM)
            return leaving.process.poll() is not None

        await until(has_left)
        assert leaving.process.returncode == 0
        [(run_id, conversation_id)] = fleet.ask(
            "SELECT run.public_id, conversation.public_id FROM runs_run run"
            " JOIN runs_conversation conversation ON conversation.id = run.conversation_id"
        )
        found = await check_run(elsewhere, Started(run_id, conversation_id))
        assert (found["status"], found["output"]) == ("completed", tokens(300))


class Proxy:
    """As one in front of the site does it: a server that takes no connection is passed over, and nothing else is
    tried twice."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.turn = 0
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        self.session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {fleet.key}"}, connector=connector, timeout=aiohttp.ClientTimeout(60)
        )

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        async with asyncio.timeout(60):
            while True:
                self.turn += 1
                web = self.fleet.web[self.turn % len(self.fleet.web)]
                try:
                    async with self.session.request(method, web.url + path, json=body) as response:
                        return response.status, await response.json()
                except aiohttp.ClientConnectorError:
                    continue


# A new process needs the processor as well.
PACE_SECONDS = 0.05


async def test_web_servers_are_replaced_under_load_without_a_failed_request(fleet: Fleet) -> None:
    """R1, R11, R17"""
    fleet.environment["AGENTSITE_POOL_CAPACITY"] = "1000"
    await fleet.start(web=2, workers=2)
    proxy = Proxy(fleet)
    is_over = asyncio.Event()
    runs: list[Started] = []
    answers: list[str] = []

    async def start_and_look() -> None:
        while not is_over.is_set():
            status, started = await proxy.ask("POST", "/v1/runs", {"input": "#tokens=3"})
            assert status == 202, started
            runs.append(Started(started["run_id"], started["conversation_id"]))
            status, found = await proxy.ask("GET", f"/v1/runs/{started['run_id']}")
            assert status == 200, found
            await asyncio.sleep(PACE_SECONDS)

    async def complete() -> None:
        body = {"model": "demo", "messages": [{"role": "user", "content": "#tokens=30 #rate=100"}]}
        while not is_over.is_set():
            status, answer = await proxy.ask("POST", "/v1/chat/completions", body)
            assert status == 200, answer
            answers.append(answer["choices"][0]["message"]["content"])

    load = [asyncio.create_task(start_and_look()) for _ in range(3)]
    load += [asyncio.create_task(complete()) for _ in range(3)]
    try:
        for web in fleet.web:
            before = len(runs), len(answers)
            await until(lambda before=before: len(runs) > before[0] + 10 and len(answers) > before[1])  # type: ignore[misc]
            assert await fleet.stop(web) == [0]
            await asyncio.to_thread(web.start)
        is_over.set()
        await asyncio.gather(*load)
    finally:
        for task in load:
            task.cancel()
        await asyncio.gather(*load, return_exceptions=True)
        await proxy.session.close()
    assert set(answers) == {tokens(30)}
    await fleet.all_ended()
    ended = dict(fleet.ask("SELECT public_id, output FROM runs_run"))
    assert {ended[run.run_id] for run in runs} == {tokens(3)}
    assert len(ended) == len(runs) + len(answers)
    print(f"{len(runs)} runs and {len(answers)} completions over two restarts, none failed")
