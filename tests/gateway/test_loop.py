"""The agent loop without a database: what it says, which tools it runs, and where its limits are."""

import asyncio
import time
from decimal import Decimal

import pytest

from gateway.agent import Prices
from gateway.loop import Limits
from gateway.messages import Message, ToolCall, make_well_formed
from gateway.outcomes import Cause, Finished, LimitReached, Stopped
from gateway.tools.registry import ToolError, tool
from tests.gateway.turns import Bench, gated_tool, ping, until
from tests.scripted import Answer, Gate, call, find_malformed, thought, used


async def test_an_answer_is_streamed_and_kept() -> None:
    bench = Bench(["Hel", "lo", used(3, 2)])
    assert await bench.run() == Finished("Hello")
    assert bench.new == [Message("assistant", "Hello")]
    assert bench.journal.text == "Hello"
    assert (bench.turn.usage.prompt_tokens, bench.turn.usage.completion_tokens, bench.turn.usage.estimated) == (
        3,
        2,
        False,
    )


async def test_without_token_streaming_only_whole_messages_are_shown() -> None:
    """C4."""
    bench = Bench(["a", "b", call("ping")], ["c", "d"], tools=[ping], streaming=False)
    assert await bench.run() == Finished("cd")
    assert "text" not in bench.journal.kinds()
    assert [value.text for kind, value in bench.journal.events if kind == "message"] == ["ab", "cd"]


async def test_without_token_streaming_nothing_of_a_cut_step_is_shown_but_it_is_kept() -> None:
    """C3, C4."""
    gate = Gate()
    bench = Bench(["whole", call("ping")], ["half", gate], tools=[ping], streaming=False)
    running = bench.start()
    await gate.reached.wait()
    bench.agent.interrupt("Stop requested via API")
    assert await running == Stopped()
    assert [value.text for kind, value in bench.journal.events if kind == "message"] == ["whole"]
    assert bench.new[-1] == Message("assistant", "half", partial=True)


async def test_reasoning_is_streamed_and_not_part_of_the_answer() -> None:
    bench = Bench([thought("hm"), "yes"])
    assert await bench.run() == Finished("yes")
    assert ("reasoning", "hm") in bench.journal.events


async def test_without_token_streaming_no_thoughts_are_shown() -> None:
    """C4."""
    bench = Bench([thought("hm"), "a"], streaming=False)
    assert await bench.run() == Finished("a")
    assert "reasoning" not in bench.journal.kinds()


async def test_what_the_model_sent_is_counted_by_the_moment_it_came() -> None:
    """C12, R11."""
    gate = Gate()
    bench = Bench(["Hel", "lo", gate, "!"])
    running = bench.start()
    await gate.reached.wait()
    between, first_token_at = time.time(), bench.turn.first_token_at
    gate.open()
    await running
    assert (bench.turn.tokens_since(0), bench.turn.tokens_since(between)) == (3, 1)
    assert first_token_at is not None
    assert bench.turn.first_token_at == first_token_at


async def test_usage_is_estimated_where_the_provider_sends_none_and_priced() -> None:
    bench = Bench(["x" * 400], prices=Prices(Decimal(1), Decimal(10)))
    await bench.run()
    assert bench.turn.usage.estimated
    assert bench.turn.usage.completion_tokens == 101
    assert bench.turn.usage.cost == (2 * Decimal(1) + 101 * Decimal(10)) / 1_000_000


async def test_tools_run_and_the_model_goes_on() -> None:
    bench = Bench(["let me see", call("ping", id="c1")], "it said pong", tools=[ping])
    assert await bench.run() == Finished("it said pong")
    assert [message.role for message in bench.new] == ["assistant", "tool", "assistant"]
    assert bench.new[1].content == "pong"


async def test_one_after_another_each_result_is_stored_before_the_next_tool_starts() -> None:
    """T1, T2: nothing starts before the journal has stored the call and the earlier result."""
    seen: list[tuple[str, list[int]]] = []

    @tool()
    async def look() -> str:
        """Notes what is stored when it starts."""
        seen.append(("flushed", sorted(flushed)))
        return "ok"

    bench = Bench(["", call("look", id="a"), call("look", id="b")], "end", tools=[look])
    flushed: list[int] = []
    original = bench.journal.flush

    async def flush() -> None:
        await original()
        flushed[:] = list(bench.journal.messages)

    bench.journal.flush = flush  # type: ignore[method-assign]
    await bench.run()
    assert seen == [("flushed", [1, 2]), ("flushed", [1, 2, 3])]
    assert bench.journal.kinds()[1:5] == ["started", "completed", "started", "completed"]


async def test_in_parallel_results_are_stored_as_they_come_and_listed_in_the_order_of_the_calls() -> None:
    """T3."""
    slow, fast = Gate(), Gate()
    tools = [gated_tool("slow", slow, "slow"), gated_tool("fast", fast, "fast")]
    bench = Bench(["", call("slow", id="a"), call("fast", id="b")], "end", tools=tools, parallel=True)
    running = bench.start()
    await slow.reached.wait()
    await fast.reached.wait()
    fast.open()
    await until(lambda: 4 in bench.journal.messages)
    assert 3 not in bench.journal.messages
    slow.open()
    assert await running == Finished("end")
    assert [message.content for message in bench.new[1:3]] == ["slow", "fast"]


