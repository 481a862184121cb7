"""Keeps the worker's house: lets idle agents go, ends what belonged to deleted conversations, empties the trash, and
makes sure that no process of an earlier worker is left.

Nothing here is urgent, everything can be repeated, and whatever fails is tried again at the next look.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from django.db import Error
from django.utils import timezone

from gateway.agent import Agent
from gateway.pool import AgentPool
from gateway.task import Tasks
from runs import actions
from runs.database import in_reader, in_writer
from runs.models import Conversation

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
ENDED_AT_ONCE = 20
# How far back to look for what other workers have ended: their clocks may differ.
LATE = timedelta(minutes=10)


class Caretaker:
    def __init__(self, pool: AgentPool[Agent], tasks: Tasks) -> None:
        self.pool = pool
        self.tasks = tasks
        self._ended_since: datetime | None = None

    async def run(self) -> None:
        await self._try(self.tasks.clean_up)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.pool.sweep()
            await self._try(self.end_deleted)
            await self._try(self.empty_trash)

    async def _try(self, work: Callable[[], Awaitable[None]]) -> None:
        """No run should suffer because the house is not in order."""
        try:
            await work()
        except Error as error:
            logger.warning("The database is not available (%s); looking again in a moment.", error)
        except Exception:
            logger.exception("Something was not put in order; trying again in a moment.")

    async def empty_trash(self) -> None:
        while await in_writer(actions.purge_some):
            pass

    async def end_deleted(self) -> None:
        """Hard (P8): the tasks of conversations that were deleted and can no longer be restored."""
        await in_writer(actions.stop_deleted_runs)
        last = 0
        # To the last of them: those that cannot be removed must not stand before the others for ever.
        while some := await in_reader(actions.conversations_to_end, last, ENDED_AT_ONCE):
            last = some[-1].pk
            for conversation in some:
                if await self._try_to_end(conversation):
                    await in_writer(actions.note_task_ended, conversation)
        await self._end_what_is_left()

    async def _end_what_is_left(self) -> None:
        """Of conversations that another worker has ended: their agent may live here, and so may their processes and, on
        a machine of its own, their files."""
        looked_at = timezone.now()
        ended = await in_reader(actions.ended_conversations, self._ended_since)
        left = [conversation for conversation in ended if conversation.public_id in self.pool]
        left += await asyncio.to_thread(self._find_here, [one for one in ended if one not in left])
        if all([await self._try_to_end(conversation) for conversation in left]):
            self._ended_since = looked_at - LATE

    def _find_here(self, ended: list[Conversation]) -> list[Conversation]:
        return [conversation for conversation in ended if self.tasks.of(conversation.public_id).is_here]

    async def _try_to_end(self, conversation: Conversation) -> bool:
        try:
            return await self._end_task(conversation)
        except Exception:
            logger.exception("What belonged to %s could not be removed; trying again.", conversation.public_id)
            return False

    async def _end_task(self, conversation: Conversation) -> bool:
        """With its live agent, where there is one. False while a run is still leaving it."""
        conversation_id = conversation.public_id
        if conversation_id in self.pool and not await self.pool.end(conversation_id):
            return False
        # Also where the agent's own end has done it: a failure there is only logged, and this one counts.
        await self.tasks.of(conversation_id).end()
        return True
