"""The tools `write_file`, `read_file` and `list_files`: text in the conversation's own folder, and nowhere else."""

from typing import Annotated

from pydantic import Field

from gateway.files import FileProblem, Files
from gateway.tools.registry import ToolContext, ToolError, tool

# Less than a tool's result may have, so that a page ends where it says that it ends.
PAGE_CHARACTERS = 12_000
MOST_LISTED = 500

FilePath = Annotated[str, Field(description="Relative to the conversation's folder, for example notes/plan.txt.")]


def files_of(context: ToolContext) -> Files:
    if context.task is None:
        raise ToolError("There is no folder for files here.")
    return context.task.files


# Repeatable: the same text in the same place changes nothing.
@tool(repeatable=True)
def write_file(
    path: FilePath, content: Annotated[str, Field(description="The whole text of the file.")], context: ToolContext
) -> str:
    """Write a text file in this conversation's folder. A file that is there already is replaced; folders are made."""
    try:
        files_of(context).write(path, content)
    except FileProblem as problem:
        raise ToolError(str(problem)) from None
    return f"Written: {path}, {len(content.encode()):,} bytes."


@tool(repeatable=True)
def read_file(
    path: FilePath,
    context: ToolContext,
    offset: Annotated[int, Field(ge=1, description="The first line to read; the first of all is 1.")] = 1,
    limit: Annotated[int, Field(ge=1, le=5000, description="How many lines at most.")] = 500,
) -> str:
    """Read a text file of this conversation's folder, or a part of it by lines."""
    try:
        lines = files_of(context).read(path).splitlines(keepends=True)
    except FileProblem as problem:
        raise ToolError(str(problem)) from None
    if not lines:
        return "(The file is empty.)"
    if offset > len(lines):
        raise ToolError(f"{path} has {len(lines)} lines.")
    shown: list[str] = []
    length = 0
    for line in lines[offset - 1 : offset - 1 + limit]:
        if shown and length + len(line) > PAGE_CHARACTERS:
            break
        shown.append(line)
        length += len(line)
    text = "".join(shown)
    last = offset + len(shown) - 1
    if last < len(lines):
        text = text.rstrip("\n") + f"\n[Lines {offset} to {last} of {len(lines)}; go on with offset {last + 1}.]"
    return text


@tool(repeatable=True)
def list_files(
    context: ToolContext,
    folder: Annotated[str, Field(description="A folder to look in; all of them where none is named.")] = "",
) -> str:
    """List the files of this conversation's folder with their sizes in bytes."""
    try:
        entries = files_of(context).entries(folder)
    except FileProblem as problem:
        raise ToolError(str(problem)) from None
    if not entries:
        return "There are no files yet."
    lines = [f"{entry.path}/" if entry.is_directory else f"{entry.path}  {entry.size:,}" for entry in entries]
    if len(lines) > MOST_LISTED:
        lines = [*lines[:MOST_LISTED], f"[{len(lines) - MOST_LISTED} more; name a folder to see less at once.]"]
    return "\n".join(lines)
