"""A worker, a scripted model and three people: alice and bob, who own what they start, and charlie, who is staff."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from gateway.agent import Agent as LiveAgent
from gateway.messages import Message as Said
from runs import actions, events
from runs.actions import Decision, RunOrder
from runs.database import in_reader, in_writer
from runs.journal import as_said
from runs.models import Agent, Approval, Conversation, Event, Message, OutboxEmail, Provider, Run
from runs.worker import Worker
from tests.scripted import ScriptedProvider, find_malformed


class NotInPool(Exception):
    """The worker's pool has let the agent go."""


class Stage:
    def __init__(self) -> None:
        self.provider = ScriptedProvider()
        self.worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed_tools: dict[str, dict[str, Any]] = {}
        self._frozen: list[tuple[Worker, asyncio.Task[None], asyncio.Event]] = []

    def set_up(self) -> None:
        self.alice = User.objects.create_user("alice")
        self.bob = User.objects.create_user("bob")
        self.charlie = User.objects.create_user("charlie", is_staff=True)
        provider = Provider.objects.create(name="Scripted", base_url="http://scripted.invalid/v1", max_retries=2)
        self.agent = actions.save_agent(
            Agent(
                slug="agent",
                name="Agent",
                provider=provider,
                model="scripted",
                is_default=True,
                tools=["current_time", "calculator", "wait", "remember", "recall", "send_email"],
            )
        )

    async def change_agent(self, **fields: Any) -> None:
        def change() -> None:
            agent = Agent.objects.select_related("provider").get(pk=self.agent.pk)
            for name, value in fields.items():
                setattr(agent, name, value)
            actions.save_agent(agent)

        await in_writer(change)

    def script(self, *answers: Any) -> ScriptedProvider:
        self.provider.answers = list(answers)
        return self.provider

    # -- the worker

    async def start_worker(self) -> Worker:
        self.worker = Worker()
        for name, changes in self._changed_tools.items():
            self.change_tool(name, **changes)
        self._task = asyncio.create_task(self.worker.run())
        return self.worker

    def change_tool(self, name: str, **changes: Any) -> None:
        """For this worker and those that are started later."""
        self._changed_tools[name] = changes
        if self.worker is not None:
            tools = self.worker.registry._tools
            tools[name] = replace(tools[name], **changes)

    async def stop_worker(self) -> None:
        if self.worker is not None and self._task is not None:
            await self.worker.shutdown()
            await self._task
        self.worker = self._task = None

    async def lose_worker(self, run: Run) -> None:
        """As a killed or frozen process looks from outside: from now on it takes, renews and writes nothing, and the
        lease of its run has run out. It is thawed at the end, when it may do no harm."""
        worker, task, thawed = self.worker, self._task, asyncio.Event()
        assert worker is not None
        assert task is not None
        write = worker.journal._write

        async def frozen_write(pages: Any) -> None:
            await thawed.wait()
            await write(pages)

        async def claim_nothing(claim_some: object, most: int) -> bool:
            return False

        async def report_nothing() -> None:
            pass

        worker.journal._write = frozen_write  # type: ignore[method-assign]
        worker._claim = claim_nothing  # type: ignore[method-assign]
        worker._report = report_nothing  # type: ignore[method-assign]
        self._frozen.append((worker, task, thawed))
        self.worker = self._task = None
        past = timezone.now() - timedelta(seconds=1)
        await in_writer(lambda: Run.objects.filter(pk=run.pk).update(lease_expires_at=past))

    async def thaw(self) -> None:
        for worker, task, thawed in self._frozen:
            thawed.set()
            await worker.shutdown()
            await task
        self._frozen.clear()

    async def told(self, run: Run, type: str) -> None:
        """Wait until a watcher has seen an event of this type."""
        async with asyncio.timeout(20):
            async for batch in events.follow_run(run):
                if any(line.type == type for line in batch):
                    return

    async def shown(self, run: Run, text: str) -> None:
        """Wait until a watcher has seen this much."""
        async with asyncio.timeout(20):
            seen = ""
            async for batch in events.follow_run(run):
                seen += "".join(
                    events.payload_of(line.text).get("text", "") for line in batch if line.type == "message.delta"
                )
                if text in seen:
                    return

    async def live_agent(self, run: Run) -> LiveAgent:
        assert self.worker is not None
        signature = next(
            slot.signature for key, slot in self.worker.pool._slots.items() if key == run.conversation.public_id
        )

        async def build() -> LiveAgent:
            raise NotInPool

        async with self.worker.pool.use(run.conversation.public_id, signature, build) as agent:
            return agent

    # -- what people do

    async def submit(self, text: str = "hello", *, conversation: Conversation | None = None, **order: Any) -> Run:
        order.setdefault("messages", [{"role": "user", "content": text}])
        if conversation is not None:
            order["conversation_id"] = conversation.public_id
        user = order.pop("user", self.alice)
        return await in_reader(actions.submit_run, user, RunOrder(**order))

    async def stop(self, run: Run, by: str = "alice", via: str = "api") -> Run:
        return await in_reader(actions.request_stop, run.pk, by=by, via=via)

    async def decide(self, run: Run, *decisions: Decision, by: User | None = None, via: str = "api") -> tuple[Run, int]:
        return await in_reader(actions.decide_approvals, run.pk, decisions, by=by or self.alice, via=via)

    async def approve(self, run: Run, *call_ids: str, by: User | None = None) -> tuple[Run, int]:
        return await self.decide(run, *(Decision(call_id, True) for call_id in call_ids), by=by)

    async def deny(self, run: Run, *call_ids: str, reason: str = "", by: User | None = None) -> tuple[Run, int]:
        return await self.decide(run, *(Decision(call_id, False, reason=reason) for call_id in call_ids), by=by)

    # -- what is there afterwards

    async def waiting(self, run: Run, calls: int = 1) -> Run:
        """Wait until so many calls of the run have been asked for, in all."""
        async with asyncio.timeout(20):
            asked = 0
            async for batch in events.follow_run(run):
                asked += sum(line.type == events.APPROVAL_REQUESTED for line in batch)
                if asked >= calls:
                    break
        run = await self.fresh(run)
        assert run.status == "requires_approval"
        return run

    async def approvals(self, run: Run) -> list[Approval]:
        return await in_reader(lambda: list(Approval.objects.filter(run=run).order_by("pk")))

    async def outbox(self) -> list[str]:
        """To whom e-mails were sent, in order."""
        return await in_reader(lambda: list(OutboxEmail.objects.order_by("pk").values_list("to", flat=True)))

    async def ended(self, run: Run) -> Run:
        """Wait for the end, as a watcher does."""
        async with asyncio.timeout(20):
            async for _ in events.follow_run(run):
                pass
        return await self.fresh(run)

    async def fresh(self, run: Run) -> Run:
        return await in_reader(Run.objects.select_related("conversation", "agent").get, pk=run.pk)

    async def events(self, run: Run) -> list[dict[str, Any]]:
        lines = await in_reader(
            lambda: list(Event.objects.filter(run=run).order_by("seq").values_list("line", flat=True))
        )
        return [json.loads(line) for line in lines]

    async def types(self, run: Run) -> list[str]:
        return [event["type"] for event in await self.events(run)]

    async def messages(self, run: Run) -> list[Said]:
        """The conversation's, not only the run's."""

        def read() -> list[Message]:
            return list(Message.objects.filter(conversation_id=run.conversation_id).order_by("position"))

        return [as_said(row) for row in await in_reader(read)]

    async def check(self, run: Run) -> None:
        """What holds after any run, however it ended."""
        told = await self.events(run)
        assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
        terminal = [event for event in told if event["type"] in events.TERMINAL_TYPES]
        assert terminal == told[-1:], "exactly one terminal event, and it is the last"
        run = await self.fresh(run)
        conversation = await in_reader(Conversation.objects.get, pk=run.conversation_id)
        assert run.stop_reason == terminal[0]["stop_reason"] == conversation.last_stop_reason
        assert terminal[0]["type"] == f"run.{run.status}"
        stored = await self.messages(run)
        assert find_malformed(stored) is None
        positions = await in_reader(
            lambda: list(Message.objects.filter(conversation_id=run.conversation_id).values_list("position", flat=True))
        )
        assert sorted(positions) == list(range(1, len(positions) + 1))
        if self.worker is not None and run.conversation.public_id in self.worker.pool._slots:
            context = stored[conversation.context_from :]
            # A run may end before the worker has let go of its agent: one that leaves meanwhile holds nothing.
            with contextlib.suppress(NotInPool):
                agent = await self.live_agent(run)
                # An agent that let go of a waiting run holds nothing of the conversation, and knows it.
                assert agent.history == (context if agent.last_position else []), "memory and database hold the same"
        approvals = await self.approvals(run)
        assert all(approval.status != "pending" for approval in approvals), "nobody is shown as awaiting"
        decided = [event["tool_call_id"] for event in told if event["type"] == events.APPROVAL_DECIDED]
        assert sorted(decided) == sorted(approval.tool_call_id for approval in approvals), "each decided once"

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.001)


async def set_the_stage(monkeypatch: Any) -> Stage:
    stage = Stage()
    monkeypatch.setattr("runs.assembly.make_provider", lambda provider: stage.provider)
    await in_writer(stage.set_up)
    return stage
