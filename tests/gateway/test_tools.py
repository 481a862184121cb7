"""How a tool is declared and called: whatever goes wrong is told to the model, and fails no run (contract E3)."""

import asyncio
import enum
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import pytest
from jsonschema import Draft202012Validator
from pydantic import AfterValidator, BaseModel, Field

from gateway.messages import ToolResult
from gateway.tools.base import RESULT_LIMIT, clean_text
from gateway.tools.registry import BadArguments, Tool, ToolContext, ToolError, load_registry, tool


class FakeNotes:
    def __init__(self) -> None:
        self.notes: dict[str, str] = {}

    async def remember(self, key: str, text: str) -> None:
        self.notes[key] = text

    async def recall(self) -> dict[str, str]:
        return dict(self.notes)


class Reports(list[tuple[str, float | None]]):
    def __call__(self, text: str, fraction: float | None) -> None:
        self.append((text, fraction))


def make_context(notes: FakeNotes | None = None, reports: Reports | None = None) -> ToolContext:
    return ToolContext(
        conversation_id="conv_1",
        call_id="call_1",
        notes=notes or FakeNotes(),
        report=reports if reports is not None else Reports(),
    )


async def call(tool: Tool, arguments: object = None, context: ToolContext | None = None) -> ToolResult:
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return await tool.call(raw, context or make_context())


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Place(BaseModel):
    city: str
    country: str = "DE"


def refuse_thirteen(number: int) -> int:
    if number == 13:
        raise ValueError("13 brings bad luck")
    return number


@tool()
async def order(
    count: Annotated[int, Field(ge=1, le=20, description="How many.")],
    size: Size = Size.SMALL,
    price: Decimal | None = None,
    places: list[Place] = [],  # noqa: B006
    day: date | None = None,
    lucky: Annotated[int, AfterValidator(refuse_thirteen)] = 7,
) -> str:
    """Order something.

    With a second paragraph."""
    return repr((count, size, price, places, day, lucky))


def test_the_schema_comes_from_the_types_and_the_description_from_the_docstring():
    spec = order.spec
    Draft202012Validator.check_schema(spec.parameters)
    assert (spec.name, spec.description) == ("order", "Order something.\n\nWith a second paragraph.")
    assert spec.parameters["additionalProperties"] is False
    assert spec.parameters["required"] == ["count"]
    assert spec.parameters["properties"]["count"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 20,
        "description": "How many.",
    }
    assert "title" not in spec.parameters


async def test_the_function_gets_typed_values_and_its_defaults():
    result = await call(order, {"count": 2, "size": "large", "price": "1.50", "places": [{"city": "Ulm"}]})
    assert result == ToolResult(repr((2, Size.LARGE, Decimal("1.50"), [Place(city="Ulm")], None, 7)))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("{", "not valid JSON"),
        ("{'count': 1}", "not valid JSON"),
        ('{"count": NaN}', "NaN is not a JSON number"),
        ('{"count": ' + "1" * 5000 + "}", "not valid JSON"),
        ("[1]", "must be a JSON object, not list"),
        ('"count"', "must be a JSON object, not str"),
        ("null", "must be a JSON object, not NoneType"),
        ("[" * 100_000, "nested too deeply"),
        ("", "'count' is a required property"),
        ("{}", "'count' is a required property"),
        ('{"count": "three"}', "count: 'three' is not of type 'integer'"),
        ('{"count": 21}', "count: 21 is greater than the maximum of 20"),
        ('{"count": 1, "colour": "red"}', "'colour' was unexpected"),
        ('{"count": 1, "size": "huge"}', "size: 'huge' is not one of"),
        ('{"count": 1, "places": [{"city": "Ulm"}, {"city": 5}]}', "places[1].city: 5 is not of type 'string'"),
        ('{"count": 1, "day": 5}', "day: 5 is not of type 'string' and 5 is not of type 'null'"),
        ('{"count": 1, "day": "someday"}', "day: Input should be a valid date"),
        ('{"count": 1, "lucky": 13}', "lucky: Value error, 13 brings bad luck"),
    ],
)
async def test_bad_arguments_are_explained_to_the_model_and_the_tool_is_not_run(raw, words, caplog):
    """E3"""
    result = await order.call(raw, make_context())
    assert result.is_error
    assert words in result.content
    assert not caplog.records, "a model's mistake is no error of ours"


