"""What a tool is, what it is given, and how a call becomes a result that a model can read.

Nothing that a tool does may fail a run (contract E3): whatever goes wrong inside `Tool.call` comes back as a
`ToolResult` with `is_error`. Only a cancellation that somebody really asked for passes through.
"""

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from jsonschema import Draft202012Validator
from pydantic_core import to_json

from gateway.messages import ToolResult
from gateway.providers.base import ToolSpec
from gateway.task import Task
from gateway.text import storable_text
from gateway.tools.arguments import find_misfit, make_validator

logger = logging.getLogger("gateway.tools")

RESULT_LIMIT = 64 * 1024
# How deep arguments may be nested. Fixed, and far from what the stack holds: that depends on who calls, and whether a
# call needs approval must not.
DEEPEST = 64
# What the providers accept as the name of a function.
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

# Whether a person decides before a call runs. A mapping is a JSON schema: calls whose arguments fit it need approval.
Rule = Literal["never", "always"] | Mapping[str, Any]


class ToolError(Exception):
    """A failure that a tool expects. Its message goes to the model word for word."""


class BadArguments(ToolError):
    """The model's arguments do not fit; the message says what is wrong where."""


class Notes(Protocol):
    """The notes of one conversation. Where they are kept is the business of whoever supplies this."""

    async def remember(self, key: str, text: str) -> None: ...

    async def recall(self) -> dict[str, str]: ...


class Outbox(Protocol):
    """Where e-mails go. Whether anything leaves the machine is the business of whoever supplies this."""

    async def send(self, to: str, subject: str, body: str) -> None: ...


class NoOutbox:
    async def send(self, to: str, subject: str, body: str) -> None:
        raise ToolError("There is no outbox here, so nothing was sent.")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may use besides its arguments. `report` takes a text and a fraction from 0 to 1, or None."""

    conversation_id: str
    call_id: str
    notes: Notes
    report: Callable[[str, float | None], None]
    outbox: Outbox = field(default_factory=NoOutbox)
    task: Task | None = None
    """What the conversation keeps between runs: its files and its background processes."""


ToolFunction = Callable[[dict[str, Any], ToolContext], Awaitable[object]]


@dataclass(frozen=True)
class Tool:
    name: str
    description: str
    parameters: Mapping[str, Any]
    function: ToolFunction
    is_repeatable: bool
    """Safe to execute again when a crash left the outcome of a call unknown."""
    timeout_seconds: float
    version: str
    """Changes whenever the model must be told something new; part of an agent's signature."""
    approval: Rule = "never"
    """What holds where an agent says nothing else."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} cannot be a tool's name: letters, digits, _ and -, 64 at most.")

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.parameters)

    @cached_property
    def _validator(self) -> Draft202012Validator:
        return make_validator(self.parameters)

    def parse_arguments(self, raw: str) -> dict[str, Any]:
        """The model's JSON as a dict that fits the schema; raises `BadArguments`."""
        try:
            # Several providers send nothing at all for a call without arguments.
            arguments = json.loads(raw if raw.strip() else "{}", parse_constant=_refuse_constant)
        except RecursionError:
            raise BadArguments("The arguments are nested too deeply.") from None
        except ValueError as error:
            raise BadArguments(f"The arguments are not valid JSON: {error}.") from None
        if not isinstance(arguments, dict):
            raise BadArguments(f"The arguments must be a JSON object, not {type(arguments).__name__}.")
        if _is_too_deep(arguments):
            raise BadArguments("The arguments are nested too deeply.")
        if (misfit := find_misfit(self._validator, arguments)) is not None:
            raise BadArguments(misfit.text)
        return arguments

    async def call(self, raw_arguments: str, context: ToolContext) -> ToolResult:
        """One call, from the model's text to words for the model.

        Ends a call at `timeout_seconds` by cancelling it. A tool that ignores its cancellation is the caller's to
        abandon: the caller has to do that for a stop anyway."""
        deadline = asyncio.timeout(self.timeout_seconds)
        try:
            arguments = self.parse_arguments(raw_arguments)
            async with deadline:
                value = await self.function(arguments, context)
            return _make_result(value)
        except ToolError as error:
            return ToolResult(clean_text(str(error)), is_error=True)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled this call: something inside the tool was cancelled, and the tool let it escape.
            return self._report_failure(error)
        except TimeoutError as error:
            if not deadline.expired():
                return self._report_failure(error)
            return ToolResult(f"{self.name} took longer than {self.timeout_seconds:g} seconds and was ended.", True)
        except (Exception, SystemExit) as error:
            return self._report_failure(error)

    def _report_failure(self, error: BaseException) -> ToolResult:
        logger.error("tool %s failed", self.name, exc_info=error)
        # The last line of the traceback, without the traceback: enough for a model to try something else.
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return ToolResult(clean_text(f"{self.name} failed: {words}"), is_error=True)


def make_version(name: str, description: str, parameters: Mapping[str, Any], explicit: str) -> str:
    """Short and the same in every process. `explicit` is for a change of behaviour that the rest does not show."""
    whole = json.dumps([name, description, parameters, explicit], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:12]


def clean_text(text: str) -> str:
    """Text that every database and every socket takes (no NUL, no half of a surrogate pair), cut at the size limit."""
    text = storable_text(text)
    # A character is at least one byte, so this much is enough to see whether the text is too long.
    encoded = text[: RESULT_LIMIT + 1].encode()
    if len(encoded) <= RESULT_LIMIT:
        return encoded.decode()
    note = f"\n[Cut here: the whole result has {len(text):,} characters.]"
    return encoded[: RESULT_LIMIT - len(note)].decode("utf-8", "ignore") + note


def _make_result(value: object) -> ToolResult:
    if isinstance(value, ToolResult):
        return ToolResult(clean_text(value.content), value.is_error)
    return ToolResult(clean_text(value if isinstance(value, str) else to_json(value, fallback=str).decode()))


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        inner: list[object] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        if not inner:
            return False
        level = inner
    return True


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")
