"""Reading a JSON body, strictly: whatever cannot be stored and shown again as it came is refused here, with a reason.

PostgreSQL takes neither NUL characters nor halves of surrogate pairs; a number past 64 bits would lose digits on its
way through other programs; a name given twice means that somebody is about to be surprised.
"""

import json
import math
from collections.abc import Iterable
from typing import NoReturn

from django.conf import settings
from django.http import HttpRequest
from pydantic import JsonValue
from rest_framework.request import Request

from runs.actions import Refused

MAX_DEPTH = 64
MAX_INTEGER = 2**63 - 1


def read_object(request: Request | HttpRequest) -> dict[str, JsonValue]:
    body = _parse(_read(request._request if isinstance(request, Request) else request))
    if not isinstance(body, dict):
        raise Refused(400, "invalid_json", "The body must be a JSON object.")
    for name, value in body.items():
        _check_text(name, name)
        _check(value, name)
    return body


def _read(request: HttpRequest) -> bytes:
    if request.content_type != "application/json":
        raise Refused(415, "unsupported_media_type", "Send JSON, as application/json.")
    most: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    declared = request.META.get("CONTENT_LENGTH") or "0"
    # A chunked body declares nothing, so never more than the limit and one byte is taken out of its buffer.
    raw = request.read(most + 1) if declared.isdigit() and int(declared) <= most else None
    if raw is None or len(raw) > most:
        raise too_large()
    return raw


def too_large() -> Refused:
    return Refused(413, "body_too_large", f"The body is larger than {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes.")


def _parse(raw: bytes) -> JsonValue:
    try:
        parsed: JsonValue = _decoder.decode(raw.decode())
    except UnicodeDecodeError:
        raise Refused(400, "invalid_json", "The body is not UTF-8.") from None
    except RecursionError:
        raise Refused(400, "invalid_json", f"The body is nested deeper than {MAX_DEPTH} levels.") from None
    except ValueError as error:
        raise Refused(400, "invalid_json", f"The body is not JSON: {error}.") from None
    return parsed


def _make_object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = _find_twice(name for name, _ in pairs)
        raise Refused(400, "invalid_json", f"{twice!a} is given twice in one object.", ascii(twice)[1:-1][:200])
    return made


def _find_twice(names: Iterable[str]) -> str:
    """In one pass: how many names there are is chosen by a stranger."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("No name is given twice.")


def _make_integer(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > MAX_INTEGER:
        raise Refused(400, "invalid_json", f"A number is past 64 bits: {text[:20]}…")
    return int(text)


def _make_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise Refused(400, "invalid_json", f"A number is out of range: {text[:20]}")
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise Refused(400, "invalid_json", f"{text} is not JSON.")


_decoder = json.JSONDecoder(
    object_pairs_hook=_make_object,
    parse_int=_make_integer,
    parse_float=_make_float,
    parse_constant=_refuse_constant,
)


def _check(value: JsonValue, field: str) -> None:
    """All texts in a value, keys included. Not recursive: what is checked is chosen by a stranger."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[JsonValue] = []
        for item in level:
            if isinstance(item, str):
                _check_text(item, field)
            elif isinstance(item, list):
                inner += item
            elif isinstance(item, dict):
                inner += item
                inner += item.values()
        if not inner:
            return
        level = inner
    raise Refused(400, "invalid_json", f"{field} is nested deeper than {MAX_DEPTH} levels.", field)


def _check_text(text: str, field: str) -> None:
    if "\0" in text:
        raise Refused(400, "invalid_text", f"{ascii(field)[1:-1]} holds a NUL character.", ascii(field)[1:-1])
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused(
            400, "invalid_text", f"{ascii(field)[1:-1]} holds half of a surrogate pair.", ascii(field)[1:-1]
        ) from None
