"""The tool `send_email`: puts an e-mail into the outbox, after a person has approved it."""

from typing import Annotated

from pydantic import Field

from gateway.text import storable_text
from gateway.tools.registry import ToolContext, tool

Address = Annotated[
    str, Field(max_length=254, pattern=r"^[^@\s,;<>]+@[^@\s,;<>]+$", description="The e-mail address of one person.")
]
Subject = Annotated[str, Field(min_length=1, max_length=200)]
Body = Annotated[str, Field(max_length=20_000, description="Plain text.")]


# Not repeatable: nobody wants the same e-mail twice.
@tool(approval="always")
async def send_email(to: Address, subject: Subject, body: Body, context: ToolContext) -> str:
    """Send an e-mail to one person. Somebody approves it first."""
    await context.outbox.send(storable_text(to), storable_text(" ".join(subject.split())), storable_text(body))
    return f"It is in the outbox, addressed to {to}."
