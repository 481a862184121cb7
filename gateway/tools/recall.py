"""The tool `recall`: reads the notes that `remember` kept in this conversation."""

from typing import Annotated

from pydantic import Field

from gateway.tools.registry import ToolContext, ToolError, tool

Key = Annotated[str | None, Field(max_length=100, description="The key of one note; all notes when left out.")]


@tool(repeatable=True)
async def recall(context: ToolContext, key: Key = None) -> dict[str, str] | str:
    """Read the notes that were kept in this conversation, by key."""
    notes = await context.notes.recall()
    if not notes:
        return "There are no notes in this conversation yet."
    if key is None or not key.strip():
        return notes
    if key.strip() not in notes:
        raise ToolError(f"There is no note under {key!r}. There are: {', '.join(sorted(notes))}.")
    return {key.strip(): notes[key.strip()]}
