"""The built-in model, through the same client as any other: what it says, and which tools it calls."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from gateway.errors import ProviderError
from gateway.messages import Message, ToolCall
from gateway.providers.base import (
    Ended,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    UsageReport,
)
from gateway.providers.demo import DemoTransport, demo_transport
from gateway.providers.demo.script import cut_into_tokens
from gateway.providers.demo.story import LONG
from gateway.providers.openai import OpenAIProvider

TOOLS = ("current_time", "calculator", "wait", "remember", "recall", "send_email")


@dataclass
class Answer:
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    finish: str = ""
    tokens: int = 0


@pytest.fixture
async def provider() -> AsyncIterator[OpenAIProvider]:
    transport = DemoTransport(tokens_a_second=0, seconds_to_think=0)
    provider = OpenAIProvider(base_url="http://demo.invalid/v1", transport=transport)
    yield provider
    await provider.close()


async def ask(provider: OpenAIProvider, *messages: Message | str, tools: tuple[str, ...] = TOOLS) -> Answer:
    history = [Message("user", message) if isinstance(message, str) else message for message in messages]
    specs = [ToolSpec(name, name, {"type": "object"}) for name in tools]
    answer = Answer()
    async with provider.stream(ModelRequest("demo", "Be kind.", history, specs)) as batches:
        async for batch in batches:
            for chunk in batch:
                match chunk:
                    case TextDelta(text):
                        answer.text += text
                    case ReasoningDelta(text):
                        answer.reasoning += text
                    case ToolCallDelta(name=name, arguments=arguments):
                        answer.calls.append((name, json.loads(arguments)))
                    case Ended(reason):
                        answer.finish = reason
                    case UsageReport(usage):
                        answer.tokens = usage.total_tokens
    return answer


def after(question: str, *results: tuple[str, str, str]) -> list[Message]:
    """The conversation after the question was answered by calls, each with its name, arguments and result."""
    calls = tuple(ToolCall(f"c{number}", name, arguments) for number, (name, arguments, _) in enumerate(results))
    answers = [Message("tool", result, tool_call_id=f"c{number}") for number, (_, _, result) in enumerate(results)]
    return [Message("user", question), Message("assistant", "", calls), *answers]


@pytest.mark.parametrize(
    ("question", "calls"),
    [
        ("What time is it?", [("current_time", {})]),
        ("what is 17*23", [("calculator", {"expression": "17*23"})]),
        ("What time is it, and what is 17*23?", [("current_time", {}), ("calculator", {"expression": "17*23"})]),
        ("Calculate (3 + 4) * 2.5, please", [("calculator", {"expression": "(3 + 4) * 2.5"})]),
        ("calculate sqrt(2)", [("calculator", {"expression": "sqrt(2)"})]),
        ("How much is 12 x 12?", [("calculator", {"expression": "12 * 12"})]),
        ("What is 19% of 1204?", [("calculator", {"expression": "1204 * 19 / 100"})]),
        ("What is 3 times 4?", [("calculator", {"expression": "3 * 4"})]),
        ("1+1", [("calculator", {"expression": "1+1"})]),
        ("Wait 20 seconds", [("wait", {"seconds": 20})]),
        ("wait for 1.5 minutes", [("wait", {"seconds": 90})]),
        ("Wait 3 more seconds", [("wait", {"seconds": 3})]),
        ("Remember that my cat is called Minka.", [("remember", {"key": "cat", "text": "my cat is called Minka"})]),
        ("remember: buy milk", [("remember", {"key": "buy milk", "text": "buy milk"})]),
        ("What do you remember?", [("recall", {})]),
        (
            "Do three things at once",
            [("current_time", {}), ("calculator", {"expression": "17 * 23"}), ("wait", {"seconds": 2})],
        ),
        (
            "Send an email to bob@example.org saying see you at 8, bring 3 cakes",
            [
                (
                    "send_email",
                    {
                        "to": "bob@example.org",
                        "subject": "see you at 8, bring 3",
                        "body": "see you at 8, bring 3 cakes",
                    },
                )
            ],
        ),
        ("Wie spät ist es?", [("current_time", {})]),
        ("Rechne 17*23", [("calculator", {"expression": "17*23"})]),
    ],
)
async def test_it_calls_the_tools_that_it_is_asked_for(
    provider: OpenAIProvider, question: str, calls: list[tuple[str, dict[str, object]]]
) -> None:
    answer = await ask(provider, question)
    assert (answer.calls, answer.finish) == (calls, "tool_calls")


async def test_three_emails_are_three_parallel_calls(provider: OpenAIProvider) -> None:
    answer = await ask(provider, "Send three emails")
    assert [name for name, _ in answer.calls] == ["send_email"] * 3
    assert len({str(arguments["to"]) for _, arguments in answer.calls}) == 3
    assert answer.text, "the approval card shows why"


@pytest.mark.parametrize("question", ["The party on 2024-05-06 was good", "Call me at 555-1234", "I have 3 cats"])
async def test_a_number_in_a_sentence_is_no_calculation(provider: OpenAIProvider, question: str) -> None:
    assert (await ask(provider, question)).calls == []


@pytest.mark.parametrize(("question", "tool"), [("What time is it?", "current_time"), ("Send an email", "send_email")])
async def test_a_tool_that_is_not_offered_is_not_called_but_named(
    provider: OpenAIProvider, question: str, tool: str
) -> None:
    answer = await ask(provider, question, tools=("calculator",))
    assert answer.calls == []
    assert f"`{tool}`" in answer.text
    assert "does not offer" in answer.text


@pytest.mark.parametrize(
    ("name", "arguments", "result", "told"),
    [
        ("calculator", '{"expression": "17*23"}', "391", "`17*23` is **391**."),
        (
            "current_time",
            "{}",
            "Tuesday, 2026-01-06T10:00:00+00:00",
            "It is **10:00** (UTC) on Tuesday, 6 January 2026.",
        ),
        ("wait", '{"seconds": 20}', "Waited 20 seconds.", "Waited 20 seconds."),
        ("remember", '{"key": "cat", "text": "my cat is called Minka"}', "Remembered.", "my cat is called Minka"),
        ("recall", "{}", '{"cat": "called Minka"}', "* **cat**: called Minka"),
        (
            "recall",
            "{}",
            "There are no notes in this conversation yet.",
            "There are no notes in this conversation yet.",
        ),
        ("send_email", '{"to": "bob@example.org"}', "Sent.", "**bob@example.org**: Sent."),
        ("something_else", "{}", "42 parrots", "`something_else` answered: 42 parrots"),
    ],
)
async def test_it_quotes_what_a_tool_brought_back(
    provider: OpenAIProvider, name: str, arguments: str, result: str, told: str
) -> None:
    answer = await ask(provider, *after("Do it", (name, arguments, result)))
    assert told in answer.text
    assert (answer.calls, answer.finish) == ([], "stop")


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("Division by zero.", "did not manage it. It said: Division by zero."),
        ("Denied: the run was stopped.", "was not allowed"),
        ("Interrupted: the run was stopped while this call was running. Its outcome is not known.", "was stopped"),
        ("Not executed: the run was stopped before this call started.", "was stopped"),
        ("The tool calculator did not finish within 10 seconds.", "did not manage it"),
    ],
)
async def test_it_says_when_a_tool_failed_or_was_stopped(provider: OpenAIProvider, result: str, told: str) -> None:
    answer = await ask(provider, *after("What is 5/0?", ("calculator", '{"expression": "5/0"}', result)))
    assert told in answer.text
    assert result in answer.text


async def test_it_tells_several_results_in_the_order_of_the_calls(provider: OpenAIProvider) -> None:
    results = [
        ("current_time", "{}", "Tuesday"),
        ("calculator", '{"expression": "17 * 23"}', "391"),
        ("wait", '{"seconds": 2}', "Waited 2 seconds."),
    ]
    text = (await ask(provider, *after("Do three things at once", *results))).text
    assert text.index("Tuesday") < text.index("391") < text.index("Waited 2 seconds.")


async def test_results_of_an_earlier_question_are_not_told_again(provider: OpenAIProvider) -> None:
    history = after("What is 17*23?", ("calculator", '{"expression": "17*23"}', "391"))
    answer = await ask(provider, *history, Message("assistant", "391"), Message("user", "Thanks"))
    assert "391" not in answer.text


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Hi", "no real model behind me"),
        ("What is this?", "built-in demo"),
        ("What can you do?", "built-in demo"),
        ("How do I connect a real model?", "**Providers → Add.**"),
        ("How does Stop work?", "within 100 milliseconds"),
        ("What is a receipt?", "who asked for it"),
        ("What are approvals?", "*needs approval*"),
        ("Which limits are there?", "`max_steps`"),
        ("Show me the API", "/v1/runs"),
        ("Where is my data stored?", "SQLite"),
        ("Which tools do you have?", "`calculator`"),
        ("What happens after a crash?", "Nothing that was said or done is lost"),
        ("Show me a table", "|---|"),
        ("Write some code", "```python"),
        ("Thanks!", "You are welcome"),
        ("Fnord", "only the built-in demo"),
        ("", "built-in demo"),
        ("Hallo", "eingebaute Demo"),
        ("Was ist das?", "eingebaute Demo"),
        ("Wie funktioniert Stop?", "Stop heißt Stop"),
        ("Erzähl mir einen Witz", "leider nicht verstanden"),
    ],
)
async def test_it_knows_the_product(provider: OpenAIProvider, question: str, said: str) -> None:
    answer = await ask(provider, question)
    assert said in answer.text
    assert answer.finish == "stop"


async def test_a_long_answer_is_long_enough_to_be_stopped(provider: OpenAIProvider) -> None:
    """At its usual pace it talks for at least ten seconds."""
    answer = await ask(provider, "Write a long answer")
    assert answer.text == LONG
    assert len(cut_into_tokens(LONG)) > 600
    assert LONG.count("\n## ") >= 4


async def test_asked_to_think_it_reasons_first(provider: OpenAIProvider) -> None:
    answer = await ask(provider, "Think about lighthouses")
    assert "lighthouses" in answer.reasoning
    assert "lighthouses" in answer.text


async def test_tokens_are_counted(provider: OpenAIProvider) -> None:
    assert (await ask(provider, "Write a long answer")).tokens > 600


def test_tokens_put_together_are_the_text_again() -> None:
    assert "".join(cut_into_tokens(LONG)) == LONG
    assert max(len(token.strip()) for token in cut_into_tokens(LONG)) <= 6


@pytest.mark.parametrize("text", ["what " + "1" * 100_000, "1" + "-" * 100_000, "what is " + "(1+" * 50_000])
async def test_a_pasted_book_holds_up_nobody(provider: OpenAIProvider, text: str) -> None:
    """Patterns that take the square of a text's length would block the whole process."""
    assert (await ask(provider, text)).finish


