"""Tasks whose cancellation gets lost on the way."""

import asyncio

import pytest

from runs import cancelling
from runs.cancelling import end_tasks


async def test_a_task_that_swallows_its_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancelling, "AGAIN_SECONDS", 0)
    swallowed = 0

    async def swallow_two() -> None:
        nonlocal swallowed
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if swallowed == 2:
                    raise
                swallowed += 1

    task = asyncio.create_task(swallow_two())
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await end_tasks(task)
    assert (swallowed, task.cancelled()) == (2, True)


async def test_what_a_task_ends_with_disturbs_nobody() -> None:
    async def fail() -> None:
        raise RuntimeError("of no interest any more")

    failed = asyncio.create_task(fail())
    waiting = asyncio.create_task(asyncio.Event().wait())
    await asyncio.wait({failed})
    async with asyncio.timeout(10):
        await end_tasks(failed, waiting)
    assert waiting.cancelled()
