"""The tools `start_process`, `check_process` and `end_process`: work that goes on while the conversation does, and
between its runs."""

from typing import Annotated

from pydantic import Field

from gateway.background.commands import CommandProblem
from gateway.background.processes import Processes, ProcessProblem, ProcessState
from gateway.tools.registry import ToolContext, ToolError, tool

REASONS = {
    "itself": "ended by itself",
    "asked": "was ended on request",
    "time": "was ended because its time was over",
    "worker": "was ended because the server ended",
    "lost": "was lost: its keeper was killed",
}


def processes_of(context: ToolContext) -> Processes:
    if context.task is None:
        raise ToolError("There is nothing here that could run in the background.")
    return context.task.processes


@tool()
async def start_process(
    command: Annotated[str, Field(description="The name of a command, for example countdown.")],
    context: ToolContext,
    arguments: Annotated[list[str], Field(description="For example ['60'] for a countdown of a minute.")] = [],  # noqa: B006
) -> str:
    """Start a command in the background. It goes on while you do other things and after you have answered.

    `check_process` without an id lists the commands that there are."""
    try:
        state = await processes_of(context).start(command, arguments)
    except (ProcessProblem, CommandProblem) as problem:
        raise ToolError(str(problem)) from None
    return f"Started as {state.id}: {describe(state)}"


@tool(repeatable=True)
async def check_process(
    context: ToolContext,
    id: Annotated[str, Field(description="Which one, for example p1; all where none is named.")] = "",
    characters: Annotated[int, Field(ge=1, le=20_000, description="How much of the end of its output.")] = 4000,
) -> str:
    """Look at a background process: whether it runs, and the end of its output. Without an id: at all of them, and at
    what can be started."""
    processes = processes_of(context)
    if not id:
        states = [f"{state.id}: {describe(state)}" for state in await processes.states()]
        commands = [f"{name}: {command.description}" for name, command in sorted(processes.setup.commands.items())]
        return "\n".join([*(states or ["No process was started yet."]), "", "What can be started:", *commands])
    try:
        state, output = await processes.look(id, characters)
    except ProcessProblem as problem:
        raise ToolError(str(problem)) from None
    return f"{describe(state)}\n{output or '(It has said nothing yet.)'}"


# Repeatable: what has ended is not ended again.
@tool(repeatable=True)
async def end_process(id: Annotated[str, Field(description="Which one, for example p1.")], context: ToolContext) -> str:
    """End a background process: it is asked to end, and killed if it does not within a few seconds."""
    try:
        state = await processes_of(context).end(id)
    except ProcessProblem as problem:
        raise ToolError(str(problem)) from None
    return describe(state)


def describe(state: ProcessState) -> str:
    line = " ".join([state.name, *state.arguments])
    if state.is_running:
        return f"{line} runs since {state.started_at}."
    code = "" if state.exit_code is None else f", exit code {state.exit_code}"
    return f"{line} {REASONS.get(state.reason, 'has ended')}{code}."
