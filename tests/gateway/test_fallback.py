"""A second model goes on where the first one fails for good (contract P3, E2)."""

from decimal import Decimal
from typing import Any

import pytest

from gateway.agent import Agent, AgentSetup, Fallback, Prices
from gateway.errors import ProviderError
from gateway.loop import Turn
from gateway.outcomes import Failed, Finished, Stopped
from tests.gateway.turns import Bench, ping
from tests.scripted import Gate, ScriptedProvider, call, used


def overloaded(**details: Any) -> ProviderError:
    return ProviderError("llm_rate_limit", "Too many.", transient=True, **{"retry_after": 0.0, **details})


class TwoModels(Bench):
    """The first model and, in `second`, the other one."""

    def __init__(self, *answers: Any, second: Any = (), prices: Prices | None = None, **options: Any) -> None:
        super().__init__(*answers, max_retries=1, prices=prices, **options)
        self.second = ScriptedProvider(*second)
        turn = self.turn
        setup = AgentSetup("first", instructions="Be brief.", prices=prices or Prices(), max_retries=1)
        fallback = Fallback("second", self.second, max_retries=1, prices=Prices())
        self.agent = Agent(setup, self.provider, {"ping": ping}, fallback=fallback)
        self.agent.load_history(turn.agent.history, 1)
        turn.agent = self.agent
        self.turn: Turn = turn

    def price_second(self, prices: Prices) -> None:
        self.agent.fallback = Fallback("second", self.second, max_retries=1, prices=prices)


async def test_past_its_retries_the_run_goes_on_with_the_second_model_and_says_so() -> None:
    """P3: a transient failure, the retries of the first, then the second with the same prompt."""
    bench = TwoModels([overloaded()], [overloaded()], second=["Hello."])
    assert await bench.run() == Finished("Hello.")
    assert bench.journal.kinds() == ["retry", "model", "text", "message"]
    assert bench.journal.events[1] == ("model", ("first", "second", "llm_rate_limit"))
    assert [request.model for request in bench.provider.requests] == ["first", "first"]
    assert [request.model for request in bench.second.requests] == ["second"]
    assert {request.system_prompt for request in bench.provider.requests + bench.second.requests} == {"Be brief."}
    assert bench.agent.has_fallen_back


async def test_the_rest_of_the_run_stays_with_the_second_model() -> None:
    """P3"""
    bench = TwoModels([overloaded()], [overloaded()], second=[[call("ping")], "Done."])
    assert await bench.run() == Finished("Done.")
    assert (len(bench.provider.requests), len(bench.second.requests)) == (2, 2)


async def test_text_that_was_shown_is_not_repeated_by_the_second_model() -> None:
    """E2"""
    bench = TwoModels(["Hel", overloaded()], ["Hello", overloaded()], second=["Hello there."])
    assert await bench.run() == Finished("Hello there.")
    assert bench.journal.text == "Hello there."
    assert [message.text for message in bench.new] == ["Hello there."]


async def test_where_the_second_model_says_something_else_both_are_kept() -> None:
    """E2, C9"""
    bench = TwoModels(["Hello", overloaded()], [overloaded()], second=["Good day."])
    assert await bench.run() == Finished("Good day.")
    assert [(message.text, message.partial) for message in bench.new] == [("Hello", True), ("Good day.", False)]


async def test_if_the_second_fails_as_well_the_run_fails_with_that_error() -> None:
    """E1: after the retries of the second, and with its words."""
    other = ProviderError("llm_timeout", "Too slow.", transient=True, retry_after=0.0)
    bench = TwoModels([overloaded()], [overloaded()], second=[[other], [other]])
    assert await bench.run() == Failed("llm_timeout", "Too slow.", "")
    assert len(bench.second.requests) == 2
    assert bench.journal.kinds() == ["retry", "model", "retry"]


async def test_a_lasting_error_is_no_reason_for_another_model() -> None:
    """E1: a refused key or a malformed request would only be hidden."""
    bench = TwoModels([ProviderError("llm_authentication", "No.")], second=["Hello."])
    assert await bench.run() == Failed("llm_authentication", "No.", "")
    assert bench.second.requests == []
    assert not bench.agent.has_fallen_back


async def test_a_wait_that_is_too_long_is_not_waited_for() -> None:
    """E2: the provider says to come back in an hour."""
    bench = TwoModels([overloaded(retry_after=3600.0)], second=["Hello."])
    assert await bench.run() == Finished("Hello.")
    assert bench.journal.kinds()[0] == "model"


async def test_a_stop_while_the_second_model_speaks_is_a_stop() -> None:
    """C1, C3"""
    gate = Gate()
    bench = TwoModels([overloaded()], [overloaded()], second=[["Hel", gate]])
    running = bench.start()
    await gate.reached.wait()
    bench.agent.interrupt("stop")
    assert await running == Stopped()
    assert bench.second.open_streams == 0
    assert bench.new[-1].partial


@pytest.mark.parametrize(
    ("second_prices", "cost", "is_estimated"),
    [
        (Prices(Decimal(5), Decimal(5)), Decimal(10) * 1 + 20 * 5, False),
        (Prices(), Decimal(10) * 1 + 20 * 1, True),
    ],
)
async def test_each_model_is_paid_by_its_own_prices_and_assumed_ones_are_marked(
    second_prices: Prices, cost: Decimal, is_estimated: bool
) -> None:
    """L1: a cost limit holds also where nobody told what the second model costs."""
    price = Prices(Decimal(1), Decimal(1))
    bench = TwoModels(["Hel", used(6, 4), overloaded()], [overloaded()], second=[["Hello", used(12, 8)]], prices=price)
    bench.price_second(second_prices)
    await bench.run()
    assert bench.turn.usage.cost == cost / 1_000_000
    assert bench.turn.usage.estimated is is_estimated


def test_what_a_message_may_change_touches_neither_prompt_nor_model() -> None:
    """P2: in place; the bytes of the prompt stay the same."""
    agent = Agent(AgentSetup("first", instructions="Grüße."), ScriptedProvider(), {"ping": ping})
    before = agent.request([])
    agent.reasoning_effort = "high"
    after = agent.request([])
    assert after.reasoning_effort == "high"
    assert after.system_prompt.encode() == before.system_prompt.encode()
    assert (after.model, after.tools, after.sampling) == (before.model, before.tools, before.sampling)


@pytest.mark.parametrize("is_hard", [False, True])
async def test_letting_an_agent_go_closes_the_clients_of_both_models(is_hard: bool) -> None:
    """P8: whichever it has used last."""
    bench = TwoModels([overloaded()], [overloaded()], second=["Hello."])
    await bench.run()
    await (bench.agent.close() if is_hard else bench.agent.release_clients())
    assert (bench.provider.is_closed, bench.second.is_closed) == (True, True)
