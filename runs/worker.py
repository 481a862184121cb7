"""The worker: takes runs, keeps their leases, hears stops, holds the pool of live agents.

Several things go on side by side: listening (rings from the channel layer), taking (claims whatever is claimable),
watching (once a second, in case a ring got lost: stops, leases, work), the expiry of approvals, the journal's flusher,
the caretaker, and the window into the pool. Each run is a task. A ring is only a hint: everything it says is in the
database as well.

In a deployment of many workers the delivery of jobs (`runs.delivery`) goes on as well. A run goes by preference to the
worker whose pool holds its conversation's agent: that one is rung, and whoever gets the job lets it go first.

A shutdown is not a stop: the runs under way are handed back to the queue and go on elsewhere, or here after a restart.
A worker that drains takes no new ones and goes on with those it has.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from channels.layers import get_channel_layer
from django.conf import settings
from django.db import Error

from gateway.agent import Agent
from gateway.pool import AgentPool
from gateway.tools.registry import load_registry
from runs import actions, assembly, bell, metrics
from runs.actions import Claim
from runs.cancelling import end_tasks
from runs.caretaker import Caretaker
from runs.database import in_reader, in_writer
from runs.execution import Execution
from runs.journal import Journal
from runs.models.workers import SEEN_SECONDS
from runs.tasks import make_tasks
from runs.tracing import set_up_tracing
from runs.window import PoolWindow

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
REJOIN_SECONDS = 3600.0
CLAIMS_AT_ONCE = 32
HAND_BACK_SECONDS = 10.0
# How long a run is left to the worker that has its agent, before another takes it.
ADVANCE_SECONDS = 0.25
# Runs that waited for longer than this, though they could have been taken, were forgotten by their delivery.
OVERDUE_SECONDS = 1.0


def report_seconds() -> float:
    """How often a worker reports: well before its leases run out, and before anybody takes it for gone."""
    lease: float = settings.AGENTSITE["LEASE_SECONDS"]
    return min(lease, SEEN_SECONDS) / 4


class Worker:
    def __init__(self) -> None:
        self.name = f"{socket.gethostname()[:60]}-{os.getpid()}-{secrets.token_hex(3)}"
        self.registry = load_registry(settings.AGENTSITE["TOOL_MODULES"])
        self.pool: AgentPool[Agent] = AgentPool(
            capacity=settings.AGENTSITE["POOL_CAPACITY"], idle_seconds=settings.AGENTSITE["POOL_IDLE_SECONDS"]
        )
        self.tasks = make_tasks()
        self.caretaker = Caretaker(self.pool, self.tasks)
        self.window = PoolWindow(self.name, self.pool)
        self.journal = Journal(self.name)
        self.executions: dict[int, Execution] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._work = asyncio.Event()
        self._rung: list[int] = []
        self._left_over: list[int] = []
        self._looks_for_all = False
        self._claims_under_way = 0
        self._early_stops: dict[int, tuple[str, str]] = {}
        self.checked_in = asyncio.Event()
        self.is_draining = False
        self._is_leaving = False
        self._closing = asyncio.Event()
        self._closed = asyncio.Event()

    async def run(self) -> None:
        """Work until `shutdown`."""
        set_up_tracing()
        await in_writer(actions.check_in, self.name)
        self.checked_in.set()
        bell.workers_here[self.name] = self._hear
        flusher = asyncio.create_task(self.journal.run(), name="journal")
        around = [
            asyncio.create_task(self._listen(), name="listen"),
            asyncio.create_task(self._take(), name="take"),
            asyncio.create_task(self._watch(), name="watch"),
            asyncio.create_task(self._expire(), name="expire"),
            asyncio.create_task(self.caretaker.run(), name="caretaker"),
            asyncio.create_task(self.window.run(), name="window"),
        ]
        if settings.IS_SCALE_OUT:
            from runs.delivery import deliver_jobs  # procrastinate is there only in this deployment

            around.append(asyncio.create_task(deliver_jobs(self.name, self._deliver), name="deliver"))
        closing = asyncio.create_task(self._closing.wait())
        self._look_for_all()
        try:
            done, _ = await asyncio.wait({flusher, closing, *around}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {closing}:
                task.result()  # none of them ends by itself, except by an error that is ours to report
        finally:
            await end_tasks(*around, closing)
            del bell.workers_here[self.name]
            await self._hand_everything_back()
            self.journal.close()
            await asyncio.wait({flusher})
            await self.pool.close()
            await self.tasks.close()
            try:
                await in_writer(actions.check_out, self.name)
            except Error as error:
                logger.warning("The worker could not say that it leaves (%s); its leases will run out.", error)
            self._closed.set()

    async def shutdown(self, patience: float = 0) -> None:
        """Take no more runs, go on with those under way for so many seconds, and hand back the rest."""
        self.is_draining = self._is_leaving = True
        if patience and self._running:
            try:
                await in_writer(actions.drain_worker, self.name)
            except Error as error:
                logger.warning("The others could not be told that this worker leaves (%s).", error)
            hurried = asyncio.create_task(self._closing.wait())
            finishing = asyncio.create_task(self._finish())
            await asyncio.wait({finishing, hurried}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            hurried.cancel()
            finishing.cancel()
        self._closing.set()
        await self._closed.wait()

    async def _finish(self) -> None:
        while self._running:
            await asyncio.wait(set(self._running))

    def hurry(self) -> None:
        """End a shutdown's patience."""
        self._closing.set()

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
            case {"type": "work", "run": int(pk), "worker": str(worker)} if worker in ("", self.name):
                self._rung.append(pk)
                self._work.set()
            case {"type": "stop", "run": int(pk), "by": str(by), "via": str(via)}:
                self._stop(pk, by, via)
            case {"type": "drain", "worker": self.name, "is_draining": bool(is_draining)}:
                self._drain(is_draining)
            case {"type": "reset", "conversation": str(conversation_id)}:
                self.pool.evict_when_free(conversation_id, "reset")
            case {"type": "pool", "question": str(question)}:
                self.window.ask(question)
            case {"type": "evict", "question": str(question), "conversation": str(conversation_id)}:
                self.window.ask(question, evict=conversation_id)

    def _stop(self, pk: int, by: str, via: str) -> None:
        execution = self.executions.get(pk)
        if execution is not None:
            execution.stop(by, via)
        elif self._claims_under_way:
            # The run may be among those that are being claimed at this moment.
            self._early_stops[pk] = (by, via)

    async def _deliver(self, pk: int, worker: str) -> None:
        """A job says that this run can be taken, by that worker for preference."""
        if worker in ("", self.name):
            if self._room > 0:
                self._rung.append(pk)
            else:
                bell.ring_for_work(pk)
        else:
            await asyncio.sleep(ADVANCE_SECONDS)
            self._left_over.append(pk)
        self._work.set()

    # -- taking ----------------------------------------------------------------------------------------------------

    async def _take(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            rung, self._rung = self._rung, []
            left_over, self._left_over = self._left_over, []
            try:
                if rung:
                    await self._claim(partial(actions.claim_runs, rung=rung), len(rung))
                if left_over:
                    # Their turn may have come only now, by the end of a run in whose worker's hands they belong.
                    look = partial(actions.claim_runs, rung=left_over, overdue_seconds=ADVANCE_SECONDS / 2)
                    await self._claim(look, len(left_over))
                if self._looks_for_all:
                    self._looks_for_all = False
                    overdue = OVERDUE_SECONDS if settings.IS_SCALE_OUT else 0
                    look = partial(actions.claim_runs, overdue_seconds=overdue)
                    while await self._claim(look, CLAIMS_AT_ONCE):
                        pass
            except Error as error:
                logger.warning("Runs could not be taken (%s); trying again.", error)

    def _look_for_all(self) -> None:
        """Take whatever waits, rung for or not."""
        self._looks_for_all = True
        self._work.set()

    @property
    def _room(self) -> int:
        """For how many more runs."""
        if self.is_draining:
            return 0
        most: int = settings.AGENTSITE["MAX_CONCURRENT_RUNS"]
        return most - len(self.executions)

    async def _claim(self, claim_some: Callable[[str, int], list[Claim]], most: int) -> bool:
        """Take some runs. Whether there may be more."""
        room = min(self._room, most)
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
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _execute(self, execution: Execution) -> None:
        row = execution.run.agent
        conversation_id = execution.run.conversation.public_id
        tools = assembly.tools_of(row, self.registry)

        async def build() -> Agent:
            return assembly.make_agent(row, tools, self.tasks.of(conversation_id))

        try:
            signature = assembly.signature_of(row, list(tools.values()))
            async with self.pool.use(conversation_id, signature, build) as agent:
                if not await execution.execute(agent):
                    self.pool.evict_when_free(conversation_id, "out_of_step")
                elif agent.has_fallen_back:
                    self.pool.evict_when_free(conversation_id, "fallback")
        except Exception as error:
            logger.exception("Run %s could not be executed.", execution.run)
            await execution.fail(error)
        finally:
            was_full = len(self.executions) >= settings.AGENTSITE["MAX_CONCURRENT_RUNS"]
            # A run that was decided in this very moment may be here again, in another execution.
            if self.executions.get(execution.run.pk) is execution:
                del self.executions[execution.run.pk]
            if execution.journal.trace is not None:
                execution.journal.trace.end(execution.ended)
            if was_full:
                self._look_for_all()

    # -- watching --------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        renewed_at = asyncio.get_running_loop().time()
        while True:
            try:
                now = asyncio.get_running_loop().time()
                if now - renewed_at > report_seconds():
                    await self._report()
                    self.window.show()
                    renewed_at = now
                for run in await in_reader(actions.stop_requests, self.name):
                    self._stop(run.pk, run.stop_requested_by, run.stop_requested_via)
                look = partial(actions.claim_lost_runs, in_hand=list(self.executions))
                while await self._claim(look, CLAIMS_AT_ONCE):
                    pass
                self._look_for_all()
            except Error as error:
                logger.warning("The database is not available (%s); looking again in a moment.", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _expire(self) -> None:
        """All that is due, however much: on a Monday morning it may be a lot, and no stop should wait for it."""
        while True:
            after: int | None = 0
            try:
                while after is not None:
                    after = await in_writer(actions.expire_approvals, after)
            except Error as error:
                logger.warning("Approvals could not expire (%s); looking again in a moment.", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _report(self) -> None:
        pool = self.pool.stats()
        metrics.POOL_AGENTS.set(pool.size)
        metrics.POOL_REUSED.set(pool.hits)
        metrics.POOL_BUILT.set(pool.misses)
        self._drain(await in_writer(actions.report, self.name, list(self.executions)))

    def _drain(self, is_draining: bool) -> None:
        # Whoever wants it to drain may want it to go on again; its own shutdown is for good.
        if is_draining != self.is_draining and not self._is_leaving:
            self.is_draining = is_draining
            self._look_for_all()

    # -- leaving ---------------------------------------------------------------------------------------------------

    async def _hand_everything_back(self) -> None:
        for execution in list(self.executions.values()):
            execution.shut_down()
        if self._running:
            _, late = await asyncio.wait(set(self._running), timeout=HAND_BACK_SECONDS)
            for task in late:
                logger.error("%s did not end in time and is given up; its lease will run out.", task.get_name())
                task.cancel()
