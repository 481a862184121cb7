"""What the agent pool costs with 10,000 entries, in steps and not in seconds."""

import sys
from collections import OrderedDict
from contextlib import AsyncExitStack, contextmanager

import pytest

import gateway.pool
from tests.gateway.test_pool import Bench


class Steps:
    count = 0


class CountingMapping(OrderedDict):
    """Counts what is taken out of it one by one: walking in C shows in no trace."""

    steps: Steps

    def values(self):
        for value in super().values():
            self.steps.count += 1
            yield value

    def __iter__(self):
        for key in super().__iter__():
            self.steps.count += 1
            yield key


@contextmanager
def count_steps(bench: Bench):
    """Lines executed in the pool's file, plus items that its mappings gave out."""
    steps = Steps()
    pool = bench.pool
    for name in ("_slots", "_line", "_overdue"):
        mapping = CountingMapping(getattr(pool, name))
        mapping.steps = steps
        setattr(pool, name, mapping)
    steps.count = 0

    def trace(frame, event, argument):
        if frame.f_code.co_filename != gateway.pool.__file__:
            return None
        steps.count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield steps
    finally:
        sys.settrace(before)


async def hit(bench: Bench) -> None:
    await bench.visit("0")


async def insert_and_evict_the_oldest(bench: Bench) -> None:
    await bench.visit("stranger")
    await bench.pool.drain()


async def evict(bench: Bench) -> None:
    assert await bench.pool.evict("0")
    await bench.pool.drain()


async def rebuild(bench: Bench) -> None:
    await bench.visit("0", signature="s2")
    await bench.pool.drain()


async def ask_for_figures(bench: Bench) -> None:
    assert bench.pool.stats().size >= 100


OPERATIONS = [hit, insert_and_evict_the_oldest, evict, rebuild, ask_for_figures]


async def measure(size: int, active: int, operation) -> int:
    """Steps of one operation in a full pool, in which `active` more entries have stood in the excess for a while."""
    bench = Bench(capacity=size)
    async with AsyncExitStack() as held:
        for number in range(active):
            await held.enter_async_context(bench.use(f"busy {number}"))
        await bench.visit(*(str(number) for number in range(size)))
        assert bench.pool.stats().size == size + active
        with count_steps(bench) as steps:
            await operation(bench)
        return steps.count


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_operation_takes_as_many_steps_among_10_000_entries_as_among_100(operation):
    """P9: all operations but the sweep are O(1)."""
    assert await measure(100, 0, operation) == await measure(10_000, 0, operation) > 0


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_thousand_active_entries_in_the_excess_are_not_walked_past_again_and_again(operation):
    """P5, P9: a pool that is far over its capacity is no slower."""
    assert await measure(100, 10, operation) == await measure(100, 1000, operation) > 0


async def test_the_measure_sees_a_walk():
    """The sweep looks at all entries, and that shows."""

    async def sweep(bench: Bench) -> None:
        await bench.pool.sweep()

    assert await measure(1000, 0, sweep) > 5 * await measure(100, 0, sweep)
