"""The transcript in a real browser: text, tools, errors, copying, scrolling."""

import json
import re
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import find_violations
from tests.browser.model import Call, Gate, Refusal
from tests.browser.people import ask, say, wait_for_status
from tests.browser.scripted import Scripted

RUNS = "#runs"
ANSWER = "# Title\n\nSome **strong** words.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nprint('hi')\n```\n"


def scroll_top(page: Page) -> float:
    top: float = page.locator("#transcript").evaluate("box => box.scrollTop")
    return top


def is_at_end(page: Page) -> bool:
    at_end: bool = page.locator("#transcript").evaluate(
        "box => box.scrollHeight - box.scrollTop - box.clientHeight < 48"
    )
    return at_end


def scroll_to(page: Page, top: int) -> None:
    page.locator("#transcript").evaluate(
        "(box, top) => new Promise(done => {"
        "box.addEventListener('scroll', () => requestAnimationFrame(done), {once: true}); box.scrollTop = top; })",
        top,
    )


def test_text_is_formatted_while_it_comes(reader: Page, scripted: Scripted) -> None:
    first, gate = Gate(), Gate()
    scripted.begin(reader, [first, "# Title\n\nA line.\n\nSome **strong** wor", gate, "ds.\n"])
    expect(reader.locator("[data-now=thinking]")).to_be_visible()
    first.set()
    expect(reader.locator(".said h1")).to_have_text("Title")
    expect(reader.locator(".said strong")).to_have_text("strong")
    expect(reader.locator(".said .foot")).to_be_hidden()
    reader.locator(".said h1").evaluate("node => node.mark = 1")
    gate.set()
    wait_for_status(reader, "completed")
    expect(reader.locator(".said")).to_contain_text("strong words.")
    assert reader.locator(".said h1").evaluate("node => node.mark") == 1, "what was finished was left alone"


CARET_AFTER = """(wanted) => [...document.querySelectorAll(".said *")]
    .filter((one) => getComputedStyle(one, "::after").content === '""')
    .map((one) => one.firstChild.textContent.trim()).join() === wanted"""


def test_the_caret_stands_in_the_last_line_also_in_a_list(reader: Page, scripted: Scripted) -> None:
    gate, after = Gate(), Gate()
    scripted.begin(reader, ["First:\n\n* one\n* tw", gate, "o\n  * thr", after, "ee\n"])
    reader.wait_for_function(CARET_AFTER, arg="tw")
    gate.set()
    reader.wait_for_function(CARET_AFTER, arg="thr")
    after.set()
    wait_for_status(reader, "completed")
    reader.wait_for_function(CARET_AFTER, arg="")


def test_the_text_stands_over_the_composer(reader: Page, scripted: Scripted) -> None:
    """With a scrollbar that takes room, too."""
    scripted.begin(reader, ["Hello."])
    wait_for_status(reader, "completed")
    boxes = [reader.locator(place).bounding_box() for place in (".transcript-column", ".composer-room")]
    middles = [box["x"] + box["width"] / 2 for box in boxes]
    assert middles[0] == middles[1]


def test_a_message_and_its_code_can_be_copied(reader: Page, scripted: Scripted) -> None:
    reader.context.grant_permissions(["clipboard-read", "clipboard-write"])
    scripted.begin(reader, [ANSWER])
    wait_for_status(reader, "completed")
    reader.locator("[data-copy=code]").click()
    expect(reader.locator("[data-copy=code]")).to_have_text("Copied")
    assert reader.evaluate("navigator.clipboard.readText()") == "print('hi')\n"
    reader.locator("[data-copy=message]").click()
    expect(reader.locator("[data-copy=message]")).to_have_text("Copied")
    assert reader.evaluate("navigator.clipboard.readText()") == ANSWER


def test_a_tool_is_a_card_that_says_what_it_did(reader: Page, scripted: Scripted) -> None:
    scripted.begin(reader, ["I look.", Call("give", text="forty-two")], ["There."])
    wait_for_status(reader, "completed")
    card = reader.locator(".tool")
    expect(card.locator("summary")).to_contain_text("give")
    expect(card.locator("summary")).to_contain_text("forty-two")
    expect(card.locator("summary")).to_contain_text("done")
    expect(card.locator(".tool-body")).to_be_hidden()
    card.locator("summary").click()
    expect(card.locator(".result pre")).to_have_text("forty-two")


def test_a_tool_that_works_is_open_and_shows_how_far_it_is(reader: Page, scripted: Scripted) -> None:
    """C6: stopped in the middle of it, the card says so."""
    scripted.begin(reader, ["", Call("work")])
    card = reader.locator(".tool")
    expect(card.locator(".tool-progress")).to_contain_text("Half of it is done")
    expect(card.locator("progress")).to_be_visible()
    expect(card).to_have_attribute("open", "")
    reader.keyboard.press("Escape")
    wait_for_status(reader, "cancelled")
    expect(card).to_have_attribute("data-state", "interrupted")
    expect(card.locator("summary")).to_contain_text("cut off")
    expect(reader.locator(".ending summary")).to_contain_text("1 tool cut off")
    reader.locator(".ending summary").click()
    expect(reader.locator(".receipt")).to_contain_text("Tools cut off")
    expect(reader.locator(".receipt")).to_contain_text("work")


