"""Charts and pictures of tools, forms made from schemas, and the words for what happened."""

import json
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.utils import timezone

from runs.templatetags.console import duration
from runs.transcript.forms import make_fields
from runs.transcript.items import Note
from runs.transcript.results import show_result
from runs.transcript.words import Viewer, brief_arguments, explain_retry, explain_trouble, list_receipt, receipt_rows
from tests.runs.dom import Node, parse

CHART = {"type": "chart", "kind": "bar", "title": "Orders", "labels": ["Mon", "Tue"], "series": [[3, -5], [4, 7]]}


def drawn(result: object) -> Node | None:
    html = show_result(json.dumps(result)).html
    return parse(html) if html else None


@pytest.mark.parametrize("kind", ["bar", "line"])
def test_a_chart_is_drawn_and_told_in_words(kind: str) -> None:
    page = drawn({**CHART, "kind": kind})
    svg = next(node for node in page.walk() if node.tag == "svg")
    assert svg.attributes["aria-label"] == "Orders. 1: Mon 3, Tue -5; 2: Mon 4, Tue 7"
    marks = [node for node in svg.walk() if node.attributes.get("class") == "series-0"]
    assert marks
    assert not [node for node in page.walk() if "style" in node.attributes], "the site's policy forbids styles"


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "pie"},
        {"labels": []},
        {"series": []},
        {"series": [[1]]},
        {"series": [["a", "b"]]},
        {"series": [[True, False]]},
        {"series": [[1e300, 1]]},
        {"series": [[10**400, 1]]},
        {"series": [[1, 2]] * 7},
        {"labels": "Mon"},
        {"labels": ["x"] * 201, "series": [[1] * 201]},
    ],
)
def test_a_chart_that_makes_no_sense_is_shown_as_text(changes: dict[str, Any]) -> None:
    assert drawn({**CHART, **changes}) is None


@pytest.mark.parametrize("values", [[0, 0], [5, 5], [-1, -2], [0.001, 0.002], [1e14, 1]])
def test_any_numbers_have_a_scale(values: list[float]) -> None:
    assert drawn({**CHART, "series": [values]}) is not None


def test_what_stands_in_a_chart_is_text() -> None:
    page = drawn({**CHART, "title": "<script>", "labels": ["<b>", '"'], "series": [{"name": "<i>", "values": [1, 2]}]})
    assert not {"script", "b", "i"} & {node.tag for node in page.walk()}


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ({"data": "iVBORw0KGgo="}, "data:image/png;base64,iVBORw0KGgo="),
        ({"data": "iVBORw0KGgo=", "media_type": "image/webp"}, "data:image/webp;base64,iVBORw0KGgo="),
        ({"data": "data:image/gif;base64,R0lGOD=="}, "data:image/gif;base64,R0lGOD=="),
        ({"url": "/static/favicon.svg"}, "/static/favicon.svg"),
    ],
)
def test_a_picture_is_shown(part: dict[str, str], source: str) -> None:
    page = drawn({"type": "image", "alt": "A dot", **part})
    picture = next(node for node in page.walk() if node.tag == "img")
    assert (picture.attributes["src"], picture.attributes["alt"]) == (source, "A dot")


@pytest.mark.parametrize(
    "part",
    [
        {"url": "https://elsewhere.example/x.png"},
        {"url": "//elsewhere.example/x.png"},
        {"url": "/\\elsewhere.example/x.png"},
        {"data": "data:image/svg+xml;base64,PHN2Zz4="},
        {"data": "data:text/html;base64,PHN2Zz4="},
        {"data": "iVBO", "media_type": "text/html"},
        {"data": '" onerror="alert(1)'},
        {"data": 7},
        {},
    ],
)
def test_a_picture_from_elsewhere_is_not_loaded(part: dict[str, Any]) -> None:
    assert drawn({"type": "image", **part}) is None


def test_other_json_is_put_in_order_and_other_text_left_alone() -> None:
    assert show_result('{"a":[1,2]}').text == '{\n  "a": [\n    1,\n    2\n  ]\n}'
    assert show_result("{not json").text == "{not json"
    assert show_result("[" * 100_000).is_cut


# -- forms

