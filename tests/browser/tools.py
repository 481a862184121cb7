"""Tools for the browser tests: what they return is what they are given."""

import asyncio

from gateway.tools.base import ToolError
from gateway.tools.registry import ToolContext, tool


@tool()
async def give(text: str) -> str:
    """Give back what it is given."""
    return text


@tool()
async def work(context: ToolContext) -> str:
    """Tell how far it is, and never end."""
    context.report("Half of it is done", 0.5)
    await asyncio.Event().wait()
    return "never"


@tool()
async def fail(text: str) -> str:
    """Fail with these words."""
    raise ToolError(text)
