"""Simple charts that a tool returns, as SVG: bars or lines, with a scale, labels and a legend.

    {"type": "chart", "kind": "bar", "title": "Orders", "labels": ["Mon", "Tue"],
     "series": [{"name": "2025", "values": [3, 5]}, {"name": "2026", "values": [4, 7]}]}

A series may also be a plain list of numbers. Colours are classes, because styles in attributes are forbidden here.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

WIDTH, HEIGHT = 640, 280
LEFT, RIGHT, TOP, BOTTOM = 56, 8, 12, 36
MOST_SERIES, MOST_POINTS = 6, 200
MOST_LABELS = 12


@dataclass(frozen=True, slots=True)
class Chart:
    kind: str
    title: str
    labels: list[str]
    series: list[tuple[str, list[float]]]

    @classmethod
    def read(cls, part: dict[str, Any]) -> "Chart | None":
        """None where it makes no sense: it is then shown as the text that it is."""
        kind, labels, series = part.get("kind"), part.get("labels"), part.get("series")
        if kind not in ("bar", "line") or not isinstance(labels, list) or not isinstance(series, list):
            return None
        if not 0 < len(labels) <= MOST_POINTS or not 0 < len(series) <= MOST_SERIES:
            return None
        read = []
        for number, entry in enumerate(series, start=1):
            values = entry.get("values", entry.get("data")) if isinstance(entry, dict) else entry
            name = str(entry.get("name", number)) if isinstance(entry, dict) else str(number)
            if not isinstance(values, list) or len(values) != len(labels) or not all(map(_is_number, values)):
                return None
            read.append((name[:60], [float(value) for value in values]))
        return cls(kind, str(part.get("title") or "")[:200], [str(label)[:40] for label in labels], read)


def _is_number(value: object) -> bool:
    # Neither infinite nor NaN is smaller than this, and an integer may be too large to be asked whether it is finite.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def draw_chart(part: dict[str, Any]) -> SafeString:
    chart = Chart.read(part)
    if chart is None:
        return SafeString("")
    values = [value for _name, its in chart.series for value in its]
    ticks = _ticks(min(0.0, *values), max(0.0, *values))
    marks = _bars(chart, ticks) if chart.kind == "bar" else _lines(chart, ticks)
    legend = ""
    if len(chart.series) > 1:
        entries = "".join(
            f'<li><span class="swatch series-{number}"></span>{escape(name)}</li>'
            for number, (name, _values) in enumerate(chart.series)
        )
        legend = f'<ul class="legend">{entries}</ul>'
    return format_html(
        '<figure class="chart"><figcaption>{}</figcaption><svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
        "{}</figure>",
        chart.title,
        WIDTH,
        HEIGHT,
        _describe(chart),
        mark_safe("".join([*_scale(ticks), *marks, *_names(chart)])),  # noqa: S308
        mark_safe(legend),  # noqa: S308
    )


def _describe(chart: Chart) -> str:
    """The figures in words, for those who cannot see them."""
    rows = [
        f"{name}: " + ", ".join(f"{label} {value:g}" for label, value in zip(chart.labels, values, strict=True))
        for name, values in chart.series
    ]
    title = chart.title or (_("Bar chart") if chart.kind == "bar" else _("Line chart"))
    return f"{title}. {'; '.join(rows)}"[:1000]


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers that span the values."""
    if low == high:
        high = low + 1
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(nice * power for nice in (1, 2, 2.5, 5, 10) if nice * power >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, last + 1)]


def _y(value: float, ticks: Sequence[float]) -> float:
    share = (value - ticks[0]) / (ticks[-1] - ticks[0])
    return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)


def _x(position: float, count: int) -> float:
    return round(LEFT + position * (WIDTH - LEFT - RIGHT) / count, 1)


def _scale(ticks: Sequence[float]) -> Iterator[str]:
    for tick in ticks:
        y = _y(tick, ticks)
        kind = "axis" if tick == 0 else "grid"
        yield f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text class="tick" x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{tick:g}</text>'


def _names(chart: Chart) -> Iterator[str]:
    count = len(chart.labels)
    every = math.ceil(count / MOST_LABELS)
    for number, label in enumerate(chart.labels):
        if number % every == 0:
            x = _x(number + 0.5, count)
            yield f'<text class="tick" x="{x}" y="{HEIGHT - 14}" text-anchor="middle">{escape(label[:14])}</text>'


def _bars(chart: Chart, ticks: Sequence[float]) -> Iterator[str]:
    count, series = len(chart.labels), len(chart.series)
    width = 0.72 / series
    for number, (name, values) in enumerate(chart.series):
        for place, value in enumerate(values):
            x = _x(place + 0.14 + number * width, count)
            right = _x(place + 0.14 + (number + 1) * width, count)
            top, base = sorted((_y(value, ticks), _y(0, ticks)))
            yield (
                f'<rect class="series-{number}" x="{x}" y="{top}" width="{max(right - x - 1, 0.5):.1f}" '
                f'height="{base - top:.1f}" rx="2"><title>{escape(name)}: {value:g}</title></rect>'
            )


def _lines(chart: Chart, ticks: Sequence[float]) -> Iterator[str]:
    count = len(chart.labels)
    for number, (name, values) in enumerate(chart.series):
        points = [(_x(place + 0.5, count), _y(value, ticks)) for place, value in enumerate(values)]
        path = " ".join(f"{x},{y}" for x, y in points)
        yield f'<polyline class="series-{number}" points="{path}" fill="none"><title>{escape(name)}</title></polyline>'
        if count <= MOST_LABELS * 2:
            for (x, y), value in zip(points, values, strict=True):
                yield f'<circle class="series-{number}" cx="{x}" cy="{y}" r="3"><title>{value:g}</title></circle>'
