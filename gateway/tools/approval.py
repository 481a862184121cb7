"""Whether a person decides before a call runs: the rule of a tool or of an agent, applied to the call's arguments.

A rule that cannot be applied asks: better one question too many than one call that nobody wanted.
"""

import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator, SchemaError

from gateway.messages import ToolCall
from gateway.outcomes import Ask
from gateway.text import storable_text
from gateway.tools.base import Rule, Tool
from gateway.tools.patterns import find_pattern_fault, is_fit, schemas_in

logger = logging.getLogger("gateway.tools")

KEYWORDS = {
    *Draft202012Validator.VALIDATORS,
    *("then", "else", "minContains", "maxContains", "$defs", "$schema", "$comment", "title", "description"),
    *("default", "examples", "deprecated", "readOnly", "writeOnly"),
}


def find_ask(call: ToolCall, tool: Tool, rule: Rule) -> Ask | None:
    """What a person must be asked before this call may run; None where nobody needs to be. Arguments that do not fit
    the tool need no approval: they go back to the model. So does whatever else goes wrong with them, for example a
    pattern in the tool's schema that cannot be applied: it goes wrong again where the call would run."""
    try:
        arguments = tool.parse_arguments(call.arguments)
    except Exception:
        return None
    if not _needs_approval(rule, arguments, tool):
        return None
    return Ask(call, _make_showable(arguments), tool.parameters, tool.description)


def find_fault(rule: object, parameters: Mapping[str, Any] | None) -> str | None:
    """What is wrong with a rule, as the end of a sentence; None where it is fine. `parameters` is the schema of the
    tool, where it is known: a rule on an argument that the tool does not have would never ask."""
    if rule in ("always", "never"):
        return None
    if not isinstance(rule, Mapping) or not rule:
        return 'must be "always", "never", or a JSON schema of the arguments that need approval.'
    try:
        Draft202012Validator.check_schema(dict(rule))
    except SchemaError as error:
        where = error.json_path.removeprefix("$").removeprefix(".")
        return f"is no valid JSON schema: {where + ': ' if where else ''}{error.message}."
    if unknown := [name for schema in schemas_in(rule) for name in schema if name not in KEYWORDS]:
        return f'has {unknown[0]!r}, which is no keyword of JSON schema; arguments stand under "properties".'
    if (fault := find_pattern_fault(rule)) is not None:
        return fault
    if parameters is not None and parameters.get("additionalProperties") is False:
        known = parameters.get("properties", {})
        if missing := [name for name in _named_arguments(rule) if name not in known]:
            return f"names the argument {missing[0]!r}, which the tool does not have; it has: {', '.join(known)}."
    return None


def is_looser(rule: Rule, default: Rule) -> bool:
    """Whether a rule may let through what the default would ask for. Of two different conditions nobody can tell."""
    if rule in ("always", default):
        return False
    return default != "never"


def _needs_approval(rule: Rule, arguments: dict[str, Any], tool: Tool) -> bool:
    if rule in ("always", "never"):
        return rule == "always"
    # What is left out runs with its default, so the rule must see that.
    fields: dict[str, dict[str, Any]] = tool.parameters.get("properties", {})
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    try:
        return is_fit(rule, {**defaults, **arguments})  # type: ignore[arg-type]
    except Exception:
        logger.exception("The approval rule for the tool %s cannot be applied; a person is asked.", tool.name)
        return True


def _named_arguments(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from schema.get("properties", {})
    yield from schema.get("required", ())
    parts = [part for name in ("allOf", "anyOf", "oneOf") for part in schema.get(name, ())]
    parts += [schema[name] for name in ("not", "if", "then", "else") if name in schema]
    for part in parts:
        if isinstance(part, Mapping):
            yield from _named_arguments(part)


def _make_showable(value: Any) -> Any:
    """What every database and every browser takes. An approved call runs with exactly this; where it changes a value's
    type, the tool refuses the call as it would have refused it anyway, or the model is told."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        return {_make_showable(name): _make_showable(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_make_showable(part) for part in value]
    if (isinstance(value, int) and abs(value) >= 2**63) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value
