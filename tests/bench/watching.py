"""One run as its client sees it: from the question to the end, with the moments that matter."""

import asyncio
import itertools
import time
from dataclasses import dataclass

import httpx2

from tests.bench.model import word
from tests.bench.systems import BenchRun, Model, System

LONGEST_SECONDS = 180
# A stop that has done nothing by then does not work, and the run is not waited for.
STOP_SECONDS = 10
_numbers = itertools.count(1)


@dataclass
class Watch:
    """What a client saw. Times are those of `time.perf_counter`."""

    tag: str
    begun_at: float
    first_at: float | None = None
    asked_at: float | None = None
    ended_at: float = 0.0
    end: str = "no end"
    text: str = ""

    @property
    def first_text(self) -> float:
        """Seconds from the question to the first text."""
        return (self.first_at or self.ended_at) - self.begun_at

    def is_whole(self, tokens: int) -> bool:
        """Everything came, once and in order."""
        return self.end == "completed" and self.text == "".join(word(number) for number in range(tokens))


async def watch_run(system: System, directives: str, stop_after: int | None = None) -> Watch:
    """Follow one run to its end; ask for a stop after so many tokens where a number is given."""
    watch = Watch(f"{system.name}-{next(_numbers)}", time.perf_counter())
    pieces: list[str] = []
    stopping: asyncio.Task[None] | None = None
    tokens = 0
    try:
        async with asyncio.timeout(LONGEST_SECONDS) as deadline:
            run = await system.start(f"#tag={watch.tag} {directives}")
            async for text in run.texts():
                watch.first_at = watch.first_at or time.perf_counter()
                pieces.append(text)
                if stop_after is not None and stopping is None:
                    tokens += text.count(" ")
                    if tokens >= stop_after:
                        deadline.reschedule(asyncio.get_running_loop().time() + STOP_SECONDS)
                        watch.asked_at = time.perf_counter()
                        stopping = asyncio.create_task(run.stop())
            watch.ended_at = time.perf_counter()
            watch.end = run.end
            if stopping is not None:
                await stopping
    except (TimeoutError, httpx2.HTTPError) as error:
        watch.ended_at = time.perf_counter()
        watch.end = repr(error)
    watch.text = "".join(pieces)
    return watch


async def stop_silent_run(system: System, model: Model) -> Watch:
    """A run to which the model says nothing at all, stopped once the model has its call."""
    watch = Watch(f"{system.name}-{next(_numbers)}", time.perf_counter())
    following: asyncio.Task[None] | None = None
    try:
        async with asyncio.timeout(STOP_SECONDS):
            run = await system.start(f"#tag={watch.tag} #hang")
            following = asyncio.create_task(_follow(run, watch))
            await model.wait_for_call(watch.tag)
            watch.asked_at = time.perf_counter()
            await run.stop()
            await following
    except (TimeoutError, httpx2.HTTPError) as error:
        watch.ended_at = time.perf_counter()
        watch.end = repr(error)
        if following is not None:
            following.cancel()
    return watch


async def _follow(run: BenchRun, watch: Watch) -> None:
    async for _ in run.texts():
        pass
    watch.ended_at = time.perf_counter()
    watch.end = run.end
