"""Whether somebody may still watch. Event streams and websockets stay open for hours: who was signed out, switched off
or has a key that was revoked or has expired must not see more, and nobody what was deleted.

So whoever watches is looked at again from time to time, as if they came now. Between two looks nothing is asked: a run
streams hundreds of events a second.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeVar

from rest_framework.exceptions import APIException

from runs.actions import Refused
from runs.database import Unavailable, in_reader

logger = logging.getLogger(__name__)

T = TypeVar("T")
Look = Callable[[], object]

LOOK_SECONDS = 30.0
# What a look raises about somebody who would be refused.
Refusals = (APIException, Refused)


async def look_again(look: Look) -> None:
    """Raises one of `Refusals`. A database that is away refuses nobody."""
    try:
        await in_reader(look)
    except Unavailable as error:
        logger.info("A watcher could not be looked at again (%s).", error)


async def while_admitted(batches: AsyncGenerator[T, None], look: Look) -> AsyncGenerator[T, None]:
    """The same batches, of which one comes every few seconds; raises one of `Refusals` when nothing more may be
    passed on."""
    clock = asyncio.get_running_loop().time
    looked_at = clock()
    async with aclosing(batches):
        async for batch in batches:
            if clock() - looked_at >= LOOK_SECONDS:
                await look_again(look)
                looked_at = clock()
            yield batch
