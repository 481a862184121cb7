"""Load on a fleet, one fault in the middle of it, and everything that has to hold afterwards."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import uuid4

import aiohttp

from tests.faults.calling import PATIENCE, Caller, Frame, Gone, Started, until
from tests.faults.promises import (
    check_conversation,
    check_log,
    read_effects,
    shown_text,
    tokens,
)
from tests.faults.scale.fleet import Fleet

TALKS = 8
RECOVERY_SECONDS = 30


@dataclass
class Order:
    """A run that was accepted, and what somebody saw and did of it."""

    run: Started
    count: int
    seen: list[Frame] = field(default_factory=list)
    is_stop_accepted: bool = False


class Storm:
    def __init__(self, fleet: Fleet, caller: Caller, chance: random.Random) -> None:
        self.fleet = fleet
        self.caller = caller
        self.chance = chance
        self.orders: list[Order] = []
        self.tally: Counter[str] = Counter()
        self.slowest = 0.0

    async def blow(self, name: str, fault: Callable[[], Awaitable[None]]) -> None:
        """Break something in the middle of the load; check what follows."""
        before = len(self.orders)
        is_over = asyncio.Event()
        talks = [asyncio.create_task(self._talk(is_over)) for _ in range(TALKS)]
        try:
            await until(lambda: len(self.orders) >= before + TALKS)
            await asyncio.sleep(self.chance.uniform(0, 1))
            await fault()
            mended_at = time.monotonic()
            is_over.set()
            await asyncio.gather(*talks)
        finally:
            for talk in talks:
                talk.cancel()
            await asyncio.gather(*talks, return_exceptions=True)
        seconds = time.monotonic() - mended_at
        self.slowest = max(self.slowest, seconds)
        assert seconds < RECOVERY_SECONDS, f"{name}: the last run ended {seconds:.0f} s after the repair"
        new = self.orders[before:]
        for order in new:
            await self._check(order)
        effects = read_effects(self.fleet.environment["EFFECTS_FILE"])  # none twice
        self.tally.update({"faults": 1, name: 1, "runs": len(new), "stops": sum(o.is_stop_accepted for o in new)})
        self.tally["effects"] = len(effects)
        attempts = self.fleet.ask(
            "SELECT coalesce(sum(greatest(attempt - 1, 0)), 0), coalesce(sum(losses), 0) FROM runs_run"
        )[0]
        self.tally["taken up again"], self.tally["lost workers"] = int(attempts[0]), int(attempts[1])

    # -- what people do

    async def _talk(self, is_over: asyncio.Event) -> None:
        """One conversation, run after run."""
        last: Started | None = None
        while not is_over.is_set():
            count = self.chance.randrange(1, 60)
            text = f"#tokens={count} #rate={self.chance.choice([0, 30, 100])}"
            if self.chance.random() < 0.5:
                text += f' #tool=mark {{"name": "{uuid4().hex}"}} #tool=wait {{"seconds": 0.2}}'
            agent = self.chance.choice(["sequential", "parallel"])
            fields = {"conversation": last.conversation_id} if last else {"agent": agent}
            last = await self._start(text, fields)
            order = Order(last, count)
            self.orders.append(order)
            watching = asyncio.create_task(self._watch(order))
            if self.chance.random() < 0.2:
                await asyncio.sleep(self.chance.uniform(0, 0.5))
                order.is_stop_accepted = await self._stop(last)
            await watching

    async def _start(self, text: str, fields: dict[str, str]) -> Started:
        """With a key, so that an answer that was lost can be asked for again."""
        key = uuid4().hex
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    status, answer = await self.caller.ask(
                        "POST", "/v1/runs", {"input": text, **fields}, Idempotency_Key=key
                    )
                except (*Gone, aiohttp.ContentTypeError):
                    status = 503
                if status == 202:
                    return Started(answer["run_id"], answer["conversation_id"])
                assert status == 503, answer
                await asyncio.sleep(0.1)

    async def _stop(self, run: Started) -> bool:
        """Whether it was accepted; otherwise the run had ended."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    status = await self.caller.stop(run)
                except Gone:
                    status = 503
                if status != 503:
                    assert status in (200, 404)
                    return status == 200
                await asyncio.sleep(0.1)

    async def _watch(self, order: Order) -> None:
        order.seen = await self.caller.watch_persistently(order.run)

    # -- what has to hold

    async def _check(self, order: Order) -> None:
        """R5, T4, T5, C2, C8, R16: nothing lost, nothing twice, one end."""
        log = await self.caller.log(order.run)
        check_log([frame.event for frame in log])
        assert order.seen == log, "a watcher that came back saw something else than the log"
        found = await self.caller.look(order.run)
        if order.is_stop_accepted:
            assert found["status"] == "cancelled"
        elif found["status"] != "cancelled":
            assert (found["status"], found["output"]) == ("completed", tokens(order.count)), found
            assert shown_text(log) == tokens(order.count)
        messages = await self.caller.messages(order.run)
        check_conversation(messages)
        asked = [message for message in messages if message["role"] == "user" and message["run_id"] == order.run.run_id]
        assert len(asked) == 1, "the question is lost"
