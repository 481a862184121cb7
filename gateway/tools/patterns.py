"""The patterns of a rule, applied in a time that grows with the text and no faster.

The rule is an admin's and the text is the model's, so a pattern like `^(a+)+$` would sooner or later meet the text on
which Python's `re` is busy for years, on the event loop, with everybody waiting. The engine that pydantic brings along
knows no such texts. It knows no look-around and no references back either: a pattern with those is refused where a
rule is saved.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend
from pydantic_core import SchemaError, SchemaValidator, core_schema
from referencing import Registry as SchemaRegistry
from referencing.jsonschema import DRAFT202012


def is_fit(rule: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Whether arguments fit the schema that a rule is. Raises `ValueError` for a rule that is kept from before."""
    if (fault := find_pattern_fault(rule)) is not None:
        raise ValueError(f"The rule {fault}")
    # By its `$schema` jsonschema would choose a validator of its own, which applies patterns in its own way.
    schema = {keyword: value for keyword, value in rule.items() if keyword != "$schema"}
    # With a registry of our own, a rule cannot make us fetch its references.
    fits: bool = _RuleValidator(schema, registry=SchemaRegistry()).is_valid(arguments)
    return fits


def find_pattern_fault(rule: Mapping[str, Any]) -> str | None:
    """Why a rule's patterns cannot be applied, as the end of a sentence; None where they can."""
    schemas = list(schemas_in(rule))
    for pattern in [pattern for schema in schemas for pattern in _patterns_of(schema)]:
        try:
            _compile(pattern)
        except SchemaError as error:
            reason = str(error).splitlines()[-1].strip().removeprefix("error: ")
            return f"has the pattern {pattern!r}, which cannot be applied: {reason}."
    if any("$schema" in schema for schema in schemas[1:]):
        return 'has "$schema" inside; it may stand at the top only.'
    # jsonschema looks at the patterns once more there, in its own way.
    if all(any(name in schema for schema in schemas) for name in ("patternProperties", "unevaluatedProperties")):
        return 'has "unevaluatedProperties" beside "patternProperties", which cannot be applied together.'
    return None


def schemas_in(schema: Any) -> Iterator[Mapping[str, Any]]:
    """The schema, and all within it."""
    if isinstance(schema, Mapping):
        yield schema
        for part in DRAFT202012.create_resource(schema).subresources():
            yield from schemas_in(part.contents)


def _patterns_of(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from (schema["pattern"],) if "pattern" in schema else ()
    yield from schema.get("patternProperties", ())


@lru_cache(maxsize=1000)
def _compile(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def _is_found(pattern: str, text: str) -> bool:
    # Nothing is left out of the text that is judged: the call is made with all of it. Only half of a surrogate pair,
    # which the engine does not take, becomes U+FFFD.
    return _compile(pattern).isinstance_python(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _check_pattern(
    validator: Any, pattern: str, instance: object, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _is_found(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _check_pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: object, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, subschema in patterns.items():
            for name, value in instance.items():
                if _is_found(pattern, name):
                    yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _check_additional_properties(
    validator: Any, allowed: Any, instance: object, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """As ever, after the names that the patterns account for are taken out."""
    patterns = schema.get("patternProperties", {})
    if isinstance(instance, dict) and patterns:
        instance = {name: value for name, value in instance.items() if not any(_is_found(p, name) for p in patterns)}
        schema = {keyword: value for keyword, value in schema.items() if keyword != "patternProperties"}
    yield from Draft202012Validator.VALIDATORS["additionalProperties"](validator, allowed, instance, schema)


_RuleValidator = extend(
    Draft202012Validator,
    {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional_properties,
    },
)
