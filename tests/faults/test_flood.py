"""More calls than anybody should make: each is accepted or refused in words, and what is accepted is done."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.faults.calling import Caller, Gone, until
from tests.faults.databases import read_statuses
from tests.serving import Served

CALLS = 300
CONNECTIONS = 20
CALLS_A_MINUTE = 250

# So many conversations at once are more than the pool has places for, which it tells (P5).
pytestmark = pytest.mark.expects_log("the agent pool is over its capacity")


async def send_all(caller: Caller, count: int, send: Any) -> list[Any]:
    """`send(number)` for each number, from so many at a time."""
    numbers = iter(range(count))
    answers: list[Any] = []

    async def work() -> None:
        for number in numbers:
            answers.append(await send(number))

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    return answers


async def test_every_call_of_a_flood_is_accepted_or_refused_and_every_accepted_run_ends(
    site: Served, caller: Caller
) -> None:
    """R1, R16: half of them into one conversation, and too many for a minute."""
    site.environment["AGENTSITE_CALLS_PER_MINUTE"] = str(CALLS_A_MINUTE)
    site.start()
    busy = await caller.start("#tokens=1 #ttft=2")

    async def send(number: int) -> tuple[int, Any]:
        place = {"conversation": busy.conversation_id} if number % 2 else {}
        return await caller.ask("POST", "/v1/runs", {"input": "#tokens=3", **place})

    answers = await send_all(caller, CALLS, send)
    accepted = {busy.run_id} | {answer["run_id"] for status, answer in answers if status == 202}
    refused = Counter(answer["error"]["code"] for status, answer in answers if status == 429)
    print(f"{len(accepted)} accepted, refused: {dict(refused)}")
    assert len(accepted) + sum(refused.values()) == CALLS + 1
    # The rest of the conversation's hundred, and of the minute's calls.
    assert refused["queue_full"] > 0
    assert len(refused) == 2 or sum(refused.values()) == refused["queue_full"]

    def all_have_ended() -> bool:
        return set(read_statuses(site).values()) == {"completed"}

    await until(all_have_ended)
    assert set(read_statuses(site)) == accepted


async def test_what_was_accepted_before_a_kill_is_there_after_it_and_a_key_means_one_run(
    site: Served, caller: Caller
) -> None:
    """R15, T4: everybody sends again what they do not know to have arrived."""
    site.start()
    first: dict[int, Any] = {}

    async def send(number: int) -> tuple[int, Any]:
        body = {"input": f"#tokens=3 #rate=30 call {number}"}
        return await caller.ask("POST", "/v1/runs", body, Idempotency_Key=f"call {number}")

    async def try_to_send(number: int) -> None:
        try:
            status, answer = await send(number)
        except Gone:
            return
        assert status == 202
        first[number] = answer
        if len(first) == CALLS // 3:
            site.process.kill()

    await send_all(caller, CALLS, try_to_send)
    assert CALLS // 3 <= len(first) < CALLS
    await caller.found_dead()
    assert {answer["run_id"] for answer in first.values()} <= set(read_statuses(site))
    await caller.restart()

    again = dict(enumerate(await asyncio.gather(*(send(number) for number in range(CALLS)))))
    assert {status for status, _ in again.values()} == {202}
    assert all(again[number][1] == answer for number, answer in first.items())
    runs = {answer["run_id"] for _, answer in again.values()}
    assert len(runs) == CALLS
    await until(lambda: set(read_statuses(site).values()) == {"completed"})
    assert set(read_statuses(site)) == runs
    status, answer = await caller.ask("POST", "/v1/runs", {"input": "something else"}, Idempotency_Key="call 0")
    assert (status, answer["error"]["code"]) == (422, "idempotency_key_reused")
