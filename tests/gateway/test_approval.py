"""Who is asked before a call runs: the rules, and the loop that stops where a person must decide."""

import asyncio
import json
from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import Field

from gateway.loop import Resumption
from gateway.messages import Message, ToolCall
from gateway.outcomes import Cause, Finished, HandedBack, NeedsApproval, Stopped
from gateway.step import Approved, Step
from gateway.tools.approval import find_ask, find_fault, is_looser
from gateway.tools.base import Rule
from gateway.tools.registry import Tool, tool
from gateway.tools.send_email import send_email
from tests.gateway.test_tools import call as call_tool
from tests.gateway.test_tools import make_context
from tests.gateway.turns import Bench, ping
from tests.scripted import Answer, call

sent: list[float] = []


@tool(approval="always")
async def pay(amount: float = 500, path: Annotated[str, Field(max_length=100)] = "reports/a") -> str:
    """Pays somebody."""
    sent.append(amount)
    return f"paid {amount:g}"


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()


def asks(rule: Rule, arguments: dict[str, Any] | str) -> bool:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return find_ask(ToolCall("1", "pay", text), pay, rule) is not None


OVER_100 = {"properties": {"amount": {"exclusiveMinimum": 100}}, "required": ["amount"]}
OUTSIDE = {"properties": {"path": {"not": {"pattern": "^reports/"}}}, "required": ["path"]}
# On the text below Python's own engine is busy for longer than anybody lives.
ENDLESS = "^(a+)+$"
ENDLESS_TEXT = "a" * 60 + "!"
# Rules in which jsonschema would apply the patterns itself.
OTHER_VALIDATOR: dict[str, Any] = {
    "properties": {"path": {"$schema": "https://json-schema.org/draft/2020-12/schema", "pattern": ENDLESS}}
}
SELF_REFERRING = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "properties": {"path": {"$ref": "#"}},
}
LOOKED_AT_TWICE = {"patternProperties": {ENDLESS: {}}, "unevaluatedProperties": False}