def test_a_tool_that_fails_is_open_and_says_why(reader: Page, scripted: Scripted) -> None:
    """E3"""
    scripted.begin(reader, ["", Call("fail", text="no such thing")], ["Sorry."])
    wait_for_status(reader, "completed")
    expect(reader.locator(".tool")).to_have_attribute("open", "")
    expect(reader.locator(".tool")).to_contain_text("no such thing")
    expect(reader.locator(".tool .state")).to_have_text("failed")


def test_a_card_that_the_reader_opened_stays_open(reader: Page, scripted: Scripted) -> None:
    gate = Gate()
    conversation = scripted.begin(reader, ["", Call("give", text="x")], ["a", gate, "b"])
    expect(reader.locator(".tool .state")).to_have_text("done")
    reader.locator(".tool summary").click()
    gate.set()
    wait_for_status(reader, "completed")
    expect(reader.locator(".tool-body")).to_be_visible()
    scripted.go_on(reader, conversation, ["more"])
    expect(reader.locator(RUNS)).to_contain_text("more")
    expect(reader.locator(".tool-body")).to_be_visible()


def test_pictures_and_charts_are_shown_as_such(reader: Page, scripted: Scripted) -> None:
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
    chart = {"type": "chart", "kind": "line", "title": "Orders", "labels": ["a", "b"], "series": [[1, 2]]}
    result = json.dumps([{"type": "image", "data": dot, "alt": "A red dot"}, chart])
    scripted.begin(reader, ["", Call("give", text=result)], ["There."])
    wait_for_status(reader, "completed")
    reader.locator(".tool summary").click()
    picture = reader.get_by_role("img", name="A red dot")
    assert picture.evaluate("image => image.naturalWidth") == 1
    expect(reader.get_by_role("img", name=re.compile("^Orders"))).to_be_visible()


def test_a_long_result_is_folded(reader: Page, scripted: Scripted) -> None:
    lines = "\n".join(f"line {number}" for number in range(3000))
    scripted.begin(reader, ["", Call("give", text=lines)], ["There."])
    wait_for_status(reader, "completed")
    reader.locator(".tool summary").click()
    expect(reader.locator(".result pre")).not_to_contain_text("line 2999")
    reader.locator(".result").get_by_role("button", name="Show all").click()
    expect(reader.locator(".result pre")).to_contain_text("line 2999")


def test_an_error_says_what_to_do_and_retry_does_it(reader: Page, scripted: Scripted) -> None:
    """E1"""
    scripted.begin(reader, [Refusal(401)], ["Now it works."])
    wait_for_status(reader, "failed")
    failure = reader.locator(".failure")
    expect(failure).to_contain_text("The provider refused the key.")
    expect(failure).to_contain_text("Nothing is lost")
    failure.get_by_role("button", name="Retry").dblclick()
    expect(reader.locator(RUNS)).to_contain_text("Now it works.")
    wait_for_status(reader, "completed")
    expect(reader.locator("[data-said-by-user]")).to_have_text(["the question", "the question"])


