"""JSON in a form: what no database keeps, or no page shows again as it was, is refused like what is no JSON."""

from collections.abc import Iterator
from typing import Any

import orjson
from django import forms
from django.forms.fields import InvalidJSONInput

from runs.transcript.parsing import read_json


class StorableJSONField(forms.JSONField):
    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and value not in self.empty_values and not is_storable(value):
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid", params={"value": value})
        return super().to_python(value)

    def bound_data(self, data: Any, initial: Any) -> Any:
        """What is refused comes back as it was typed."""
        if isinstance(data, str) and not self.disabled and not is_storable(data):
            return InvalidJSONInput(data)
        return super().bound_data(data, initial)


def is_storable(text: str) -> bool:
    """Neither too deep, nor with halves of characters, NULs, or numbers that JSON does not have."""
    try:
        orjson.loads(text)
        return "\0" not in "".join(texts_in(read_json(text)))
    except ValueError:
        return False


def texts_in(value: Any) -> Iterator[str]:
    """Names and values, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts_in(item)