SCHEMA = {
    "type": "object",
    "required": ["to"],
    "properties": {
        "to": {"type": "string", "description": "Whom to write"},
        "body": {"type": "string"},
        "essay": {"type": "string", "maxLength": 20_000},
        "copies": {"type": "integer", "minimum": 1, "maximum": 9},
        "price": {"type": "number"},
        "urgent": {"type": "boolean"},
        "tone": {"enum": ["kind", "plain"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sender": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "ref": {"$ref": "#/$defs/place"},
        "odd": {"type": "array", "items": {"type": "object"}},
    },
    "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def kinds(arguments: dict[str, Any], schema: dict[str, Any] = SCHEMA) -> dict[str, str]:
    return {field.path[-1]: field.kind for field in make_fields(schema, arguments)}


def test_each_type_gets_its_field() -> None:
    assert kinds({"to": "a@b", "body": "long\ntext"}) == {
        "to": "text",
        "body": "long",
        "essay": "long",
        "copies": "integer",
        "price": "number",
        "urgent": "boolean",
        "tone": "choice",
        "tags": "list",
        "sender": "object",
        "maybe": "text",
        "ref": "object",
        "odd": "json",
    }


def test_a_value_that_its_field_could_not_show_is_edited_as_json() -> None:
    wrong = {"to": 5, "copies": "x", "urgent": "yes", "tone": "rude", "tags": [{"a": 1}], "sender": "me"}
    assert {kinds(wrong)[name] for name in wrong} == {"json"}


def test_what_the_schema_does_not_name_is_seen_as_well() -> None:
    assert kinds({"to": "a", "bcc": "hidden@example.com", "extra": {"a": 1}})["bcc"] == "text"
    assert kinds({"extra": {"a": 1}})["extra"] == "json"
    assert kinds({"x": "y"}, {}) == {"x": "text"}


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    schema = {"properties": {"child": {"$ref": "#/$defs/node"}}, "$defs": {"node": {}}}
    schema["$defs"]["node"] = {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}}
    assert kinds({}, schema) == {"child": "object"}


def test_fields_are_written_with_their_values() -> None:
    arguments = {"to": '"><script>', "copies": 3, "urgent": True, "tone": "plain", "tags": ["a", "b"], "price": 1234.5}
    html = "".join(
        render_to_string("transcript/_field.html", {"field": field}) for field in make_fields(SCHEMA, arguments)
    )
    fields = {node.attributes["data-path"]: node for node in parse(html).walk() if "data-path" in node.attributes}
    assert fields['["to"]'].attributes["value"] == '"><script>'
    assert fields['["copies"]'].attributes["max"] == "9"
    assert fields['["price"]'].attributes["value"] == "1234.5"
    assert "checked" in fields['["urgent"]'].attributes
    assert fields['["tags"]'].text == "a\nb"
    assert '["sender", "name"]' in fields
    chosen = [node for node in fields['["tone"]'].walk() if "selected" in node.attributes]
    assert [node.text for node in chosen] == ["plain"]


# -- words


@pytest.mark.parametrize(
    ("arguments", "brief"),
    [
        ({"expression": "17 *\n 23"}, "17 * 23"),
        ({"to": "a", "copies": 2}, "to: a, copies: 2"),
        ({}, ""),
        ("rubbish", "rubbish"),
        ({"x": "y" * 500}, "y" * 79 + "…"),
    ],
)
def test_arguments_in_one_line(arguments: Any, brief: str) -> None:
    assert brief_arguments(arguments) == brief


@pytest.mark.parametrize(
    "error_type",
    ["llm_timeout", "llm_rate_limit", "llm_authentication", "llm_error", "worker_lost", "internal_error", "new_one"],
)
def test_each_error_says_what_happened_and_what_to_do(error_type: str) -> None:
    """E1"""
    trouble = explain_trouble({"error_type": error_type, "message": "503 from upstream"})
    assert trouble.what.endswith((".", "upstream"))
    assert "again" in trouble.advice


@pytest.mark.parametrize("message", ["The connection failed.", "The connection failed"])
def test_a_retry_is_told_in_two_sentences(message: str) -> None:
    what = explain_retry({"error_type": "llm_error", "message": message})
    item = Note(1, "retry.scheduled", timezone.now(), {"seconds": 3.0})
    html = render_to_string("transcript/_note.html", {"id": "n", "item": item, "what": what})
    assert "The request to the provider failed: The connection failed. Trying again after 3.0 s." in html


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (None, "–"),
        (0, "0.0 s"),
        (0.004, "4 ms"),
        (0.0994, "99 ms"),
        (0.1, "0.1 s"),
        (9.96, "10.0 s"),
        (75, "1 min 15 s"),
    ],
)
def test_a_time_too_short_for_tenths_is_told_in_milliseconds(seconds: float | None, told: str) -> None:
    assert duration(seconds) == told


def test_a_receipt_in_one_line_and_in_full() -> None:
    """C12"""
    receipt = {
        "requested_by": "alice",
        "requested_via": "console",
        "requested_at": "2026-01-01T12:00:00+00:00",
        "model_closed_ms": 4.2,
        "ended_ms": 1500,
        "kept_words": 212,
        "kept_characters": 1000,
        "tools_finished": ["calculator"],
        "tools_not_started": ["wait", "wait"],
        "tokens_after_request": 0,
    }
    assert list_receipt(receipt) == [
        "model disconnected after 4 ms",
        "212 words kept",
        "1 tool finished, 2 tools not started",
    ]
    rows = dict(receipt_rows(receipt, Viewer("alice", is_staff=False)))
    assert rows["Asked by"] == "you"
    assert rows["Run ended"] == "after 1.5 s"
    assert rows["Tools not started"] == "wait, wait"
    assert dict(receipt_rows(receipt, Viewer("bob", is_staff=False)))["Asked by"] == "alice"
