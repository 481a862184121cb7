"""The worker: takes runs, keeps their leases, hears stops, holds the pool of live agents.

Four things go on side by side: listening (rings from the channel layer), taking (claims whatever is claimable),
watching (once a second, in case a ring got lost: stops, leases, work) and the journal's flusher. Each run is a task. A
ring is only a hint: everything it says is in the database as well.

A shutdown is not a stop: the runs under way are handed back to the queue and go on elsewhere, or here after a restart.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from channels.layers import get_channel_layer
from django.conf import settings
from django.db import Error
from django.utils import timezone

from gateway.agent import Agent
from gateway.pool import AgentPool
from gateway.tools.registry import load_registry
from runs import actions, assembly, bell
from runs.actions import Claim
from runs.database import in_reader, in_writer, writing
from runs.execution import Execution
from runs.journal import Journal
from runs.models import Worker as WorkerRow

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
SWEEP_SECONDS = 30.0
REJOIN_SECONDS = 3600.0
CLAIMS_AT_ONCE = 32
HAND_BACK_SECONDS = 10.0


class Worker:
    def __init__(self) -> None:
        self.name = f"{socket.gethostname()[:60]}-{os.getpid()}-{secrets.token_hex(3)}"
        self.registry = load_registry(settings.AGENTSITE["TOOL_MODULES"])
        self.pool: AgentPool[Agent] = AgentPool(
            capacity=settings.AGENTSITE["POOL_CAPACITY"], idle_seconds=settings.AGENTSITE["POOL_IDLE_SECONDS"]
        )
        self.journal = Journal(self.name)
        self.executions: dict[int, Execution] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._work = asyncio.Event()
        self._rung: list[int] = []
        self._looks_for_all = False
        self._claims_under_way = 0
        self._early_stops: dict[int, tuple[str, str]] = {}
        self._closing = asyncio.Event()
        self._closed = asyncio.Event()

    async def run(self) -> None:
        """Work until `shutdown`."""
        await in_writer(self._check_in, timezone.now())
        flusher = asyncio.create_task(self.journal.run(), name="journal")
        around = [
            asyncio.create_task(self._listen(), name="listen"),
            asyncio.create_task(self._take(), name="take"),
            asyncio.create_task(self._watch(), name="watch"),
            asyncio.create_task(self._sweep(), name="sweep"),
        ]
        closing = asyncio.create_task(self._closing.wait())
        self._look_for_all()
        try:
            done, _ = await asyncio.wait({flusher, closing, *around}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {closing}:
                task.result()  # none of them ends by itself, except by an error that is ours to report
        finally:
            for task in (*around, closing):
                task.cancel()
            await asyncio.wait({*around, closing})
            await self._hand_everything_back()
            self.journal.close()
            await asyncio.wait({flusher})
            await self.pool.close()
            await in_writer(self._check_out)
            self._closed.set()

    async def shutdown(self) -> None:
        self._closing.set()
        await self._closed.wait()

    # -- listening -------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        layer = get_channel_layer()
        assert layer is not None
        channel = await layer.new_channel()
        await layer.group_add(bell.WORKERS, channel)
        try:
            while True:
                try:
                    # A layer forgets members after a day: those who stay longer say so now and then.
                    async with asyncio.timeout(REJOIN_SECONDS):
                        while True:
                            self._hear(await layer.receive(channel))
                except TimeoutError:
                    await layer.group_add(bell.WORKERS, channel)
        finally:
            await layer.group_discard(bell.WORKERS, channel)

    def _hear(self, message: dict[str, Any]) -> None:
        match message:
            case {"type": "work", "run": int(pk)}:
                self._rung.append(pk)
                self._work.set()
            case {"type": "stop", "run": int(pk), "by": str(by), "via": str(via)}:
                self._stop(pk, by, via)

    def _stop(self, pk: int, by: str, via: str) -> None:
        execution = self.executions.get(pk)
        if execution is not None:
            execution.stop(by, via)
        elif self._claims_under_way:
            # The run may be among those that are being claimed at this moment.
            self._early_stops[pk] = (by, via)

    # -- taking ----------------------------------------------------------------------------------------------------

    async def _take(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            rung, self._rung = self._rung, []
            try:
                if rung:
                    await self._claim(partial(actions.claim_runs, rung=rung), len(rung))
                if self._looks_for_all:
                    self._looks_for_all = False
                    while await self._claim(actions.claim_runs, CLAIMS_AT_ONCE):
                        pass
            except Error as error:
                logger.warning("Runs could not be taken (%s); trying again.", error)

    def _look_for_all(self) -> None:
        """Take whatever waits, rung for or not."""
        self._looks_for_all = True
        self._work.set()

    async def _claim(self, claim_some: Callable[[str, int], list[Claim]], most: int) -> bool:
        """Take some runs. Whether there may be more."""
        room: int = min(settings.AGENTSITE["MAX_CONCURRENT_RUNS"] - len(self.executions), most)
        if room <= 0:
            return False
        self._claims_under_way += 1
        try:
            claims = await in_writer(claim_some, self.name, room)
            for claim in claims:
                self._begin(claim)
            for pk, (by, via) in self._early_stops.items():
                if pk in self.executions:
                    self._stop(pk, by, via)
        finally:
            self._claims_under_way -= 1
            if not self._claims_under_way:
                self._early_stops.clear()
        return len(claims) == room

    def _begin(self, claim: Claim) -> None:
        execution = Execution(claim, self.journal)
        self.executions[claim.run.pk] = execution
        if claim.run.stop_requested_at is not None:
            execution.stop(claim.run.stop_requested_by, claim.run.stop_requested_via)
        task = asyncio.create_task(self._execute(execution), name=f"run {claim.run}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _execute(self, execution: Execution) -> None:
        row = execution.run.agent
        conversation_id = execution.run.conversation.public_id
        tools = assembly.tools_of(row, self.registry)

        async def build() -> Agent:
            return assembly.make_agent(row, tools)

        try:
            signature = assembly.signature_of(row, list(tools.values()))
            async with self.pool.use(conversation_id, signature, build) as agent:
                if not await execution.execute(agent):
                    self.pool.evict_when_free(conversation_id, "out_of_step")
        except Exception as error:
            logger.exception("Run %s could not be executed.", execution.run)
            await execution.fail(error)
        finally:
            was_full = len(self.executions) >= settings.AGENTSITE["MAX_CONCURRENT_RUNS"]
            self.executions.pop(execution.run.pk, None)
            if was_full:
                self._look_for_all()

    # -- watching --------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        lease: float = settings.AGENTSITE["LEASE_SECONDS"]
        renewed_at = asyncio.get_running_loop().time()
        while True:
            try:
                now = asyncio.get_running_loop().time()
                if now - renewed_at > lease / 4:
                    await in_writer(self._renew)
                    renewed_at = now
                for run in await in_reader(actions.stop_requests, self.name):
                    self._stop(run.pk, run.stop_requested_by, run.stop_requested_via)
                while await self._claim(actions.claim_lost_runs, CLAIMS_AT_ONCE):
                    pass
                self._look_for_all()
            except Error as error:
                logger.warning("The database is not available (%s); looking again in a moment.", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.pool.sweep()

    def _check_in(self, now: datetime) -> None:
        with writing():
            WorkerRow.objects.create(name=self.name, started_at=now, seen_at=now)

    def _renew(self) -> None:
        actions.renew_leases(self.name, list(self.executions))
        with writing():
            seen = WorkerRow.objects.filter(name=self.name)
            seen.update(seen_at=timezone.now(), active_runs=len(self.executions))

    def _check_out(self) -> None:
        actions.hand_back_rest(self.name)
        with writing():
            WorkerRow.objects.filter(name=self.name).delete()

    # -- leaving ---------------------------------------------------------------------------------------------------

    async def _hand_everything_back(self) -> None:
        for execution in list(self.executions.values()):
            execution.shut_down()
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=HAND_BACK_SECONDS)
            for task in late:
                logger.error("%s did not end in time and is given up; its lease will run out.", task.get_name())
                task.cancel()
