"""The task of a conversation: what belongs to it and not to the agent that happens to work for it (contract P8).

Its working files and its background processes survive every agent: an agent that is evicted lets go of its model client
alone, and the next one for the same conversation finds the rest. Only the end of the conversation ends its task.
"""

import asyncio
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from gateway.background.processes import BackgroundSetup, Leashes, Processes, end_orphans
from gateway.files import FileLimits, Files

logger = logging.getLogger("gateway.task")

CONVERSATION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
LEAVE_SECONDS = 5.0


@dataclass(frozen=True)
class Task:
    files: Files
    processes: Processes

    @property
    def is_here(self) -> bool:
        """Whether this worker has anything of it."""
        return self.files.directory.exists() or self.processes.are_here

    async def end(self) -> None:
        """Processes first: they may still write. Can be repeated, and there may be nothing left to end."""
        await self.processes.end_all()
        await asyncio.to_thread(self.files.remove)


class Tasks:
    """The tasks of all conversations, under one directory, and the leashes of what this worker has started."""

    def __init__(self, directory: Path, limits: FileLimits, background: BackgroundSetup) -> None:
        self.files = directory / "files"
        self.background = directory / "background"
        self.limits = limits
        self.setup = background
        self._leashes = Leashes()

    def of(self, conversation_id: str) -> Task:
        if not CONVERSATION_ID.fullmatch(conversation_id):
            raise ValueError(f"{conversation_id!r} is no id of a conversation.")
        workplace = self.files / conversation_id
        processes = Processes(self.background / conversation_id, workplace, self.setup, self._leashes)
        return Task(Files(workplace, self.limits), processes)

    async def clean_up(self) -> None:
        """What a worker that was killed left running should have died with it; this makes sure."""
        count = await asyncio.to_thread(end_orphans, self.background, self.setup.grace_seconds)
        if count:
            logger.warning("%d background processes of a worker that is gone were ended.", count)

    async def close(self) -> None:
        """The worker leaves: its background processes end. Files stay."""
        await self._leashes.let_go(self.setup.grace_seconds + LEAVE_SECONDS)
