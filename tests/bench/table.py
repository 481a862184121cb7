"""The figures as a table for people: beside the floor, and beside the limit that the project set itself."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.bench.scenarios import Figures, Plan

Results = Mapping[str, Mapping[str, Figures]]
"""By scenario, then by system."""


def milliseconds(value: float) -> str:
    return "never" if math.isinf(value) else f"{value * 1000:.1f} ms"


def seconds(value: float) -> str:
    return f"{value:.2f} s"


def ratio(value: float) -> str:
    return f"{value:.2f} ×"


def count(value: float) -> str:
    return f"{value:,.0f}"


@dataclass(frozen=True)
class Row:
    scenario: str
    figure: str
    title: str
    show: Callable[[float], str]
    at_most: float | None = None
    at_least: float | None = None

    def is_kept(self, value: float) -> bool | None:
        """Whether the limit is kept; None where there is none."""
        if self.at_most is not None:
            return value <= self.at_most
        return None if self.at_least is None else value >= self.at_least

    @property
    def limit(self) -> str:
        if self.at_most is not None:
            return f"≤ {self.show(self.at_most)}"
        return "" if self.at_least is None else f"≥ {self.show(self.at_least)}"


def rows_of(plan: Plan) -> list[Row]:
    many = f"{plan.many_stops} stops, {plan.at_once} at a time"
    rows = [
        Row("first_text", "median", "question → first text", milliseconds, at_most=0.035 if plan.workers else 0.020),
        Row("first_text", "p95", "  95 of 100", milliseconds),
        Row("stop", "closed_median", "stop → model's connection closed", milliseconds, at_most=0.010),
        Row("stop", "closed_worst", "  the slowest", milliseconds),
        Row("stop", "seen_median", "stop → watcher sees the end", milliseconds, at_most=0.015),
        Row("stop", "seen_worst", "  the slowest", milliseconds),
        Row("silent_stop", "closed_median", "stop of a silent model → closed", milliseconds, at_most=0.010),
        Row("silent_stop", "closed_worst", "  the slowest", milliseconds),
        Row("silent_stop", "seen_median", "  → watcher sees the end", milliseconds, at_most=0.015),
        Row("many_stops", "closed", f"{many}: closed", count, at_least=plan.many_stops),
        Row("many_stops", "closed_worst", "  the slowest", milliseconds),
    ]
    for runs in plan.fans:
        # Of one process: with PostgreSQL and Redis on the same two processors it says little of a real deployment.
        limit = 1.25 if runs == 100 and not plan.workers else None
        title = f"{runs} runs at once at {plan.rate} tokens/s: over ideal"
        rows.append(Row(f"fan_{runs}", "over_ideal", title, ratio, at_most=limit))
        rows.append(Row(f"fan_{runs}", "first_text_p95", "  first text, 95 of 100", milliseconds))
    rows.append(Row("flat_out", "tokens_a_second", "one run flat out, tokens/s", count, at_least=5_000))
    rows.append(Row("start", "median", "warm start of the server", seconds, at_most=3))
    return rows


def is_good(results: Results, plan: Plan) -> bool:
    """Every run ended as it should, and all limits are kept."""
    return not list_wrong(results) and all(
        row.is_kept(results[row.scenario]["agentsite"][row.figure]) is not False
        for row in rows_of(plan)
        if row.scenario in results
    )


def list_wrong(results: Results) -> list[str]:
    return [
        f"{scenario}: {figures['wrong']:.0f} runs of {system} did not end as they should"
        for scenario, by_system in results.items()
        for system, figures in by_system.items()
        if figures["wrong"]
    ]


def make_cells(row: Row, by_system: Mapping[str, Figures]) -> tuple[str, str, str, str, str]:
    """Runs that went wrong have no figures: one that never began would be the fastest of all."""
    shown = {
        system: "failed" if figures["wrong"] else row.show(figures[row.figure]) for system, figures in by_system.items()
    }
    ours = by_system["agentsite"]
    verdict = "NO" if ours["wrong"] else {True: "yes", False: "NO", None: ""}[row.is_kept(ours[row.figure])]
    return row.title, shown.get("direct", "–"), shown["agentsite"], row.limit, verdict


def make_table(results: Results, plan: Plan) -> str:
    lines = [("", "direct", "agentsite", "limit", "ok?")]
    lines += [make_cells(row, results[row.scenario]) for row in rows_of(plan) if row.scenario in results]
    first = max(len(line[0]) for line in lines)
    text = [f"{line[0]:<{first}}  {line[1]:>10}  {line[2]:>10}  {line[3]:>11}  {line[4]}".rstrip() for line in lines]
    return "\n".join([*text, *list_wrong(results)])
