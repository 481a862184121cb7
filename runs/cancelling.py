"""Ending tasks for sure.

A cancellation that comes in the very moment in which something completes can be swallowed by a library on the way:
`asyncio.wait_for` does so on Python 3.11, and Redis's client uses it. A worker that was told to end right after its
start waited for ever for its listener.
"""

import asyncio
from typing import Any

# Longer than anything takes that tidies up after its cancellation.
AGAIN_SECONDS = 3.0


async def end_tasks(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel them, as often as it takes, and wait. What they end with is nobody's business any more."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=AGAIN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)