def test_reasoning_is_folded(page: Page) -> None:
    ask(page, "Think about lighthouses")
    wait_for_status(page, "completed")
    expect(page.locator(".thought summary")).to_contain_text("Thought for")
    expect(page.locator(".thought .prose")).to_be_hidden()
    page.locator(".thought summary").click()
    expect(page.locator(".thought .prose")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everything_in_a_transcript_is_for_everyone(
    reader: Page, scripted: Scripted, theme: Literal["light", "dark"]
) -> None:
    """axe finds nothing wrong with tables, code, open cards, charts, receipts and errors."""
    reader.emulate_media(color_scheme=theme)
    chart = {"type": "chart", "kind": "bar", "title": "Orders", "labels": ["a", "b"], "series": [[1, 2], [2, 3]]}
    calls = [Call("give", text=json.dumps(chart)), Call("give", text="line\n" * 50), Call("fail", text="no")]
    conversation = scripted.begin(reader, ["I look.", *calls], [ANSWER])
    wait_for_status(reader, "completed")
    scripted.go_on(reader, conversation, ["words", Call("work")])
    expect(reader.locator("progress")).to_be_visible()
    assert find_violations(reader) == []
    reader.keyboard.press("Escape")
    wait_for_status(reader, "cancelled")
    scripted.go_on(reader, conversation, [Refusal(400)])
    wait_for_status(reader, "failed")
    for card in reader.locator("#runs details").all():
        card.evaluate("card => { card.open = true; }")
    assert find_violations(reader) == []


# -- scrolling

LONG = [f"Paragraph {number} of many.\n\n" for number in range(80)]


def test_the_page_follows_the_text_while_the_reader_is_at_the_end(reader: Page, scripted: Scripted) -> None:
    gate = Gate()
    scripted.begin(reader, [*LONG, gate, *LONG, "The end."])
    expect(reader.locator(RUNS)).to_contain_text("Paragraph 79")
    gate.set()
    wait_for_status(reader, "completed")
    expect(reader.get_by_text("The end.")).to_be_in_viewport()
    assert is_at_end(reader)
    expect(reader.locator("[data-new-below]")).to_be_hidden()


def test_whoever_reads_further_up_is_left_alone_and_told_that_there_is_more(reader: Page, scripted: Scripted) -> None:
    gate = Gate()
    scripted.begin(reader, [*LONG, gate, *LONG, "The end."])
    expect(reader.locator(RUNS)).to_contain_text("Paragraph 79")
    scroll_to(reader, 400)
    gate.set()
    expect(reader.locator(RUNS)).to_contain_text("The end.")
    wait_for_status(reader, "completed")
    assert scroll_top(reader) == 400
    button = reader.locator("[data-new-below]")
    expect(button).to_be_visible()
    button.click()
    expect(reader.get_by_text("The end.")).to_be_in_viewport()
    expect(button).to_be_hidden()


def test_a_box_that_shrinks_does_not_end_the_following(reader: Page, scripted: Scripted) -> None:
    """A queued message takes some of the transcript's height."""
    gate = Gate()
    scripted.begin(reader, [*LONG, gate, *LONG, "The end."])
    expect(reader.locator(RUNS)).to_contain_text("Paragraph 79")
    for number in range(3):
        say(reader, f"queued {number}")
        expect(reader.locator("#queue li")).to_have_count(number + 1)
    gate.set()
    expect(reader.locator(RUNS)).to_contain_text("queued 2")
    wait_for_status(reader, "completed")
    assert is_at_end(reader)
    expect(reader.locator("[data-new-below]")).to_be_hidden()


def test_a_small_move_upwards_is_not_taken_back(reader: Page, scripted: Scripted) -> None:
    gate = Gate()
    scripted.begin(reader, [*LONG, gate, *LONG, "The end."])
    expect(reader.locator(RUNS)).to_contain_text("Paragraph 79")
    top = int(scroll_top(reader)) - 20
    scroll_to(reader, top)
    gate.set()
    expect(reader.locator(RUNS)).to_contain_text("The end.")
    assert scroll_top(reader) == top


def test_opening_a_card_at_the_end_does_not_move_it_away(reader: Page, scripted: Scripted) -> None:
    lines = "\n".join(f"line {number}" for number in range(200))
    scripted.begin(reader, [*LONG, Call("give", text=lines)], ["There."])
    wait_for_status(reader, "completed")
    summary = reader.locator(".tool summary")
    before = summary.bounding_box()
    summary.click()
    expect(reader.locator(".result pre")).to_be_visible()
    after = summary.bounding_box()
    assert before is not None
    assert after is not None
    assert abs(before["y"] - after["y"]) < 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("A paragraph in which a word is selected ", "while it **grows** on."),
        ("First.\n\nIn the second a word is selected ", "while it grows.\n\nAnd another."),
        ("```python\n# a word is selected\n", "print(2)\n```\n\nThe end."),
        ("* one\n* a **word is** selected ", "here\n* three"),
    ],
    ids=["paragraph", "paragraph that ends", "code", "list"],
)
def test_what_is_selected_in_a_text_that_grows_stays_selected(
    reader: Page, scripted: Scripted, before: str, after: str
) -> None:
    gate = Gate()
    scripted.begin(reader, [before, gate, after])
    expect(reader.locator(".said")).to_contain_text("selected")
    # As somebody does it with the mouse, from the end of the words to their beginning.
    reader.evaluate(
        """() => {
            const box = document.querySelector(".said");
            const texts = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
            let from, to;
            for (let text = texts.nextNode(); text; text = texts.nextNode()) {
                if (text.data.includes("word")) to = [text, text.data.indexOf("word")];
                if (text.data.includes("selected")) from = [text, text.data.indexOf("selected") + 8];
            }
            getSelection().setBaseAndExtent(...from, ...to);
        }"""
    )
    selected = "() => getSelection().toString()"
    assert reader.evaluate(selected) == "word is selected"
    gate.set()
    wait_for_status(reader, "completed")
    assert reader.evaluate(selected) == "word is selected"
    assert reader.evaluate("() => getSelection().direction ?? 'backward'") == "backward"


def test_a_selection_that_goes_on_into_the_text_that_grows_keeps_both_its_ends(
    reader: Page, scripted: Scripted
) -> None:
    gate = Gate()
    scripted.begin(reader, ["The first.\n\nThe second\n", gate, "grows **on**."])
    expect(reader.locator(".said .b")).to_have_count(2)
    reader.evaluate(
        """() => {
            const [first, second] = document.querySelectorAll(".said .b p");
            getSelection().setBaseAndExtent(first.firstChild, 4, second.firstChild, 10);
        }"""
    )
    gate.set()
    wait_for_status(reader, "completed")
    expect(reader.locator(".said .b").last).to_have_text("The second grows on.")
    assert reader.evaluate("() => getSelection().toString().split(/\\s+/).join(' ')") == "first. The second"
