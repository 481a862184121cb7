"""The agent loop when its provider fails: what is tried again, and what a watcher sees of it."""

import itertools

from gateway import loop as loop_module
from gateway.errors import ProviderError
from gateway.messages import Message, ToolCall
from gateway.outcomes import Failed, Finished, Stopped
from tests.gateway.turns import Bench, ping, until
from tests.scripted import call, thought


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


async def test_without_a_word_from_the_provider_the_waits_grow(monkeypatch) -> None:
    """E2: backoff, spread so that many runs do not come back together, and never longer than half a minute."""
    waits = [[loop_module._backoff(number) for _ in range(50)] for number in range(20)]
    assert all(len(set(spread)) > 1 for spread in waits)
    for shorter, longer in itertools.pairwise(waits[:5]):
        assert max(shorter) < min(longer)
    assert max(waits[-1]) < 30
    monkeypatch.setattr(loop_module, "_backoff", lambda retries: retries / 1000)
    bench = Bench([transient(None)], [transient(None)], "made it")
    assert await bench.run() == Finished("made it")
    assert [value[1] for kind, value in bench.journal.events if kind == "retry"] == [0.0, 0.001]


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


async def test_a_retry_does_not_think_aloud_again() -> None:
    """E2."""
    cut = ProviderError("llm_error", "cut", transient=True, retry_after=0)
    bench = Bench([thought("hm"), cut], [thought("hm"), "a"])
    assert await bench.run() == Finished("a")
    assert [value for kind, value in bench.journal.events if kind == "reasoning"] == ["hm"]


async def test_a_retry_asks_for_its_tools_anew() -> None:
    """E2, C8: half of a call that was cut is forgotten."""
    cut = ProviderError("llm_error", "cut", transient=True, retry_after=0)
    bench = Bench([call("nobody", '{"a": ', id="half"), cut], ["", call("ping", id="whole")], tools=[ping])
    assert await bench.run() == Finished("done")
    assert bench.new[0].tool_calls == (ToolCall("whole", "ping", "{}"),)


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
