"""The agent loop without a database: what it says, keeps and closes, whenever it is interrupted."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from gateway import loop as loop_module
from gateway.agent import Agent, AgentSetup, Prices
from gateway.errors import ProviderError
from gateway.loop import Limits, Resumption, Turn
from gateway.messages import Message, ToolCall, make_well_formed
from gateway.outcomes import Cause, Failed, Finished, HandedBack, LimitReached, Stopped
from gateway.step import Step
from gateway.tools.registry import Tool, ToolContext, ToolError, tool
from tests.gateway.recording import RecordingJournal
from tests.scripted import Answer, Gate, ScriptedProvider, call, find_malformed, thought, used


class NoNotes:
    async def remember(self, key: str, text: str) -> None:
        raise NotImplementedError

    async def recall(self) -> dict[str, str]:
        return {}


class Bench:
    """An agent with a script, a journal in memory and one turn."""

    def __init__(
        self,
        *answers: Answer,
        tools: Sequence[Tool] = (),
        parallel: bool = False,
        limits: Limits | None = None,
        streaming: bool = True,
        resumption: Resumption | None = None,
        history: Sequence[Message] = (Message("user", "hello"),),
        prices: Prices | None = None,
        max_retries: int = 3,
    ) -> None:
        self.provider = ScriptedProvider(*answers)
        setup = AgentSetup("model", has_parallel_tools=parallel, prices=prices or Prices(), max_retries=max_retries)
        self.agent = Agent(setup, self.provider, {each.name: each for each in tools})
        self.agent.load_history(history, len(history))
        self.journal = RecordingJournal()
        for position, message in enumerate(history, start=1):
            self.journal.messages[position] = message
        if resumption is not None and (step := resumption.open_step) is not None:
            for made in step.calls:
                if made.id in step.answers:
                    self.journal.messages[step.position_of(made)] = step.answers[made.id]
        self.turn = Turn(
            self.agent,
            self.journal,
            limits or Limits(10, 60),
            lambda made, report: ToolContext("conv_1", made.id, NoNotes(), report),
            has_token_streaming=streaming,
            resumption=resumption,
            grace_seconds=0.01,
        )

    async def run(self):
        outcome = await self.agent.run(self.turn)
        self.check()
        return outcome

    def start(self) -> asyncio.Task:
        return asyncio.create_task(self.run())

    def check(self) -> None:
        """Memory and record hold the same messages in the same order, and a provider would accept them (C8, C9)."""
        stored = [message for _, message in sorted(self.journal.messages.items())]
        assert sorted(self.journal.messages) == list(range(1, len(stored) + 1))
        if self.turn.cause is not Cause.SHUTDOWN:
            assert stored == self.agent.history
            assert find_malformed(stored) is None
        assert self.provider.open_streams == 0

    @property
    def new(self) -> list[Message]:
        return self.agent.history[1:]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


def gated_tool(name: str, gate: Gate, result: str = "result") -> Tool:
    @tool()
    async def gated() -> str:
        """Waits for the test."""
        await gate.wait()
        return result

    return replace(gated, name=name)


@tool()
async def ping() -> str:
    """Answers."""
    return "pong"


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


@pytest.mark.parametrize("limits", [Limits(10, 60, max_tokens=30), Limits(10, 60, max_cost=Decimal("0.00002"))])
async def test_a_run_ends_at_its_budget_before_the_next_model_call(limits: Limits) -> None:
    """L1."""
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


async def test_stop_beats_the_time_limit_when_both_come() -> None:
    """C10."""
    gate = Gate()
    bench = Bench(["x", gate])
    running = bench.start()
    await gate.reached.wait()
    bench.turn.interrupt("time limit", Cause.TIME_LIMIT)
    bench.agent.interrupt("Stop requested via API")
    assert await running == Stopped()


async def test_stop_beats_the_step_limit_when_both_come() -> None:
    """C10."""
    gate = Gate()
    bench = Bench(["", call("gated")], tools=[gated_tool("gated", gate)], limits=Limits(1, 60))
    running = bench.start()
    await gate.reached.wait()
    gate.open()
    bench.agent.interrupt("Stop requested via API")
    assert await running == Stopped()


# -- stop


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


async def test_a_tool_that_ignores_its_cancellation_is_abandoned_and_the_run_ends(caplog) -> None:
    """C1, C11."""
    begun, release = asyncio.Event(), asyncio.Event()

    @tool()
    async def stubborn() -> str:
        """Does not listen."""
        begun.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
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
    bench.check()


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


# -- failures and retries


def transient(retry_after: float | None = 0.0) -> ProviderError:
    return ProviderError("llm_rate_limit", "too many", transient=True, retry_after=retry_after)


async def test_a_transient_error_is_retried_and_every_retry_is_told() -> None:
    """E2."""
    bench = Bench([transient()], [transient()], "made it")
    assert await bench.run() == Finished("made it")
    assert [value for kind, value in bench.journal.events if kind == "retry"] == [
        (1, 0.0, "llm_rate_limit"),
        (2, 0.0, "llm_rate_limit"),
    ]


async def test_a_lasting_error_is_not_retried_and_ends_the_run() -> None:
    """E1."""
    bench = Bench([ProviderError("llm_authentication", "refused", "401")], "never")
    assert await bench.run() == Failed("llm_authentication", "refused", "401")
    assert len(bench.provider.requests) == 1


async def test_retries_come_to_an_end_and_what_was_said_is_kept() -> None:
    """E1, E2."""
    cut = ProviderError("llm_error", "cut", transient=True, retry_after=0)
    bench = Bench(["abc", cut], ["ab", cut], ["abcd", cut], max_retries=2)
    assert await bench.run() == Failed("llm_error", "cut")
    assert bench.new == [Message("assistant", "abcd", partial=True)]
    assert bench.journal.text == "abcd"


async def test_a_retry_never_repeats_what_was_streamed() -> None:
    """E2."""
    cut = ProviderError("llm_error", "cut", transient=True, retry_after=0)
    bench = Bench(["one ", "two", cut], ["one", " two", " three"])
    assert await bench.run() == Finished("one two three")
    assert bench.journal.text == "one two three"
    assert bench.new == [Message("assistant", "one two three")]


async def test_a_retry_that_says_something_else_begins_a_new_message_and_keeps_the_old_one() -> None:
    """E2, C9."""
    cut = ProviderError("llm_error", "cut", transient=True, retry_after=0)
    bench = Bench(["one two", cut], ["one", " three"])
    assert await bench.run() == Finished("one three")
    assert bench.new == [Message("assistant", "one two", partial=True), Message("assistant", "one three")]


async def test_a_retry_that_says_less_than_was_shown_is_a_message_of_its_own() -> None:
    """E2, C9."""
    cut = ProviderError("llm_error", "cut", transient=True, retry_after=0)
    bench = Bench(["one two", cut], ["one"])
    assert await bench.run() == Finished("one")
    assert bench.new == [Message("assistant", "one two", partial=True), Message("assistant", "one")]


async def test_a_stop_ends_the_wait_for_a_retry_at_once() -> None:
    """E2."""
    bench = Bench([transient(100.0)], "never")
    running = bench.start()
    await until(lambda: "retry" in bench.journal.kinds())
    bench.agent.interrupt("Stop requested via API")
    assert await running == Stopped()
    assert len(bench.provider.requests) == 1


async def test_the_unexpected_is_an_internal_error_with_a_traceback() -> None:
    """E1."""
    bench = Bench(["half", ZeroDivisionError("boom")])
    outcome = await bench.run()
    assert isinstance(outcome, Failed)
    assert outcome.error_type == "internal_error"
    assert "ZeroDivisionError" in outcome.detail
    assert bench.new == [Message("assistant", "half", partial=True)]


# -- shutdown and crash


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
