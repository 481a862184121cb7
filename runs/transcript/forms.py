"""A form made from a tool's JSON schema, filled with the arguments that the model chose.

Texts, numbers, choices, yes or no, objects inside objects, and lists of simple values get fields of their own; what a
form cannot express is edited as JSON. The server checks what comes back against the same schema, so the form need not.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SIMPLE = ("string", "number", "integer", "boolean")
DEEPEST = 4
LONG_TEXT = 60
# A text that may be longer than this is meant to have lines.
LONGEST_LINE = 1000


@dataclass(frozen=True, slots=True)
class Choice:
    value: str
    label: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Field:
    path: tuple[str, ...]
    label: str
    kind: str
    """text, long, number, integer, boolean, choice, list, object or json"""
    value: Any = ""
    help: str = ""
    is_required: bool = False
    choices: tuple[Choice, ...] = ()
    fields: tuple["Field", ...] = ()
    limits: dict[str, Any] = field(default_factory=dict)
    item: str = ""
    """Of a list: the type of what is in it."""

    @property
    def pointer(self) -> str:
        """The field's place in the arguments, for the script that puts them together again."""
        return json.dumps(self.path)


def make_fields(schema: Mapping[str, Any], arguments: Any) -> tuple[Field, ...]:
    if not isinstance(arguments, dict):
        arguments = {}
    return _fields_of(schema, arguments, (), schema.get("$defs") or {})


def _fields_of(
    schema: Mapping[str, Any], values: Mapping[str, Any], path: tuple[str, ...], definitions: Mapping[str, Any]
) -> tuple[Field, ...]:
    properties = schema.get("properties")
    properties = dict(properties) if isinstance(properties, dict) else {}
    # What the model sent and the schema does not name must be seen as well: it would be executed.
    for name in values:
        properties.setdefault(name, {})
    required = schema.get("required") or ()
    return tuple(
        _field_of(_resolve(part, definitions), values.get(name), (*path, name), name in required, definitions)
        for name, part in properties.items()
    )


def _resolve(schema: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A reference into the schema's own definitions, or one type besides null."""
    if not isinstance(schema, dict):
        return {}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        target = definitions.get(reference.removeprefix("#/$defs/"))
        return (
            {**target, **{key: part for key, part in schema.items() if key != "$ref"}}
            if isinstance(target, dict)
            else {}
        )
    options = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(options, list):
        real = [option for option in options if isinstance(option, dict) and option.get("type") != "null"]
        if len(real) == 1:
            return {
                **_resolve(real[0], definitions),
                **{key: schema[key] for key in ("title", "description") if key in schema},
            }
    return schema


def _field_of(
    schema: dict[str, Any], value: Any, path: tuple[str, ...], is_required: bool, definitions: Mapping[str, Any]
) -> Field:
    label = str(schema.get("title") or path[-1])
    help_text = str(schema.get("description") or "")
    kind = _kind_of(schema, value, len(path), definitions)
    common: dict[str, Any] = {"path": path, "label": label, "help": help_text, "is_required": is_required}
    match kind:
        case "object":
            inner = value if isinstance(value, dict) else {}
            return Field(**common, kind=kind, fields=_fields_of(schema, inner, path, definitions))
        case "choice":
            options = schema.get("enum") or ()
            choices = tuple(Choice(json.dumps(option), str(option), option == value) for option in options)
            return Field(**common, kind=kind, choices=choices, value=value)
        case "list":
            item = _resolve(schema.get("items"), definitions).get("type", "string")
            lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in value or ()]
            return Field(**common, kind=kind, value="\n".join(lines), item=item)
        case "json":
            text = "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)
            return Field(**common, kind=kind, value=text)
        case "number" | "integer":
            names = {"minimum": "min", "maximum": "max"}
            limits = {html: schema[name] for name, html in names.items() if isinstance(schema.get(name), int | float)}
            return Field(**common, kind=kind, value="" if value is None else value, limits=limits)
        case "boolean":
            return Field(**common, kind=kind, value=bool(value))
    return Field(**common, kind=kind, value="" if value is None else value)


def _kind_of(schema: dict[str, Any], value: Any, depth: int, definitions: Mapping[str, Any]) -> str:
    """How it is edited. The value decides too: a field that cannot show it would change it in silence."""
    if isinstance(schema.get("enum"), list):
        return "choice" if value is None or value in schema["enum"] else "json"
    match schema.get("type"):
        case "string" if value is None or isinstance(value, str):
            is_long = isinstance(value, str) and (len(value) > LONG_TEXT or "\n" in value)
            most = schema.get("maxLength")
            may_be_long = isinstance(most, int) and most > LONGEST_LINE
            return "long" if is_long or may_be_long or schema.get("format") == "multiline" else "text"
        case "integer" if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return "integer"
        case "number" if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return "number"
        case "boolean" if value is None or isinstance(value, bool):
            return "boolean"
        case "object" if (value is None or isinstance(value, dict)) and depth < DEEPEST and schema.get("properties"):
            return "object"
        case "array" if value is None or isinstance(value, list):
            item = _resolve(schema.get("items"), definitions).get("type")
            # One to a line: nothing in it may have lines of its own.
            is_plain = all(not isinstance(entry, dict | list) and "\n" not in str(entry) for entry in value or ())
            return "list" if item in SIMPLE and is_plain else "json"
        case None if isinstance(value, str):
            return "long" if len(value) > LONG_TEXT or "\n" in value else "text"
    return "json"