async def test_failing_tools_fail_no_run() -> None:
    """E3: bad arguments, an unknown tool, an exception and a time-out are told to the model."""

    @tool()
    async def breaks() -> str:
        """Breaks."""
        raise ToolError("out of paper")

    @tool(timeout=0.01)
    async def sleeps() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return ""

    calls = [call("ping", "{nonsense"), call("nobody"), call("breaks"), call("sleeps")]
    bench = Bench(["", *calls], "I see", tools=[ping, breaks, sleeps])
    assert await bench.run() == Finished("I see")
    contents = [str(message.content) for message in bench.new[1:5]]
    assert "JSON" in contents[0]
    assert "no tool 'nobody'" in contents[1]
    assert "out of paper" in contents[2]
    assert "seconds" in contents[3]


# -- limits


async def test_a_run_ends_at_its_step_limit() -> None:
    """L1, L2."""
    bench = Bench(["one", call("ping")], ["two", call("ping")], "three", tools=[ping], limits=Limits(2, 60))
    assert await bench.run() == LimitReached("max_steps")
    assert [message.role for message in bench.new] == ["assistant", "tool", "assistant", "tool"]
    assert bench.turn.output == "two"


@pytest.mark.parametrize("limits", [Limits(10, 60, max_tokens=40), Limits(10, 60, max_cost=Decimal("0.00002"))])
async def test_a_run_ends_at_its_budget_before_the_next_model_call(limits: Limits) -> None:
    """L1: also where it is used up exactly."""
    answers: list[Answer] = [["", call("ping"), used(10, 10)] for _ in range(5)]
    bench = Bench(*answers, tools=[ping], limits=limits, prices=Prices(Decimal(1), Decimal(1)))
    assert await bench.run() == LimitReached("budget")
    assert len(bench.provider.requests) == (2 if limits.max_tokens else 1)


async def test_a_run_ends_at_its_time_limit_in_the_middle_of_a_word_and_keeps_it() -> None:
    """L1, L2."""
    bench = Bench(["so far", Gate()], limits=Limits(10, 0.02))
    assert await bench.run() == LimitReached("max_time")
    assert bench.new == [Message("assistant", "so far", partial=True)]


async def test_a_run_ends_at_its_time_limit_in_a_tool_and_its_call_is_answered() -> None:
    """L1, L2."""
    bench = Bench(["", call("gated"), call("gated")], tools=[gated_tool("gated", Gate())], limits=Limits(10, 0.02))
    assert await bench.run() == LimitReached("max_time")
    assert "time limit" in str(bench.new[1].content)
    assert "Not executed" in str(bench.new[2].content)


@pytest.mark.parametrize("causes", [(Cause.TIME_LIMIT, Cause.STOP), (Cause.STOP, Cause.TIME_LIMIT)])
async def test_stop_beats_the_time_limit_when_both_come(causes: tuple[Cause, Cause]) -> None:
    """C10: whichever comes first."""
    gate = Gate()
    bench = Bench(["x", gate])
    running = bench.start()
    await gate.reached.wait()
    for cause in causes:
        bench.turn.interrupt(cause.name, cause)
    assert await running == Stopped()
    assert (bench.turn.cause, bench.turn.reason) == (Cause.STOP, "STOP")


async def test_stop_beats_the_step_limit_when_both_come() -> None:
    """C10."""
    gate = Gate()
    bench = Bench(["", call("gated")], tools=[gated_tool("gated", gate)], limits=Limits(1, 60))
    running = bench.start()
    await gate.reached.wait()
    gate.open()
    bench.agent.interrupt("Stop requested via API")
    assert await running == Stopped()


# -- histories


def test_any_history_becomes_well_formed() -> None:
    """C8."""
    calls = (ToolCall("a", "x", "{}"), ToolCall("b", "x", "{}"))
    broken = [
        Message("tool", "orphan", tool_call_id="z"),
        Message("user", "hi"),
        Message("assistant", "", tool_calls=calls),
        Message("tool", "second", tool_call_id="b"),
        Message("tool", "second again", tool_call_id="b"),
        Message("assistant", ""),
        Message("user", "next"),
        Message("tool", "too late", tool_call_id="a"),
        Message("assistant", "", tool_calls=(ToolCall("c", "x", "{}"),)),
    ]
    formed = make_well_formed(broken)
    assert find_malformed(formed) is None
    assert [message.tool_call_id for message in formed if message.role == "tool"] == ["a", "b", "c"]


async def test_a_strict_provider_gets_a_well_formed_history_whatever_is_stored() -> None:
    """C8."""
    asked = Message("assistant", "", tool_calls=(ToolCall("lost", "ping", "{}"),))
    bench = Bench("done", history=[Message("user", "1"), asked, Message("user", "2")])
    assert await bench.agent.run(bench.turn) == Finished("done")
    assert [message.role for message in bench.provider.requests[0].messages] == ["user", "assistant", "tool", "user"]


async def test_a_call_id_that_the_conversation_has_had_is_told_apart() -> None:
    """C8: each tool call is answered exactly once."""
    asked = Message("assistant", "", tool_calls=(ToolCall("same", "ping", "{}"),))
    answered = Message("tool", "pong", tool_call_id="same", name="ping")
    bench = Bench(["", call("ping", id="same")], tools=[ping], history=[Message("user", "1"), asked, answered])
    assert await bench.run() == Finished("done")
    ids = [made.id for message in bench.agent.history for made in message.tool_calls]
    assert len(set(ids)) == 2


async def test_repeated_and_empty_call_ids_are_told_apart() -> None:
    """C8."""
    bench = Bench(
        ["", call("ping", id=""), call("ping", id="same"), call("ping", id="same")],
        ["", call("ping", id="same")],
        "end",
        tools=[ping],
    )
    assert await bench.run() == Finished("end")
    ids = [made.id for message in bench.new for made in message.tool_calls]
    assert len(set(ids)) == 4
