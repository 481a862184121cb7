"""A stop at every moment of the agent loop: what it closes, keeps and answers."""

import asyncio
import contextlib
import itertools

import pytest

from gateway import loop as loop_module
from gateway.errors import ProviderError
from gateway.loop import Limits, Turn
from gateway.messages import Message
from gateway.outcomes import Cause, Finished, Stopped
from gateway.tools.registry import ToolContext, tool
from tests.gateway.turns import Bench, gated_tool, ping, until
from tests.scripted import Gate, ScriptedProvider, call


async def test_a_stop_before_the_first_byte_closes_the_connection_and_keeps_nothing() -> None:
    """C1."""
    gate = Gate()
    bench = Bench([gate])
    running = bench.start()
    await gate.reached.wait()
    bench.agent.interrupt("Stop requested via API")
    assert await running == Stopped()
    assert bench.provider.endings == ["cut"]
    assert bench.new == []


async def test_a_stop_in_the_middle_keeps_the_text_as_partial() -> None:
    """C1, C3."""
    gate = Gate()
    bench = Bench(["so ", "far", gate, "no more"])
    running = bench.start()
    await gate.reached.wait()
    bench.agent.interrupt("Stop requested via API")
    assert await running == Stopped()
    assert bench.new == [Message("assistant", "so far", partial=True)]
    assert bench.provider.endings == ["cut"]
    assert bench.turn.usage.estimated


async def test_a_stop_before_the_run_begins_calls_no_model() -> None:
    """C5."""
    bench = Bench("never said")
    bench.turn.interrupt("Stop requested via API")
    assert await bench.run() == Stopped()
    assert bench.provider.requests == []


async def test_a_stop_in_a_tool_interrupts_it_and_starts_no_other() -> None:
    """C6."""
    gate = Gate()
    bench = Bench(["", call("gated", id="a"), call("ping", id="b")], tools=[gated_tool("gated", gate), ping])
    running = bench.start()
    await gate.reached.wait()
    bench.agent.interrupt("Stop requested via API")
    assert await running == Stopped()
    assert "Interrupted: the run was stopped" in str(bench.new[1].content)
    assert "Not executed: the run was stopped" in str(bench.new[2].content)
    assert [(made.id, state) for made, state in bench.turn.call_states] == [("a", "interrupted"), ("b", "not_started")]
    assert ("started", "b") not in bench.journal.events


async def test_a_tool_that_finishes_although_it_was_cancelled_keeps_its_result() -> None:
    """C6."""
    begun = asyncio.Event()

    @tool()
    async def careful() -> str:
        """Finishes what it began."""
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished in time"
        return ""

    bench = Bench(["", call("careful")], tools=[careful])
    running = bench.start()
    await begun.wait()
    bench.agent.interrupt("Stop requested via API")
    assert await running == Stopped()
    assert bench.new[1].content == "finished in time"
    assert bench.journal.events[-1] == ("completed", (bench.new[1].tool_call_id, "finished"))


async def test_a_tool_that_ignores_its_cancellation_is_abandoned_and_the_run_ends(caplog) -> None:
    """C1, C11."""
    begun, release = asyncio.Event(), asyncio.Event()

    @tool()
    async def stubborn(context: ToolContext) -> str:
        """Does not listen."""
        begun.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        context.report("too late", None)
        return "too late"

    bench = Bench(["", call("stubborn")], tools=[stubborn])
    running = bench.start()
    await begun.wait()
    bench.agent.interrupt("Stop requested via API")
    assert await running == Stopped()
    assert "Interrupted" in str(bench.new[1].content)
    assert "abandoned" in caplog.text
    abandoned = set(loop_module._abandoned)
    assert abandoned
    release.set()
    await asyncio.wait(abandoned)
    await asyncio.sleep(0)
    assert not loop_module._abandoned
    assert "progress" not in bench.journal.kinds(), "the run has ended"
    bench.check()


async def test_a_tool_that_ignores_its_time_out_is_abandoned_and_the_run_goes_on(caplog) -> None:
    """E3, C11."""
    release = asyncio.Event()

    @tool(timeout=0.01)
    async def stubborn() -> str:
        """Does not listen."""
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        return "too late"

    bench = Bench(["", call("stubborn")], "done", tools=[stubborn])
    async with asyncio.timeout(10):
        assert await bench.run() == Finished("done")
    assert "did not finish within 0.01 seconds" in bench.new[1].text
    abandoned = set(loop_module._abandoned)
    release.set()
    await asyncio.wait(abandoned)


async def test_a_stop_with_parallel_tools_keeps_results_and_answers_the_rest() -> None:
    """C6, C8."""
    one, two = Gate(), Gate()
    tools = [gated_tool("one", one, "first"), gated_tool("two", two)]
    bench = Bench(["", call("one"), call("two")], tools=tools, parallel=True)
    running = bench.start()
    await one.reached.wait()
    await two.reached.wait()
    one.open()
    await until(lambda: 3 in bench.journal.messages)
    bench.agent.interrupt("Stop requested via API")
    assert await running == Stopped()
    assert bench.new[1].content == "first"
    assert "Interrupted" in str(bench.new[2].content)


