"""Excerpts with the words that somebody looked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.excerpts import AFTER, BEFORE, cut_excerpt, mark_words


@pytest.mark.parametrize(
    ("text", "words", "html"),
    [
        ("an apple a day", ["apple"], "an <mark>apple</mark> a day"),
        ("Apple, apple", ["APPLE"], "<mark>Apple</mark>, <mark>apple</mark>"),
        ("<b>apple</b>", ["b"], "&lt;<mark>b</mark>&gt;apple&lt;/<mark>b</mark>&gt;"),
        ("a & b", ["&"], "a <mark>&amp;</mark> b"),
        ("appletree", ["apple", "appletree"], "<mark>appletree</mark>"),
        ("1.5 (or more)", [".5", "(or"], "1<mark>.5</mark> <mark>(or</mark> more)"),
        ("nothing", ["apple"], "nothing"),
        ("<i>", [], "&lt;i&gt;"),
    ],
)
def test_words_are_marked_and_the_rest_is_escaped(text: str, words: list[str], html: str) -> None:
    assert mark_words(text, words) == html


def test_an_excerpt_is_one_line_around_the_first_hit_and_cut_between_words() -> None:
    text = f"{'before ' * 40}\n\napple\n{'after ' * 40}"
    excerpt = cut_excerpt(text, ["apple"])
    assert excerpt.startswith("…before before ")
    assert excerpt.endswith(" after after…")
    assert " before <mark>apple</mark> after " in excerpt
    assert len(excerpt) < BEFORE + AFTER + len("<mark>apple</mark>") + 2


def test_what_is_short_is_shown_whole() -> None:
    assert cut_excerpt("an apple", ["apple"]) == "an <mark>apple</mark>"


def test_a_hit_that_only_the_database_saw_shows_the_beginning() -> None:
    assert cut_excerpt("word " * 100, ["apple"]).startswith("word word ")


@given(st.text(), st.lists(st.text(min_size=1).filter(str.strip), min_size=1))
def test_whatever_is_said_and_looked_for_only_marks_are_html(text: str, words: list[str]) -> None:
    html = cut_excerpt(text, words).replace("<mark>", "").replace("</mark>", "")
    assert not set("<>\"'") & set(html)
