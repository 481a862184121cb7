"""The tool `wait`: does nothing for a while, in sight, and shows that Stop means stop."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated

from pydantic import Field

from gateway.tools.registry import ToolContext, tool

LONGEST_SECONDS = 3600
REPORT_SECONDS = 0.5

Seconds = Annotated[float, Field(ge=0, le=LONGEST_SECONDS, description="How many seconds to wait.")]


@tool(repeatable=True, timeout=LONGEST_SECONDS + 60)
async def wait(seconds: Seconds, context: ToolContext) -> str:
    """Wait for a number of seconds, up to an hour, then go on."""
    await count_down(seconds, context.report)
    return f"Waited {seconds:g} seconds."


async def count_down(
    seconds: float,
    report: Callable[[str, float | None], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Measured by the clock, not by counting sleeps: those are always a little longer than asked for."""
    begun_at = clock()
    while (passed := clock() - begun_at) < seconds:
        report(f"{passed:.1f} of {seconds:g} seconds", passed / seconds)
        await sleep(min(REPORT_SECONDS, seconds - passed))
    report(f"{seconds:g} of {seconds:g} seconds", 1.0)
