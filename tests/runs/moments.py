"""The moments of a run at which something is waited for: a test holds the run at one of them, and stops it there.

Counting turns of the event loop does not do: nearly all of them pass before a worker has even taken the run.
"""

import asyncio
from collections import Counter
from typing import Any

import pytest

from gateway.tools.base import Tool
from runs.execution import Execution
from runs.journal import RunJournal
from tests.scripted import ScriptedProvider

# What is waited for inside of a run's work, where only the stop itself ends it when it is held; and elsewhere.
IN_WORK = ("model", "commit", "tool")
ELSEWHERE = ("beginning", "decision", "end")


class Moments:
    """`reached` tells that the run is held, `go_on` lets it go on."""

    def __init__(self) -> None:
        self.hold_nowhere()

    def hold_at(self, kind: str, number: int) -> None:
        """At the moment of this kind that is the so-manieth of its run."""
        self.chosen = (kind, number)
        self.counts: Counter[str] = Counter()
        self.reached = asyncio.Event()
        self._released = asyncio.Event()

    def hold_nowhere(self) -> None:
        self.hold_at("", 0)

    def go_on(self) -> None:
        self._released.set()

    async def pass_by(self, kind: str) -> None:
        self.counts[kind] += 1
        if (kind, self.counts[kind]) == self.chosen:
            self.reached.set()
            await (asyncio.Event() if kind in IN_WORK else self._released).wait()


def find_moments(monkeypatch: pytest.MonkeyPatch) -> Moments:
    """Before and after each piece of the model's answer, each commit that is waited for and each tool; before the run
    begins, and before its last write."""
    moments = Moments()
    play, flush, call = ScriptedProvider._play, RunJournal.flush, Tool.call
    begin, leave = Execution._bring_up_to_date, Execution._leave

    async def play_slowly(provider: ScriptedProvider, answer: Any) -> Any:
        await moments.pass_by("model")
        async for batch in play(provider, answer):
            yield batch
            await moments.pass_by("model")

    async def flush_slowly(journal: RunJournal) -> None:
        await moments.pass_by("commit")
        await flush(journal)
        await moments.pass_by("commit")

    async def call_slowly(tool: Tool, *arguments: Any) -> Any:
        await moments.pass_by("tool")
        result = await call(tool, *arguments)
        await moments.pass_by("tool")
        return result

    async def begin_slowly(execution: Execution, agent: Any) -> Any:
        await moments.pass_by("beginning")
        return await begin(execution, agent)

    async def leave_slowly(execution: Execution, outcome: Any) -> bool:
        await moments.pass_by("end")
        return await leave(execution, outcome)

    monkeypatch.setattr(ScriptedProvider, "_play", play_slowly)
    monkeypatch.setattr(RunJournal, "flush", flush_slowly)
    monkeypatch.setattr(Tool, "call", call_slowly)
    monkeypatch.setattr(Execution, "_bring_up_to_date", begin_slowly)
    monkeypatch.setattr(Execution, "_leave", leave_slowly)
    return moments
