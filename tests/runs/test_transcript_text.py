"""Markdown of a model: safe, complete, and the same whether it comes at once or in pieces."""

import re
from itertools import pairwise

import pytest
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.transcript.blocks import Add, Change, GrowingText, Put
from runs.transcript.items import Said
from runs.transcript.markdown import render_blocks
from tests.runs.xss import ATTACKS, find_dangers

EVERYTHING = """\
# A heading

A paragraph with **strong**, *emphasised* and `plain` words, a [link](https://example.com/a?b=c) and https://bare.example/x.

* one
* two

  with a paragraph of its own

  ```python
  print("in a list")
  ```
3. three

| a | b |
|---|--:|
| 1 | 2 |

> quoted
> further

```python
def greet(name: str) -> str:
    return f"Hello {name}"
```

~~~
```
not closed by the other kind
~~~

Setext
------

A [reference][later] and an end without a line break.

[later]: https://later.example/"""


def html_of(text: str) -> str:
    return "".join(render_blocks(text))


def shown_after(changes: list[Change], nodes: dict[int, str]) -> None:
    """What a page does with changes."""
    for change in changes:
        if isinstance(change, Add):
            nodes[change.number] += change.text
        elif change.html:
            nodes[change.number] = change.html
        else:
            nodes.pop(change.number, None)


def grow(pieces: list[str]) -> list[str]:
    growing = GrowingText()
    nodes: dict[int, str] = {}
    for piece in pieces:
        shown_after(growing.add(piece), nodes)
    shown_after(growing.finish("".join(pieces)), nodes)
    return [nodes[number] for number in sorted(nodes)]


def cut(text: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(edges)]


@given(st.lists(st.integers(0, 10_000), max_size=30))
@settings(deadline=None, max_examples=60)
def test_in_whatever_pieces_a_text_comes_the_end_is_the_same(places: list[int]) -> None:
    assert grow(cut(EVERYTHING, places)) == render_blocks(EVERYTHING)


@given(st.text(st.sampled_from("ab \n#*-_`~>|[]():!<&\t1."), max_size=120), st.lists(st.integers(0, 200), max_size=20))
@settings(deadline=None, max_examples=300)
def test_so_it_is_for_any_text(text: str, places: list[int]) -> None:
    assert grow(cut(text, places)) == render_blocks(text)


@given(st.text(st.sampled_from("ab \n#*-_`~>|[]():!<&\t1."), max_size=120))
@settings(deadline=None, max_examples=100)
def test_nothing_is_left_out_while_it_grows(text: str) -> None:
    """A page that is opened in the middle shows what one that was open all the time shows."""
    growing = GrowingText()
    for letter in text:
        growing.add(letter)
    at_once = GrowingText()
    at_once.add(text)
    assert words(growing.nodes) == words(at_once.nodes)


def words(nodes: list[str]) -> str:
    return re.sub(r"\s+", "", re.sub(r"<[^>]*>", "", "".join(nodes)))


def test_a_block_that_is_finished_is_never_rendered_again() -> None:
    growing = GrowingText()
    growing.add("first\n\nsecond\n\n")
    assert [change.number for change in growing.add("third\n")] == [1, 2]
    assert [change.number for change in growing.add("goes on")] == [2]


def test_half_a_line_is_not_judged() -> None:
    """`#` may become a heading or a word; the paragraph before it is not finished by it."""
    growing = GrowingText()
    growing.add("text\n#")
    growing.add("hashtag")
    assert growing.nodes == ["<p>text\n#hashtag</p>\n"]


def test_open_code_grows_by_plain_text_and_gets_its_colours_in_the_end() -> None:
    growing = GrowingText()
    growing.add("```python\n")
    assert growing.add("x = 1\n") == [Add(0, "x = 1\n")]
    assert growing.add("y = <2>\n") == [Add(0, "y = <2>\n")]
    changes = growing.add("```\n")
    assert [type(change) for change in changes] == [Put]
    assert '<span class="n">x</span>' in growing.nodes[0]


def test_the_work_does_not_grow_with_the_length_of_a_block() -> None:
    """A long paragraph is rendered a few times, not once for each word."""
    growing = GrowingText()
    rendered = sum(isinstance(change, Put) for _ in range(20_000) for change in growing.add("word "))
    assert rendered < 1_000 + 30


def test_a_thought_that_is_taken_up_again_is_shown_once() -> None:
    said = Said(0, timezone.now())
    nodes: dict[int, str] = {}
    for piece in ("one ", "two "):
        said.add(piece)
        said.close()
        shown_after(said.take_changes(), nodes)
    assert list(nodes.values()) == ["<p>one two</p>\n"]


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_a_model_says_can_run_or_load(attack: str) -> None:
    for html in (html_of(attack), "".join(grow(list(attack))), html_of(f"* {attack}"), html_of(f"> {attack}")):
        assert find_dangers(html) == []


def test_pictures_that_come_with_the_text_are_shown_and_others_are_links() -> None:
    assert '<img src="data:image/png;base64,iVBORw0KGgo=" alt="dot">' in html_of(
        "![dot](data:image/png;base64,iVBORw0KGgo=)"
    )
    assert '<a href="https://elsewhere.example/x.png"' in html_of("![dot](https://elsewhere.example/x.png)")


@pytest.mark.parametrize(
    "text", ["see settings.py", "at example.com", "mail a@b.example", "![x](data:image/svg+xml;base64,PHN2Zz4=)"]
)
def test_what_only_looks_like_an_address_is_none(text: str) -> None:
    assert "<a" not in html_of(text)
    assert "<img" not in html_of(text)


def test_links_open_elsewhere_and_tell_nothing() -> None:
    assert html_of("[x](https://a.example)").startswith(
        '<p><a href="https://a.example" target="_blank" rel="noopener noreferrer nofollow">x</a>'
    )


@pytest.mark.parametrize("language", ["", "nosuchlanguage", "python", "<script>", '"onload=', "a b"])
def test_code_of_any_language_is_shown(language: str) -> None:
    html = html_of(f"```{language}\n<b>1 < 2</b>\n```")
    assert "<b>" not in html
    assert find_dangers(html) == []
