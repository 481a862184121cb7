"""The tool `current_time`."""

from datetime import UTC, datetime, tzinfo
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

from pydantic import Field

from gateway.tools.registry import ToolError, tool

TimeZone = Annotated[
    str | None,
    Field(max_length=64, description="An IANA time zone such as Europe/Berlin or America/New_York; UTC when left out."),
]


@tool(repeatable=True)
def current_time(timezone: TimeZone = None) -> str:
    """Tell the current date and time, with the weekday."""
    now = datetime.now(find_zone(timezone.strip()) if timezone and timezone.strip() else UTC)
    return f"{now:%A}, {now.isoformat(timespec='seconds')}"


def find_zone(name: str) -> tzinfo:
    # UTC must work where no time zone data is installed.
    if name.upper() in ("UTC", "GMT", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    # A name is looked up as a path: one that is too long, a folder or forbidden fails as such.
    except (KeyError, ValueError, OSError):
        raise ToolError(f"{name!r} is no IANA time zone.{_suggest_zones(name)}") from None


def _suggest_zones(name: str) -> str:
    city = name.rsplit("/", 1)[-1].replace(" ", "_").lower()
    similar = sorted(zone for zone in available_timezones() if zone.rsplit("/", 1)[-1].lower() == city)[:5]
    return f" Perhaps {' or '.join(similar)}?" if similar else " Use a name such as Europe/Berlin."
