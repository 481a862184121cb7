"""Rings from any thread: tells watchers and workers, over the channel layer, that there is something to look at.

A ring may get lost; whoever waits for one looks at the database from time to time as well. Django's views and the
database threads are not on the event loop, and an in-memory layer wakes nobody on another loop, so a ring travels to
the loop that serves this process.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

logger = logging.getLogger(__name__)

WORKERS = "workers"

# How to tell the workers of this process, by their names.
workers_here: dict[str, Callable[[dict[str, Any]], None]] = {}

_home: asyncio.AbstractEventLoop | None = None
_ringing: set[asyncio.Task[None]] = set()


def live_at(loop: asyncio.AbstractEventLoop) -> None:
    """The event loop of this process, on which its watchers and its worker wait."""
    global _home
    _home = loop


async def send(group: str, message: dict[str, Any]) -> None:
    try:
        layer = get_channel_layer()
        assert layer is not None
        await layer.group_send(group, message)
    except Exception:
        logger.warning("A ring for %s was lost; who waits for it will look by itself.", group, exc_info=True)


def ring(group: str, message: dict[str, Any]) -> None:
    """Send without waiting, from any thread."""
    if _home is None or _home.is_closed():
        async_to_sync(send)(group, message)
        return
    _home.call_soon_threadsafe(_ring_here, group, message)


def ring_for_work(run_pk: int, worker: str = "") -> None:
    """Tell this worker, or all where none is named, that the run can be taken."""
    message = {"type": "work", "run": run_pk, "worker": worker}
    hear = workers_here.get(worker)
    if hear is not None and _home is not None and not _home.is_closed():
        _home.call_soon_threadsafe(hear, message)  # it needs no layer to hear itself
    else:
        ring(WORKERS, message)


def _ring_here(group: str, message: dict[str, Any]) -> None:
    task = asyncio.get_running_loop().create_task(send(group, message))
    _ringing.add(task)
    task.add_done_callback(_ringing.discard)
