"""The tool `remember`: keeps a note of this conversation under a key."""

from typing import Annotated

from pydantic import Field

from gateway.tools.base import clean_text
from gateway.tools.registry import ToolContext, ToolError, tool

Key = Annotated[str, Field(min_length=1, max_length=100, description="What the note is about, in a word or two.")]
Text = Annotated[str, Field(max_length=2000, description="The note itself.")]


# Repeatable: the same note under the same key changes nothing.
@tool(repeatable=True)
async def remember(key: Key, text: Text, context: ToolContext) -> str:
    """Keep a note for later in this conversation. A note with the same key is replaced."""
    key = clean_text(key).strip()
    if not key:
        raise ToolError("The key is blank: say what the note is about.")
    await context.notes.remember(key, clean_text(text))
    return f"Remembered under {key!r}."
