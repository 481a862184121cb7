"""A window into a worker's pool, for people who sit in another process.

The worker writes what it holds to its row: whenever it renews that, and whenever somebody asks over the bell. Whoever
asks sends a question of their own, and finds it among the `answers` of the row: so no clocks are compared, and nobody
takes an old picture for a new one. A question that gets lost is asked again by the person.
"""

import asyncio
import logging
from collections import OrderedDict
from dataclasses import asdict
from typing import Any

from django.db import Error

from gateway.agent import Agent
from gateway.pool import AgentPool
from runs import actions
from runs.database import in_writer

logger = logging.getLogger(__name__)

# A pool of thousands need not be written down whole every few seconds.
MOST_ENTRIES = 500
MOST_ANSWERS = 50


class PoolWindow:
    def __init__(self, worker: str, pool: AgentPool[Agent]) -> None:
        self.worker = worker
        self.pool = pool
        self._is_due = asyncio.Event()
        self._questions: list[tuple[str, str | None]] = []
        self._answers: OrderedDict[str, str] = OrderedDict()

    def show(self) -> None:
        self._is_due.set()

    def ask(self, question: str, evict: str | None = None) -> None:
        """Somebody wants to see the pool, or one of its agents gone."""
        self._questions.append((question, evict))
        self._is_due.set()

    async def run(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            await self._answer_all()
            try:
                await in_writer(actions.show_pool, self.worker, self._take_picture())
            except Error as error:
                logger.warning("The pool could not be shown (%s); it will be, with the next look.", error)

    async def _answer_all(self) -> None:
        questions, self._questions = self._questions, []
        for question, conversation_id in questions:
            self._answers[question] = "shown" if conversation_id is None else await self._evict(conversation_id)
            if len(self._answers) > MOST_ANSWERS:
                self._answers.popitem(last=False)

    async def _evict(self, conversation_id: str) -> str:
        """As P5 allows: never from under a run."""
        if await self.pool.evict(conversation_id, "manual"):
            return "evicted"
        return "active" if conversation_id in self.pool else "absent"

    def _take_picture(self) -> dict[str, Any]:
        entries = self.pool.entries()
        return {
            **asdict(self.pool.stats()),
            "entries": [asdict(entry) for entry in reversed(entries[-MOST_ENTRIES:])],
            "answers": dict(self._answers),
        }
