"""Tools with an effect that can be counted: each call adds a line to the file that EFFECTS_FILE names.

A site loads them with AGENTSITE_TOOL_MODULES. None is repeatable: a line that stands there twice is a promise broken.
"""

import asyncio
import os
import signal
import time

from gateway.tools.registry import ToolContext, tool
from tests.faults import clocks  # noqa: F401

FOR_LONG = 60


def leave_a_mark(name: str, context: ToolContext) -> None:
    with open(os.environ["EFFECTS_FILE"], "a") as effects:
        effects.write(f"{name} {context.call_id}\n")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@tool()
async def mark(name: str, context: ToolContext) -> str:
    """Leave a mark."""
    leave_a_mark(name, context)
    return f"marked {name}"


@tool(approval="always")
async def mark_if_approved(name: str, context: ToolContext) -> str:
    """Leave a mark, if somebody wants it."""
    leave_a_mark(name, context)
    return f"marked {name}"


@tool()
async def mark_and_hang(name: str, context: ToolContext) -> str:
    """Leave a mark and never come back."""
    leave_a_mark(name, context)
    await asyncio.Event().wait()
    return "never"


@tool()
def mark_and_block(name: str, context: ToolContext) -> str:
    """Leave a mark, then hold a thread that nobody can interrupt."""
    leave_a_mark(name, context)
    time.sleep(FOR_LONG)
    return "too late"


@tool()
async def mark_and_die(name: str, context: ToolContext) -> str:
    """Leave a mark and take the process along."""
    leave_a_mark(name, context)
    die()
    return "never"


@tool()
async def die_and_mark(name: str, context: ToolContext) -> str:
    """Take the process along before there is a mark."""
    die()
    leave_a_mark(name, context)
    return "never"


@tool()
async def shout(bytes: int) -> str:
    """Say very much."""
    return "A" * bytes
