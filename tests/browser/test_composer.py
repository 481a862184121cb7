"""Writing: drafts, queued messages, keys."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from tests.browser.conftest import PHONE, Troubles
from tests.browser.people import ask, say, sign_in, wait_for_status

SLOW = "#tokens=5000 #rate=20"


@pytest.fixture
def busy(page: Page) -> Page:
    """alice in a conversation whose run goes on and on."""
    ask(page, SLOW)
    expect(page.locator("#runs")).to_contain_text("tok3")
    return page


def chips(page: Page) -> Locator:
    return page.locator("#queue li")


def stop(page: Page) -> None:
    page.locator(".composer [data-stop-active]").click()


def test_a_text_typed_meanwhile_offers_to_queue_it_beside_stop(busy: Page) -> None:
    expect(busy.locator("[data-queue]")).to_be_hidden()
    busy.fill("#composer-text", "#tokens=3")
    expect(busy.locator("[data-queue]")).to_be_visible()
    expect(busy.locator(".composer [data-stop-active]")).to_be_visible()
    busy.locator("[data-queue]").click()
    expect(chips(busy)).to_have_count(1)
    expect(chips(busy)).to_contain_text("#tokens=3")
    expect(busy.locator("section.run")).to_have_count(1)
    stop(busy)
    wait_for_status(busy, "completed")
    expect(chips(busy)).to_have_count(0)
    expect(busy.locator("section.run")).to_have_count(2)


def test_a_queued_message_can_be_edited_until_it_starts(busy: Page) -> None:
    say(busy, "#tokens=33333")
    busy.get_by_role("button", name="Edit the queued message").click()
    field = busy.get_by_role("textbox", name="Edit the queued message")
    field.fill("#tokens=4")
    field.press("Enter")
    expect(chips(busy)).to_contain_text("#tokens=4")
    busy.reload()
    expect(chips(busy)).to_contain_text("#tokens=4")
    stop(busy)
    wait_for_status(busy, "completed")
    expect(busy.locator("section.run").last).to_contain_text("tok3")


def test_a_queued_message_of_several_lines_keeps_them(busy: Page) -> None:
    """Looked at and left alone, it is not changed; edited, it keeps its lines."""
    changes: list[Request] = []
    busy.on("request", lambda request: changes.append(request) if request.method == "PATCH" else None)
    say(busy, "#tokens=3\nsecond line")
    busy.get_by_role("button", name="Edit the queued message").click()
    field = busy.get_by_role("textbox", name="Edit the queued message")
    expect(field).to_have_value("#tokens=3\nsecond line")
    busy.locator("#composer-text").focus()
    expect(field).to_have_count(0)
    assert changes == []
    busy.get_by_role("button", name="Edit the queued message").click()
    field.press("ControlOrMeta+End")
    field.press("Shift+Enter")
    field.press_sequentially("third line")
    field.press("Enter")
    expect(field).to_have_count(0)
    expect(chips(busy).locator(".chip-text")).to_have_text("#tokens=3\nsecond line\nthird line")
    assert [request.post_data_json for request in changes] == [{"input": "#tokens=3\nsecond line\nthird line"}]
    stop(busy)
    wait_for_status(busy, "completed")


def test_a_long_queued_message_is_cut_and_its_buttons_are_within_reach(busy: Page, open_page: Callable) -> None:
    say(busy, "never to be asked " * 20)
    phone = open_page("alice", viewport=PHONE, has_touch=True, is_mobile=True)
    phone.goto(busy.url)
    for page in (phone, busy):
        for name in ("Send now", "Edit the queued message", "Remove the queued message"):
            expect(page.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
        composer = page.locator(".composer").bounding_box()
        assert chips(page).bounding_box()["width"] <= composer["width"]
    phone.get_by_role("button", name="Remove the queued message").tap()
    expect(chips(busy)).to_have_count(0)
    stop(busy)
    wait_for_status(busy, "cancelled")


def test_a_long_queue_leaves_room_for_the_conversation(busy: Page) -> None:
    for number in range(12):
        say(busy, f"never to be asked {number}")
    expect(chips(busy)).to_have_count(12)
    assert busy.locator("#transcript").bounding_box()["height"] > 300
    while chips(busy).count():
        left = chips(busy).count() - 1
        busy.get_by_role("button", name="Remove the queued message").last.click()
        expect(chips(busy)).to_have_count(left)
    stop(busy)
    wait_for_status(busy, "cancelled")


def test_a_queued_message_can_be_removed_and_never_runs(busy: Page) -> None:
    say(busy, "never to be asked")
    busy.get_by_role("button", name="Remove the queued message").click()
    expect(chips(busy)).to_have_count(0)
    busy.reload()
    expect(chips(busy)).to_have_count(0)
    stop(busy)
    wait_for_status(busy, "cancelled")
    expect(busy.locator("#runs")).not_to_contain_text("never to be asked")


def test_send_now_stops_the_run_and_sends(busy: Page) -> None:
    say(busy, "#tokens=3")
    busy.get_by_role("button", name="Send now").click()
    wait_for_status(busy, "completed")
    expect(busy.locator("#runs")).to_contain_text("Stopped by you")
    expect(busy.locator("section.run")).to_have_count(2)


def test_two_tabs_show_the_same_queue(busy: Page) -> None:
    other = busy.context.new_page()
    other.goto(busy.url)
    say(busy, "from the first tab")
    expect(chips(other)).to_contain_text("from the first tab")
    other.get_by_role("button", name="Remove the queued message").click()
    expect(chips(busy)).to_have_count(0)
    other.locator(".composer [data-stop-active]").click()
    wait_for_status(busy, "cancelled")


def test_what_is_being_edited_when_its_turn_comes_is_not_lost(busy: Page) -> None:
    other = busy.context.new_page()
    other.goto(busy.url)
    say(busy, "#tokens=3")
    busy.get_by_role("button", name="Edit the queued message").click()
    busy.get_by_role("textbox", name="Edit the queued message").fill("something better")
    other.locator(".composer [data-stop-active]").click()
    wait_for_status(busy, "completed")
    expect(busy.locator("#composer-text")).to_have_value("something better")
    expect(busy.locator(".notice")).to_contain_text("It has started already.")


def test_a_draft_survives_a_reload_in_its_own_conversation(page: Page) -> None:
    first = ask(page, "#tokens=2")
    page.fill("#composer-text", "half a thou")
    page.reload()
    expect(page.locator("#composer-text")).to_have_value("half a thou")
    ask(page, "#tokens=3")
    expect(page.locator("#composer-text")).to_have_value("")
    page.goto(f"/c/{first}")
    expect(page.locator("#composer-text")).to_have_value("half a thou")
    say(page, "#tokens=2")
    page.reload()
    expect(page.locator("#composer-text")).to_have_value("")


def test_a_first_question_survives_until_its_conversation_is_open(page: Page, troubles: Troubles) -> None:
    field = page.locator("#opening-text")
    page.goto("/")
    field.fill("#tokens=2 half a thou")
    page.goto("/history")
    page.goto("/")
    expect(field).to_have_value("#tokens=2 half a thou")
    troubles.expect("net::ERR_FAILED")
    page.route("**/start", lambda route: route.abort())
    field.press("Enter")
    page.unroute_all()
    page.goto("/")
    expect(field).to_have_value("#tokens=2 half a thou")
    field.press("Enter")
    page.wait_for_url("**/c/conv_*")
    wait_for_status(page, "completed")
    page.goto("/")
    expect(field).to_have_value("")


def test_a_first_question_is_not_shown_to_whoever_signs_in_next(page: Page) -> None:
    page.goto("/")
    page.fill("#opening-text", "between me and the agent")
    page.context.clear_cookies()
    sign_in(page, "bob")
    page.goto("/")
    expect(page.locator("#opening-text")).to_have_value("")
    page.context.clear_cookies()
    sign_in(page, "alice")
    page.goto("/")
    expect(page.locator("#opening-text")).to_have_value("between me and the agent")
    page.fill("#opening-text", "")


def test_that_the_server_is_away_is_said_as_long_as_it_is_true(page: Page, troubles: Troubles) -> None:
    troubles.expect("ERR_INTERNET_DISCONNECTED", "WebSocket")
    ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    bar, problem = page.locator("[data-connection]"), page.locator("[data-composer-error]")
    page.context.set_offline(True)
    expect(bar).to_be_visible()
    page.fill("#composer-text", "#tokens=3")
    page.press("#composer-text", "Enter")
    expect(problem).to_contain_text("cannot be reached")
    page.context.set_offline(False)
    expect(bar).to_be_hidden()
    expect(problem).to_be_hidden()
    expect(page.locator("#composer-text")).to_have_value("#tokens=3")


def test_the_field_grows_and_shift_enter_breaks_the_line(page: Page) -> None:
    ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    field = page.locator("#composer-text")
    before = field.bounding_box()["height"]
    field.press_sequentially("one")
    field.press("Shift+Enter")
    field.press_sequentially("two")
    expect(field).to_have_value("one\ntwo")
    assert field.bounding_box()["height"] > before


def test_escape_stops_and_arrow_up_edits_the_last_message(page: Page) -> None:
    ask(page, SLOW)
    expect(page.locator("#runs")).to_contain_text("tok3")
    page.keyboard.press("Escape")
    wait_for_status(page, "cancelled")
    page.locator("#composer-text").press("ArrowUp")
    expect(page.locator("#composer-text")).to_have_value(SLOW)


def test_arrow_up_edits_the_queued_message_where_there_is_one(busy: Page) -> None:
    say(busy, "queued words")
    expect(chips(busy)).to_have_count(1)
    busy.locator("#composer-text").press("ArrowUp")
    expect(busy.get_by_role("textbox", name="Edit the queued message")).to_be_focused()
    busy.keyboard.press("Escape")
    expect(busy.get_by_role("textbox", name="Edit the queued message")).to_have_count(0)
    expect(busy.locator("[data-status-word]")).to_have_attribute("data-status", "running")
    stop(busy)


def test_a_question_mark_shows_the_keys(page: Page) -> None:
    page.locator("h1").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    page.fill("#opening-text", "")
    page.locator("#opening-text").press_sequentially("why?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_all_shortcuts_can_be_switched_off(page: Page) -> None:
    page.goto("/preferences")
    page.get_by_role("checkbox", name="Shortcuts").uncheck()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").filter(has_text="Saved")).to_be_visible()
    ask(page, SLOW)
    expect(page.locator("#runs")).to_contain_text("tok3")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.locator("#composer-text").press("ArrowUp")
    expect(page.locator("#composer-text")).to_have_value("")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".composer [data-stop-word]")).to_be_visible()
    stop(page)
    wait_for_status(page, "cancelled")


def test_beginnings_and_ends_are_announced_and_tokens_are_not(page: Page) -> None:
    ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    page.evaluate(
        """() => {
            window.said = [];
            const announcer = document.querySelector("[data-announcer]");
            new MutationObserver(() => window.said.push(announcer.textContent)).observe(announcer, {childList: true});
        }"""
    )
    say(page, "#tokens=200 #rate=400")
    expect(page.locator("#runs")).to_contain_text("tok199")
    wait_for_status(page, "completed")
    assert page.evaluate("window.said") == ["Demo is answering.", "Demo has answered."]


def test_staff_look_and_can_stop_but_do_not_write(busy: Page, open_page: Callable[..., Page]) -> None:
    charlie = open_page("charlie")
    charlie.goto(busy.url)
    expect(charlie.locator("#runs")).to_contain_text("tok3")
    expect(charlie.locator("#composer-text")).to_have_count(0)
    charlie.locator(".composer [data-stop-active]").click()
    wait_for_status(charlie, "cancelled")
    expect(busy.locator("#runs")).to_contain_text(re.compile("Stopped by charlie"))