@pytest.mark.parametrize("number", [0, 1, 2, 3])
async def test_a_stop_while_the_journal_writes_loses_nothing(number: int) -> None:
    """C6, C9, T1: whichever of a step's commits is under way."""
    gates = [asyncio.Event() for _ in range(number + 1)]
    for gate in gates[:-1]:
        gate.set()
    bench = Bench(["text", call("ping", id="a"), call("ping", id="b")], "end", tools=[ping])
    bench.journal.before_flush = list(gates)
    running = bench.start()
    await until(lambda: not bench.journal.before_flush)
    bench.agent.interrupt("Stop requested via API")
    assert await running == Stopped()
    assert bench.new[0].text == "text"
    assert len(bench.new) == 3


async def test_a_stop_at_every_tick_leaves_a_conversation_that_goes_on() -> None:
    """C8, C9: stop after n turns of the event loop, for every n until the run ends by itself."""
    outcomes = set()
    for ticks in range(200):
        tools = [ping]
        bench = Bench(
            ["a", "b", call("ping"), call("ping")], ["c", call("ping")], "end", tools=tools, parallel=ticks % 2 == 0
        )
        running = bench.start()
        for _ in range(ticks):
            await asyncio.sleep(0)
        bench.turn.interrupt("Stop requested via API")
        outcome = await running
        outcomes.add(type(outcome))
        assert isinstance(outcome, Stopped) == (bench.turn.cause is Cause.STOP)
        again = Turn(bench.agent, bench.journal, Limits(5, 60), bench.turn.make_context)
        bench.provider.answers = ["next"]
        bench.agent.extend_history([Message("user", "and now?")])
        bench.journal.messages[bench.agent.last_position] = bench.agent.history[-1]
        assert await bench.agent.run(again) == Finished("next")
        bench.check()
        if isinstance(outcome, Finished):
            break
    assert outcomes == {Stopped, Finished}


async def test_a_foreign_cancellation_is_passed_on() -> None:
    gate = Gate()
    bench = Bench(["x", gate])
    running = bench.start()
    await gate.reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_swallowed_cancellation_is_noticed_before_the_next_thing_starts() -> None:
    """C1: a library that swallows the cancellation keeps no run alive."""
    gate = Gate()
    bench = Bench("unused", "never")

    class Swallowing(ScriptedProvider):
        async def _play(self, answer):
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
            async for batch in super()._play(answer):
                yield batch

    bench.agent.provider = bench.provider = Swallowing(["late", call("ping")], "never")
    running = bench.start()
    await gate.reached.wait()
    bench.agent.interrupt("Stop requested via API")
    assert await running == Stopped()
    assert len(bench.provider.requests) == 1
    assert (bench.provider.endings, bench.new) == (["cut"], [])


@pytest.mark.parametrize(
    "failure",
    [
        ProviderError("llm_error", "broken"),
        ProviderError("llm_error", "broken", transient=True, retry_after=200),
        RuntimeError("broken"),
    ],
    ids=["lasting", "transient", "unexpected"],
)
async def test_a_stop_that_a_library_reports_as_a_failure_is_a_stop(failure: Exception) -> None:
    """C2, C10, E2: of a cancellation and a failure in the same moment only the second may come through. Nothing is
    waited for then."""
    gate = Gate()
    bench = Bench("unused")

    class Failing(ScriptedProvider):
        async def _play(self, answer):
            try:
                await gate.wait()
            except asyncio.CancelledError:
                raise failure from None
            yield []

    bench.agent.provider = bench.provider = Failing("unused")
    running = bench.start()
    await gate.reached.wait()
    bench.agent.interrupt("Stop requested via API")
    async with asyncio.timeout(10):
        assert await running == Stopped()
    assert "retry" not in bench.journal.kinds()


@pytest.mark.parametrize(("number", "announced", "executed"), [(1, 1, 0), (2, 1, 1), (3, 2, 1), (4, 2, 2)])
async def test_a_cancellation_that_was_swallowed_between_tools_starts_nothing_more(
    number: int, announced: int, executed: int
) -> None:
    """C1, C6: whichever of a step's commits swallowed it."""
    swallowing, ran = asyncio.Event(), []

    @tool()
    async def note() -> str:
        """Leaves a trace."""
        ran.append("x")
        return "noted"

    bench = Bench(["", call("note"), call("note")], "never", tools=[note])
    flush, numbers = bench.journal.flush, itertools.count(1)

    async def swallow() -> None:
        await flush()
        if next(numbers) == number:
            swallowing.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    bench.journal.flush = swallow  # type: ignore[method-assign]
    running = bench.start()
    await swallowing.wait()
    bench.agent.interrupt("Stop requested via API")
    assert await running == Stopped()
    assert (bench.journal.kinds().count("started"), len(ran)) == (announced, executed)
    assert len(bench.provider.requests) == 1
