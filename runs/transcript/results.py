"""What a tool gave back, as the reader sees it: a picture as a picture, a chart as a chart, JSON in order, the rest as
it is. A long one is cut here; the whole is a click away."""

import json
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from runs.transcript.charts import draw_chart
from runs.transcript.markdown import PICTURE
from runs.transcript.parsing import read_json

LONGEST = 6_000
MOST_PARTS = 8
MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif")


@dataclass(frozen=True, slots=True)
class Shown:
    html: str = ""
    text: str = ""
    is_cut: bool = False
    lines: int = 0


def show_result(result: str) -> Shown:
    found = _read_json(result)
    pictures = _draw_parts(found)
    if pictures:
        return Shown(html=pictures)
    return show_text(_in_order(found) if found is not None else result)


def show_text(text: str) -> Shown:
    text = text.strip("\n")
    return Shown(text=text[:LONGEST], is_cut=len(text) > LONGEST, lines=text.count("\n") + 1)


def show_value(value: Any) -> str:
    """An argument's value in plain words."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2 if isinstance(value, dict | list) and value else None)


def _read_json(text: str) -> dict[str, Any] | list[Any] | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        found = read_json(text)
    except ValueError:
        return None
    return found if isinstance(found, dict | list) else None


def _in_order(found: Any) -> str:
    return json.dumps(found, ensure_ascii=False, indent=2)


def _draw_parts(found: Any) -> SafeString:
    """All of it, where it is nothing but pictures and charts, with texts between them."""
    parts = found if isinstance(found, list) else [found]
    if not parts or len(parts) > MOST_PARTS or not all(isinstance(part, dict) for part in parts):
        return SafeString("")
    drawn = [_draw(part) for part in parts]
    is_drawing = any(part.get("type") in ("image", "chart") for part in parts)
    return mark_safe("".join(drawn)) if is_drawing and all(drawn) else SafeString("")  # noqa: S308


def _draw(part: dict[str, Any]) -> SafeString:
    match part:
        case {"type": "image"}:
            source = _source_of(part)
            alt = str(part.get("alt") or part.get("title") or _("Picture"))[:500]
            return format_html('<img class="picture" src="{}" alt="{}">', source, alt) if source else SafeString("")
        case {"type": "chart"}:
            return draw_chart(part)
        case {"type": "text", "text": str(text)}:
            return format_html('<p class="plain">{}</p>', text)
    return SafeString("")


def _source_of(part: dict[str, Any]) -> str:
    """Pictures come with the result or from this site; nothing is loaded from elsewhere."""
    data = part.get("data") or part.get("url") or ""
    if not isinstance(data, str):
        return ""
    if data.startswith("data:"):
        return data if PICTURE.fullmatch(data) else ""
    if data.startswith("/") and not data.startswith(("//", "/\\")) and data.isprintable():
        return data
    media_type = part.get("media_type") or part.get("mime_type") or part.get("mimeType") or "image/png"
    source = f"data:{media_type};base64,{data}"
    return source if media_type in MEDIA_TYPES and PICTURE.fullmatch(source) else ""