def test_validation_alone_raises():
    assert order.parse_arguments('{"count": 3}') == {"count": 3}
    with pytest.raises(BadArguments, match="count: 0 is less than the minimum of 1"):
        order.parse_arguments('{"count": 0}')


async def test_several_mistakes_are_told_at_once_and_long_ones_are_cut():
    """E3"""
    result = await call(order, {"count": "x" * 10_000, "size": "huge"})
    assert "count: 'xxx" in result.content
    assert "size: 'huge'" in result.content
    assert len(result.content) < 1000
    many = await call(order, {"count": 1, "places": [{}] * 50})
    assert "and 45 more" in many.content


async def test_a_call_without_any_arguments_at_all_is_an_empty_object():
    """Several providers send an empty text for it."""

    @tool()
    async def ping() -> str:
        """Ping."""
        return "pong"

    assert (await ping.call("", make_context())).content == "pong"
    assert (await ping.call(" \n", make_context())).content == "pong"


async def test_an_exception_becomes_words_for_the_model_and_a_traceback_in_the_log(caplog):
    """E3"""

    @tool()
    async def explode() -> str:
        """Explode."""
        return str(1 / 0)

    result = await call(explode)
    assert result == ToolResult("explode failed: ZeroDivisionError: division by zero", is_error=True)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("gateway.tools", "ERROR")
    assert "Traceback" in caplog.text


async def test_a_failure_that_a_tool_expects_is_told_word_for_word_and_not_logged(caplog):
    """E3"""

    @tool()
    async def refuse() -> str:
        """Refuse."""
        raise ToolError("The shop is closed.")

    assert await call(refuse) == ToolResult("The shop is closed.", is_error=True)
    assert not caplog.records


@pytest.mark.parametrize(
    "error",
    [RuntimeError("broken"), SystemExit(3), StopIteration(), TimeoutError("upstream"), asyncio.CancelledError()],
)
@pytest.mark.parametrize("is_plain", [False, True])
async def test_no_exception_of_any_kind_escapes_from_a_tool(error, is_plain):
    """E3: also those that would end the process, hang the thread or look like a stop."""

    def run_plain() -> str:
        """Raise."""
        raise error

    async def run() -> str:
        """Raise."""
        raise error

    async with asyncio.timeout(5):
        result = await call(tool()(run_plain if is_plain else run))
    assert result.is_error
    assert "failed: " in result.content


async def test_a_cancellation_is_passed_on():
    """C6: a stop is no failure of the tool."""
    is_running = asyncio.Event()
    was_cancelled = False

    @tool()
    async def hang() -> None:
        """Hang."""
        nonlocal was_cancelled
        is_running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            was_cancelled = True
            raise

    task = asyncio.create_task(call(hang))
    await is_running.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert was_cancelled


async def test_a_tool_that_takes_too_long_is_ended_and_the_model_is_told():
    """E3"""
    was_cancelled = False

    @tool(timeout=0.001)
    async def hang() -> None:
        """Hang."""
        nonlocal was_cancelled
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            was_cancelled = True
            raise

    result = await call(hang)
    assert result == ToolResult("hang took longer than 0.001 seconds and was ended.", is_error=True)
    assert was_cancelled


async def test_a_plain_function_runs_in_a_thread_and_reports_on_the_event_loop():
    seen = []

    def report(text: str, fraction: float | None) -> None:
        seen.append((text, fraction, threading.current_thread()))

    @tool()
    def count(context: ToolContext) -> bool:
        """Count."""
        context.report("half", 0.5)
        return threading.current_thread() is threading.main_thread()

    context = ToolContext("conv_1", "call_1", FakeNotes(), report)
    assert (await call(count, context=context)).content == "false"
    assert seen == [("half", 0.5, threading.main_thread())]