@pytest.mark.parametrize(
    ("rule", "arguments", "is_asked"),
    [
        ("always", {}, True),
        ("never", {"amount": 10**6}, False),
        (OVER_100, {"amount": 100}, False),
        (OVER_100, {"amount": 100.5}, True),
        (OVER_100, {}, True),  # it would run with 500
        (OUTSIDE, {"path": "reports/b"}, False),
        (OUTSIDE, {"path": "../etc"}, True),
        (OUTSIDE, {}, False),
        # Nothing is overlooked that the tool would be given.
        (OUTSIDE, {"path": "re\0ports/b"}, True),
        (OUTSIDE, {"path": "\0reports/../b"}, True),
        (OUTSIDE, '{"path": "\\ud800reports/b"}', True),
        ({"properties": {"path": {"pattern": ENDLESS}}}, {"path": "aaa"}, True),
        ({"properties": {"path": {"pattern": ENDLESS}}}, {"path": ENDLESS_TEXT}, False),
        ({"properties": {"path": {"pattern": "etc"}}}, '{"path": "\\ud800 etc"}', True),
        # What does not fit the tool goes back to the model.
        ("always", {"amount": "much"}, False),
        ("always", "rubbish", False),
        ("always", {"who": "me"}, False),
        # What cannot be applied asks.
        ("sometimes", {}, True),
        (7, {}, True),
        (False, {}, True),
        ({"$ref": "http://nowhere.invalid/schema"}, {}, True),
        ({"properties": {"path": {"pattern": "(?=etc)"}}}, {}, True),
        (OTHER_VALIDATOR, {"path": ENDLESS_TEXT}, True),
        (LOOKED_AT_TWICE, {"path": "etc"}, True),
        ({**SELF_REFERRING, "pattern": ENDLESS}, {"path": ENDLESS_TEXT}, False),
    ],
)
def test_a_rule_decides_by_the_arguments_with_which_a_call_would_run(
    rule: Any, arguments: Any, is_asked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    assert asks(rule, arguments) == is_asked


def test_a_rule_on_the_names_of_arguments_takes_no_longer() -> None:
    """Nor one that says what other names there may be."""

    @tool()
    async def store(values: dict[str, int]) -> None:
        """Stores numbers."""

    named = {"patternProperties": {ENDLESS: {"minimum": 5}}, "additionalProperties": False}
    for values, is_asked in (({ENDLESS_TEXT: 7}, False), ({"aa": 7}, True), ({"aa": 3}, False), ({"b": 7}, False)):
        made = ToolCall("1", "store", json.dumps({"values": values}))
        assert (find_ask(made, store, {"properties": {"values": named}}) is not None) == is_asked, values


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("always", None),
        ("never", None),
        (OVER_100, None),
        (OUTSIDE, None),
        ({"anyOf": [OVER_100, OUTSIDE]}, None),
        ("sometimes", '"always", "never", or a JSON schema'),
        ({}, '"always", "never", or a JSON schema'),
        ([OVER_100], '"always", "never", or a JSON schema'),
        (None, '"always", "never", or a JSON schema'),
        (True, '"always", "never", or a JSON schema'),
        ({"properties": {"amount": {"exclusiveMinimum": "100"}}}, "properties.amount.exclusiveMinimum"),
        ({"properties": {"path": {"pattern": "("}}}, "properties.path.pattern"),
        ({"properties": {"path": {"pattern": "^(?!reports/)"}}}, "look-around, including look-ahead"),
        ({"anyOf": [OVER_100, {"patternProperties": {r"(a)\1": True}}]}, "backreferences are not supported."),
        (OTHER_VALIDATOR, "at the top only"),
        (LOOKED_AT_TWICE, "cannot be applied together"),
        ({"required": "amount"}, "required"),
        ({"amount": {"exclusiveMinimum": 100}}, "'amount', which is no keyword"),
        # Under "not" it would never ask.
        ({"properties": {"path": {"not": {"patern": "^reports/"}}}}, "'patern', which is no keyword"),
        ({"anyOf": [OVER_100, {"if": {"needed": ["path"]}}]}, "'needed', which is no keyword"),
        ({"properties": {"amount": True, "path": {"default": "a", "examples": ["b"]}}}, None),
        ({"properties": {"amont": {"minimum": 1}}}, "'amont', which the tool does not have; it has: amount, path"),
        ({"required": ["amont"]}, "'amont'"),
        ({"anyOf": [OVER_100, {"not": {"required": ["amont"]}}]}, "'amont'"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_named(rule: Any, words: str | None) -> None:
    fault = find_fault(rule, pay.parameters)
    assert fault is None if words is None else words in str(fault)


def test_a_tool_cannot_be_declared_with_a_rule_that_cannot_be_meant() -> None:
    def broken(amount: int) -> None:
        """Pays."""

    with pytest.raises(TypeError, match="approval rule of the tool broken names the argument 'sum'"):
        tool(approval={"required": ["sum"]})(broken)


@pytest.mark.parametrize(
    ("rule", "default", "is_it"),
    [
        ("always", "never", False),
        ("always", "always", False),
        ("always", OVER_100, False),
        (OVER_100, OVER_100, False),
        (OVER_100, "never", False),
        ("never", "never", False),
        ("never", "always", True),
        ("never", OVER_100, True),
        (OVER_100, "always", True),
        (OUTSIDE, OVER_100, True),
    ],
)
def test_a_rule_is_looser_if_it_may_let_through_what_the_tool_would_ask_for(
    rule: Rule, default: Rule, is_it: bool
) -> None:
    assert is_looser(rule, default) is is_it


def test_what_is_shown_fits_every_database_and_is_what_will_run() -> None:
    raw = '{"amount": 1000, "path": "a\\u0000b\\ud800"}'
    ask = find_ask(ToolCall("1", "pay", raw), pay, "always")
    assert ask is not None
    assert ask.arguments == {"amount": 1000, "path": "ab?"}

    @tool()
    def anything(value: Any) -> None:
        """Takes anything."""

    made = ToolCall("1", "anything", json.dumps({"value": [2**70, 1.5, True, None]}))
    ask = find_ask(made, anything, "always")
    assert ask is not None
    assert ask.arguments["value"] == [str(2**70), 1.5, True, None]


@pytest.mark.parametrize("depth", [1, 10, 60, 70, 165, *range(940, 1000), 100_000])
async def test_no_depth_of_the_arguments_gets_past_the_question(depth: int) -> None:
    """How much fits on the stack depends on who calls: what is too deep to be asked about must be too deep to run."""
    ran = []

    @tool(approval="always")
    async def anything(value: Any) -> None:
        """Takes anything."""
        ran.append(value)

    made = ToolCall("1", "anything", f'{{"value": {"[" * depth}{"]" * depth}}}')
    if find_ask(made, anything, "always") is None:
        result = await asyncio.create_task(anything.call(made.arguments, make_context()))
        assert "nested too deeply" in result.content
    assert ran == []


# -- the loop


def bench(*answers: Answer, tools: tuple[Tool, ...] = (pay, ping), **options: Any) -> Bench:
    return Bench(*answers, tools=tools, **options)


async def ask_in(bench: Bench) -> NeedsApproval:
    outcome = await bench.agent.run(bench.turn)
    assert isinstance(outcome, NeedsApproval)
    return outcome


async def test_a_tool_whose_schema_cannot_be_applied_fails_no_run(caplog: pytest.LogCaptureFixture) -> None:
    """E3: a pattern may be one that only pydantic understands. The call fails as it would without any approval."""

    @tool(approval="always")
    async def greet(name: Annotated[str, Field(pattern=r"^\p{L}+$")]) -> None:
        """Greets somebody."""
        sent.append(1)

    working = bench(["", call("greet", {"name": "ada"})], "done", tools=(greet,))
    assert await working.run() == Finished("done")
    assert "greet failed" in working.agent.history[-2].text
    assert sent == []


@pytest.mark.parametrize("parallel", [False, True])
async def test_the_loop_stops_at_the_first_call_that_needs_somebody(parallel: bool) -> None:
    """T1: everything until then is stored."""
    made = [call("ping", id="1"), call("pay", {"amount": 1}, id="2"), call("ping", id="3"), call("pay", id="4")]
    working = bench(["Well.", *made], parallel=parallel)
    outcome = await ask_in(working)
    assert [ask.call.id for ask in outcome.asks] == ["2", "4"]
    assert (outcome.asks[0].arguments, outcome.why) == ({"amount": 1}, "Well.")
    assert outcome.asks[0].parameters == pay.parameters
    assert [value for kind, value in working.journal.events if kind == "started"] == ["1"]
    assert sorted(working.journal.messages) == [1, 2, 3]
    assert sent == []


async def test_an_agents_rule_goes_before_the_tools() -> None:
    working = bench(["", call("pay", {"amount": 1}), call("ping")], "done")
    working.agent.approvals = {"pay": "never"}
    assert await working.run() == Finished("done")
    assert sent == [1]
    working = bench(["", call("ping", id="1")])
    working.agent.approvals = {"ping": "always"}
    assert [ask.call.id for ask in (await ask_in(working)).asks] == ["1"]


def resumed(approved: dict[str, Approved], *, started: set[str] | None = None, **options: Any) -> Bench:
    calls = (ToolCall("1", "pay", '{"amount": 1}'), ToolCall("2", "ping", "{}"), ToolCall("3", "pay", '{"amount": 3}'))
    history = (Message("user", "hello"), Message("assistant", "", tool_calls=calls))
    step = Step(calls, 2, started or set(), approved=approved)
    return bench("done", history=history, resumption=Resumption(open_step=step, steps=1), **options)


@pytest.mark.parametrize("parallel", [False, True])
async def test_approved_calls_run_with_what_was_approved_and_the_edit_is_told(parallel: bool) -> None:
    """T2, T3."""
    approved = {"1": Approved('{"amount": 7}', "[edited]"), "3": Approved('{"amount": 3}')}
    working = resumed(approved, parallel=parallel)
    assert await working.run() == Finished("done")
    assert sent == [7, 3]
    texts = [message.text for message in working.agent.history if message.role == "tool"]
    assert texts == ["paid 7\n\n[edited]", "pong", "paid 3"]
    assert working.agent.history[1].tool_calls[0].arguments == '{"amount": 1}'


async def test_a_call_that_nobody_approved_is_asked_for_though_others_were() -> None:
    working = resumed({"1": Approved('{"amount": 1}')})
    assert [ask.call.id for ask in (await ask_in(working)).asks] == ["3"]
    assert sent == [1]


async def test_an_approved_call_that_had_started_is_not_executed_again() -> None:
    """T4."""
    working = resumed({"1": Approved('{"amount": 7}', "[edited]"), "3": Approved('{"amount": 3}')}, started={"1"})
    assert await working.run() == Finished("done")
    assert sent == [3]
    answer = working.agent.history[2].text
    assert answer.startswith("Interrupted, outcome unknown")
    assert answer.endswith("[edited]")


@pytest.mark.parametrize("cause", [Cause.STOP, Cause.SHUTDOWN])
@pytest.mark.parametrize("ticks", range(0, 24, 2))
async def test_an_interruption_at_any_moment_around_the_question(cause: Cause, ticks: int) -> None:
    """C6, C9: asked or interrupted, and nothing in between."""
    working = bench(["", call("ping", id="1"), call("pay", id="2"), call("ping", id="3")])
    task = asyncio.create_task(working.agent.run(working.turn))
    for _ in range(ticks):
        await asyncio.sleep(0)
    working.agent.interrupt("now", cause)
    outcome = await task
    assert isinstance(outcome, NeedsApproval | (Stopped if cause is Cause.STOP else HandedBack))
    if isinstance(outcome, Stopped):
        working.check()
    assert sent == []


async def test_the_e_mail_goes_into_the_outbox_that_it_is_given() -> None:
    class Outbox:
        def __init__(self) -> None:
            self.sent: list[tuple[str, str, str]] = []

        async def send(self, to: str, subject: str, body: str) -> None:
            self.sent.append((to, subject, body))

    outbox = Outbox()
    letter = {"to": "ada@example.com", "subject": "Two\nlines", "body": "Hello\nAda"}
    result = await call_tool(send_email, letter, replace(make_context(), outbox=outbox))
    assert outbox.sent == [("ada@example.com", "Two lines", "Hello\nAda")]
    assert not result.is_error
    longest = {**letter, "body": "\N{GRINNING FACE}" * 20_000}
    await call_tool(send_email, longest, replace(make_context(), outbox=outbox))
    assert outbox.sent[-1][2] == longest["body"], "what was approved is what is sent"
    assert (await call_tool(send_email, letter)).is_error, "without an outbox nothing is said to be sent"
    for to in ("ada", "a@b@c", "ada@example.com, bob@example.com", "Ada <ada@example.com>", "a b@c"):
        assert (await call_tool(send_email, {**letter, "to": to})).is_error