@pytest.mark.parametrize(
    "history",
    [
        after("Go", ("wait", "{}", "done"))[:-1],
        [Message("user", "Go"), Message("tool", "done", tool_call_id="c0")],
        [*after("Go", ("wait", "{}", "done")), Message("tool", "done", tool_call_id="c0")],
        [*after("Go", ("wait", "{}", "done"))[:-1], Message("user", "And?")],
        [Message("user", "Go"), Message("assistant", "")],
    ],
    ids=["unanswered", "answers nothing", "answered twice", "answered too late", "empty"],
)
async def test_like_a_strict_provider_it_refuses_a_malformed_history(
    provider: OpenAIProvider, history: list[Message]
) -> None:
    """C8 can be proved with it."""
    with pytest.raises(ProviderError) as caught:
        await ask(provider, *history)
    assert (caught.value.error_type, caught.value.transient) == ("llm_error", False)


async def test_by_default_it_thinks_for_a_moment_and_talks_at_a_pleasant_pace() -> None:
    provider = OpenAIProvider(base_url="http://demo.invalid/v1", transport=demo_transport())
    begun_at = time.monotonic()
    answer = await ask(provider, "Thanks!")
    assert time.monotonic() - begun_at >= 0.4 + len(cut_into_tokens(answer.text)) / 60 - 0.01
    await provider.close()
