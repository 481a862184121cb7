"""Reading the query string, strictly: a filter that is misspelt must not look like one that matches everything."""

import re
from collections.abc import Collection
from datetime import UTC, datetime, time

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from rest_framework.request import Request

from runs.actions import Refused

MAX_LENGTH = 200


def read_query(request: Request, allowed: Collection[str]) -> dict[str, str]:
    """The parameters that were given a value."""
    given: dict[str, str] = {}
    for name, values in request.query_params.lists():
        if name not in allowed:
            shown = ascii(name[:50])[1:-1]
            raise Refused(400, "unknown_parameter", f"There is no parameter {shown} here.", shown)
        value = str(values[-1])
        if len(values) > 1:
            raise Refused(400, "invalid_parameter", f"{name} is given twice.", name)
        if "\0" in value:
            raise Refused(400, "invalid_parameter", f"{name} holds a NUL character.", name)
        if len(value) > MAX_LENGTH:
            raise Refused(400, "invalid_parameter", f"{name} is longer than {MAX_LENGTH} characters.", name)
        if value:
            given[name] = value
    return given


def read_choice(name: str, value: str, choices: Collection[str]) -> str:
    if value not in choices:
        raise Refused(400, "invalid_parameter", f"{name} must be one of {', '.join(choices)}.", name)
    return value


def read_number(name: str, value: str, least: int, most: int) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 12 and least <= int(value) <= most):
        raise Refused(400, "invalid_parameter", f"{name} must be a whole number from {least} to {most}.", name)
    return int(value)


def read_moment(name: str, value: str) -> datetime:
    """An ISO-8601 moment or date; a date is its midnight. Without an offset it is in the site's time zone."""
    # In a query string a plus that nobody escaped arrives as a space.
    value = re.sub(r"(:\d\d(?:\.\d+)?) (\d\d:?\d\d)$", r"\1+\2", value)
    try:
        moment = parse_datetime(value) if len(value) > 10 else None
        day = parse_date(value) if moment is None else None
        if moment is None and day is not None:
            moment = datetime.combine(day, time())
        if moment is None:
            raise ValueError
        if timezone.is_naive(moment):
            moment = timezone.make_aware(moment)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Refused(400, "invalid_parameter", f"{name} must be an ISO-8601 date or date and time.", name) from None
