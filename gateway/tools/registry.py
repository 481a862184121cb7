"""Which tools there are: the built-in ones and those of extra modules that a site names.

The words for writing a tool (`tool`, `ToolContext`, `ToolError`, …) can be imported from here as well, so that a tool's
file needs one import."""

import importlib
from collections.abc import Iterable, Sequence

from gateway.tools.base import BadArguments, Notes, Outbox, Tool, ToolContext, ToolError
from gateway.tools.declare import tool

__all__ = [
    "BadArguments",
    "Notes",
    "Outbox",
    "Registry",
    "RegistryError",
    "Tool",
    "ToolContext",
    "ToolError",
    "load_registry",
    "tool",
]

BUILT_IN = ("background", "calculator", "current_time", "files", "recall", "remember", "send_email", "wait")


class RegistryError(Exception):
    """The tools cannot be set up as asked; the message is for the person who configures them."""


class Registry:
    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}

    def register(self, tool: Tool) -> None:
        if tool.name in self._tools:
            raise RegistryError(f"There are two tools named {tool.name!r}.")
        self._tools[tool.name] = tool

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def names(self) -> list[str]:
        return sorted(self._tools)

    def select(self, names: Iterable[str]) -> dict[str, Tool]:
        """These tools by name, in the order given."""
        wanted = list(names)
        unknown = [name for name in wanted if name not in self._tools]
        if unknown:
            raise RegistryError(f"Unknown tools: {', '.join(unknown)}. There are: {', '.join(self.names())}.")
        return {name: self._tools[name] for name in wanted}


def load_registry(extra_modules: Sequence[str] = ()) -> Registry:
    """Every tool at the top level of the built-in modules and of `extra_modules` (dotted names)."""
    registry = Registry()
    for module_name in (*(f"gateway.tools.{name}" for name in BUILT_IN), *extra_modules):
        tools = _find_tools(module_name)
        if not tools:
            raise RegistryError(f"The tool module {module_name!r} has no tools at its top level.")
        for found in tools:
            # A module may import another's tool to build on it; that is the same tool, not a second one.
            if registry.get(found.name) is not found:
                registry.register(found)
    return registry


def _find_tools(module_name: str) -> list[Tool]:
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise RegistryError(f"The tool module {module_name!r} cannot be imported: {problem}") from error
    return [value for value in vars(module).values() if isinstance(value, Tool)]
