"""The agent loop in a process that shuts down or has crashed: what is handed on, and how it is continued."""

import asyncio
from dataclasses import replace

import pytest

from gateway.loop import Resumption
from gateway.messages import Message, ToolCall
from gateway.outcomes import Cause, Finished, HandedBack
from gateway.step import Step
from gateway.tools.registry import tool
from tests.gateway.turns import Bench, gated_tool, ping, until
from tests.scripted import Gate, call


async def test_a_shutdown_closes_nothing_and_hands_the_run_back() -> None:
    gate = Gate()
    bench = Bench(["half", gate])
    running = bench.start()
    await gate.reached.wait()
    bench.agent.interrupt("shutting down", Cause.SHUTDOWN)
    assert await running == HandedBack()
    assert bench.new == []


@pytest.mark.parametrize("parallel", [False, True])
async def test_a_shutdown_tells_which_announced_calls_have_not_begun(parallel: bool) -> None:
    """T4: only what provably never ran."""
    gate = Gate()
    tools = [gated_tool("gated", gate), ping]
    bench = Bench(["", call("gated", id="a"), call("ping", id="b")], tools=tools, parallel=parallel)
    bench.journal.before_flush.append(asyncio.Event())
    running = bench.start()
    await bench.journal.flushing.wait()
    bench.agent.interrupt("shutting down", Cause.SHUTDOWN)
    assert await running == HandedBack()
    started = ["a", "b"] if parallel else ["a"]
    told = [event for event in bench.journal.events if event[0] != "message"]
    assert told == [*(("started", name) for name in started), *(("postponed", name) for name in started)]
    assert not gate.reached.is_set()


async def test_a_shutdown_after_a_call_began_leaves_its_outcome_unknown() -> None:
    """T4."""
    gate = Gate()
    bench = Bench(["", call("gated", id="a"), call("ping", id="b")], tools=[gated_tool("gated", gate), ping])
    running = bench.start()
    await gate.reached.wait()
    bench.agent.interrupt("shutting down", Cause.SHUTDOWN)
    assert await running == HandedBack()
    assert "postponed" not in bench.journal.kinds()


async def test_a_call_that_an_earlier_process_may_have_begun_is_not_postponed() -> None:
    """T4: a repeatable tool is executed again; that it had started before is not forgotten."""
    calls = (ToolCall("a", "ping", "{}"),)
    history = [Message("user", "go"), Message("assistant", "", tool_calls=calls)]
    resumption = Resumption(open_step=Step(calls, 2, started={"a"}), steps=1)
    bench = Bench(tools=[replace(ping, is_repeatable=True)], history=history, resumption=resumption)
    bench.journal.before_flush += [asyncio.Event(), asyncio.Event()]
    bench.journal.before_flush[0].set()
    running = bench.start()
    await until(lambda: not bench.journal.before_flush)
    bench.agent.interrupt("shutting down", Cause.SHUTDOWN)
    assert await running == HandedBack()
    assert bench.journal.kinds() == ["started"]


async def test_a_call_that_had_started_is_not_executed_again() -> None:
    """T4."""
    executed = []

    @tool()
    async def effect(name: str) -> str:
        """Has an effect."""
        executed.append(name)
        return f"did {name}"

    calls = tuple(ToolCall(name, "effect", f'{{"name": "{name}"}}') for name in "abc")
    step = Step(calls, 2, started={"a", "b"}, answers={"a": Message("tool", "did a", tool_call_id="a", name="effect")})
    history = [Message("user", "go"), Message("assistant", "", tool_calls=calls)]
    bench = Bench("all done", tools=[effect], history=history, resumption=Resumption(open_step=step, steps=1))
    assert await bench.run() == Finished("all done")
    assert executed == ["c"]
    assert [str(message.content)[:11] for message in bench.agent.history[2:5]] == ["did a", "Interrupted", "did c"]
    assert "outcome unknown" in str(bench.agent.history[3].content)


async def test_a_repeatable_tool_is_executed_again_after_a_crash() -> None:
    """T4."""

    @tool(repeatable=True)
    async def harmless() -> str:
        """Has no effect."""
        return "again"

    calls = (ToolCall("a", "harmless", "{}"),)
    history = [Message("user", "go"), Message("assistant", "", tool_calls=calls)]
    resumption = Resumption(open_step=Step(calls, 2, started={"a"}), steps=1)
    bench = Bench("ok", tools=[harmless], history=history, resumption=resumption)
    await bench.run()
    assert bench.agent.history[2].content == "again"


async def test_after_a_crash_in_a_stream_the_watcher_sees_no_word_twice() -> None:
    """T4, T5."""
    bench = Bench(["one two", " three"], resumption=Resumption(unfinished_text="one tw"))
    assert await bench.run() == Finished("one two three")
    assert bench.journal.text == "o three"
