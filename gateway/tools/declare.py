"""`@tool`: a typed Python function becomes a `Tool`; its hints become the schema, its docstring the description."""

import asyncio
import contextvars
import inspect
import threading
import typing
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from gateway.tools.approval import find_fault
from gateway.tools.base import BadArguments, Rule, Tool, ToolContext, make_version


def tool(
    *, repeatable: bool = False, timeout: float = 60.0, version: str = "1", approval: Rule = "never"
) -> Callable[[Callable[..., object]], Tool]:
    """Declare a tool. The function may be async, or plain: a plain one runs in a thread.

    A parameter annotated `ToolContext` is filled in and not shown to the model. `approval` says whether a person must
    decide before a call runs: "never", "always", or a JSON schema that fits the arguments for which one must."""

    def declare(function: Callable[..., object]) -> Tool:
        name = function.__name__
        description = inspect.getdoc(function)
        if not description:
            raise TypeError(f"The tool {name} needs a docstring: it tells the model what the tool is for.")
        model, context_parameter = _read_signature(function)
        parameters = _make_schema(model)
        if (fault := find_fault(approval, parameters)) is not None:
            raise TypeError(f"The approval rule of the tool {name} {fault}")

        async def run(arguments: dict[str, Any], context: ToolContext) -> object:
            values = _coerce_arguments(model, arguments)
            if inspect.iscoroutinefunction(function):
                if context_parameter:
                    values[context_parameter] = context
                return await function(**values)
            if context_parameter:
                values[context_parameter] = _for_threads(context)
            return await _call_in_thread(function, values)

        return Tool(
            name=name,
            description=description,
            parameters=parameters,
            function=run,
            is_repeatable=repeatable,
            timeout_seconds=timeout,
            version=make_version(name, description, parameters, version),
            approval=approval,
        )

    return declare


def _read_signature(function: Callable[..., object]) -> tuple[type[BaseModel], str | None]:
    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    context_parameter = None
    for parameter in inspect.signature(function).parameters.values():
        where = f"The parameter {parameter.name} of the tool {function.__name__}"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{where} cannot be passed by name.")
        if parameter.name not in hints:
            raise TypeError(f"{where} needs a type hint.")
        if hints[parameter.name] is ToolContext:
            context_parameter = parameter.name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    config = ConfigDict(extra="forbid", protected_namespaces=())
    return create_model(function.__name__, __config__=config, **fields), context_parameter


class _PlainSchema(GenerateJsonSchema):
    """Without the titles that pydantic makes out of parameter names: they cost tokens and say nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _make_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(schema_generator=_PlainSchema)
    schema.pop("title", None)
    return schema


def _coerce_arguments(model: type[BaseModel], arguments: dict[str, Any]) -> dict[str, Any]:
    """The schema has let these through; this gives them their Python types and runs what only pydantic can check."""
    try:
        values = model.model_validate(arguments)
    except ValidationError as error:
        wrong = [
            ": ".join((".".join(str(part) for part in one["loc"]), one["msg"]))
            for one in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise BadArguments("The arguments do not fit: " + "; ".join(wrong)) from None
    # Not model_dump: a nested model must arrive as that model.
    return {name: getattr(values, name) for name in model.model_fields}


async def _call_in_thread(function: Callable[..., object], values: dict[str, Any]) -> object:
    """In a thread of its own. Those of `asyncio.to_thread` are few, and Python waits for them when it ends: a tool that
    hangs would keep a place for ever, and the server from leaving."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: object, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def call() -> None:
        result, error = None, None
        try:
            result = context.run(_call_plain, function, values)
        except BaseException as caught:
            error = caught
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=call, name=f"tool {function.__name__}", daemon=True).start()
    return await future


def _call_plain(function: Callable[..., object], values: dict[str, Any]) -> object:
    try:
        return function(**values)
    except StopIteration as error:
        # A future cannot carry a StopIteration: asyncio would wait for the thread for ever.
        raise RuntimeError("StopIteration") from error


def _for_threads(context: ToolContext) -> ToolContext:
    """`report` belongs to the event loop; a plain function calls it from a thread."""
    loop = asyncio.get_running_loop()

    def report(text: str, fraction: float | None) -> None:
        loop.call_soon_threadsafe(context.report, text, fraction)

    return replace(context, report=report)