async def test_the_context_is_injected_and_not_part_of_the_schema():
    @tool()
    async def whoami(greeting: str, context: ToolContext) -> str:
        """Say who."""
        return f"{greeting} {context.conversation_id} {context.call_id}"

    assert list(whoami.parameters["properties"]) == ["greeting"]
    assert (await call(whoami, {"greeting": "I am"})).content == "I am conv_1 call_1"
    assert (await call(whoami, {"greeting": "I am", "context": {}})).is_error


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain text", "plain text"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        ({"ü": [1, 2.5, None]}, '{"ü":[1,2.5,null]}'),
        ([date(2026, 1, 2), Decimal("1.10")], '["2026-01-02","1.10"]'),
        (Place(city="Ulm"), '{"city":"Ulm","country":"DE"}'),
        ({Path}, f'["{Path}"]'),
        ("with\0NUL\0", "withNUL"),
        ("half a pair: \ud83d", "half a pair: ?"),
        (ToolResult("no\0", is_error=True), ToolResult("no", is_error=True)),
    ],
)
async def test_a_result_is_text_or_json_and_fit_for_any_database(value, text):
    @tool()
    async def give() -> object:
        """Give."""
        return value

    assert await call(give) == (text if isinstance(text, ToolResult) else ToolResult(text))


async def test_a_result_that_cannot_be_written_as_json_is_a_failure():
    """E3"""
    circle: list[object] = []
    circle.append(circle)

    @tool()
    async def give() -> object:
        """Give."""
        return circle

    assert (await call(give)).is_error


@pytest.mark.parametrize("character", ["x", "ü", "€", "😀"])
def test_a_long_text_is_cut_at_the_limit_between_characters_and_says_so(character):
    text = character * 200_000
    cut = clean_text(text)
    assert RESULT_LIMIT - 4 <= len(cut.encode()) <= RESULT_LIMIT
    body, note = cut.split("\n")
    assert set(body) == {character}
    assert note == "[Cut here: the whole result has 200,000 characters.]"


def test_a_text_of_exactly_the_limit_is_left_whole():
    assert clean_text("x" * RESULT_LIMIT) == "x" * RESULT_LIMIT
    assert clean_text("\0" + "x" * RESULT_LIMIT) == "x" * RESULT_LIMIT
    assert "[Cut here" in clean_text("x" * (RESULT_LIMIT + 1))


async def test_the_message_of_an_exception_is_cleaned_and_cut_too():
    @tool()
    async def explode() -> None:
        """Explode."""
        raise ValueError("\0" * 10 + "x" * 1_000_000)

    content = (await call(explode)).content
    assert "\0" not in content
    assert len(content) <= RESULT_LIMIT


def test_the_version_changes_with_whatever_the_model_is_told_and_with_the_number_given():
    """P2: tools and their versions are part of the signature."""

    def greet(name: str) -> str:
        """Greet."""
        return name

    def greet_otherwise(name: str) -> str:
        """Greet warmly."""
        return name

    def greet_many(name: list[str]) -> list[str]:
        """Greet."""
        return name

    greet_otherwise.__name__ = greet_many.__name__ = "greet"
    versions = [
        tool()(greet).version,
        tool(version="2")(greet).version,
        tool()(greet_otherwise).version,
        tool()(greet_many).version,
    ]
    assert len(set(versions)) == 4
    assert tool(repeatable=True, timeout=5)(greet).version == versions[0]


def test_the_versions_are_the_same_in_another_process():
    """P2: stable."""
    names = load_registry().names()
    code = (
        "from gateway.tools.registry import load_registry as l; r = l(); print(*(r.get(n).version for n in r.names()))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        env={"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    registry = load_registry()
    assert printed.stdout.split() == [registry.select(names)[name].version for name in names]


def test_a_declaration_that_cannot_work_is_refused_at_once():
    def without_docstring(): ...

    def without_hint(name):
        """Greet."""

    def with_the_rest(*names: str):
        """Greet."""

    refused: list[tuple[Callable[..., object], str]] = [
        (without_docstring, "docstring"),
        (without_hint, "name of the tool without_hint needs a type hint"),
        (with_the_rest, "names of the tool with_the_rest cannot be passed by name"),
    ]
    for function, words in refused:
        with pytest.raises(TypeError, match=words):
            tool()(function)
    with pytest.raises(ValueError, match="cannot be a tool's name"):
        Tool("two words", "", {}, order.function, False, 1.0, "")


async def test_a_schema_from_elsewhere_cannot_make_us_fetch_its_references(monkeypatch):
    """A tool that lives elsewhere brings its own schema."""

    def fetch(*args: object) -> None:
        pytest.fail("fetched")

    monkeypatch.setattr("urllib.request.urlopen", fetch)
    remote = Tool("remote", "", {"$ref": "http://127.0.0.1:9/schema.json"}, order.function, False, 1.0, "")
    result = await call(remote)
    assert result.is_error
    assert "Unresolvable" in result.content
