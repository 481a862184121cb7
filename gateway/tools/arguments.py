"""Arguments against a tool's JSON schema, and what is wrong with them in words that a model or a person can act on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match
from referencing import Registry as SchemaRegistry

EXPLAINED_ERRORS = 5
EXPLANATION_LIMIT = 300


def make_validator(schema: Mapping[str, Any]) -> Draft202012Validator:
    # With a registry of our own, a schema that came from elsewhere cannot make us fetch its references.
    return Draft202012Validator(dict(schema), registry=SchemaRegistry())


@dataclass(frozen=True, slots=True)
class Misfit:
    """What is wrong with arguments, and the place of the first that is."""

    text: str
    path: tuple[str | int, ...]


def find_misfit(validator: Draft202012Validator, arguments: Mapping[str, Any]) -> Misfit | None:
    """None where the arguments fit."""
    errors = sorted(validator.iter_errors(arguments), key=lambda error: error.json_path)
    if not errors:
        return None
    return Misfit(_list_errors([_explain_error(error) for error in errors]), tuple(errors[0].absolute_path))


def _explain_error(error: ValidationError) -> str:
    deepest = best_match([error]) or error
    path = deepest.json_path.removeprefix("$").removeprefix(".")
    # "is not valid under any of the given schemas" tells a model nothing: say what each of them wanted.
    message = " and ".join(child.message for child in deepest.context or ()) or deepest.message
    return f"{path}: {message}" if path else message


def _list_errors(explanations: list[str]) -> str:
    shown = [_shorten(text) for text in explanations[:EXPLAINED_ERRORS]]
    more = f" (and {len(explanations) - EXPLAINED_ERRORS} more)" if len(explanations) > EXPLAINED_ERRORS else ""
    return "The arguments do not fit: " + "; ".join(shown) + more


def _shorten(text: str) -> str:
    """Cut in the middle: the path comes first, then the value, and what is wrong with it last."""
    half = EXPLANATION_LIMIT // 2
    return text if len(text) <= EXPLANATION_LIMIT else f"{text[:half]} … {text[-half:]}"
