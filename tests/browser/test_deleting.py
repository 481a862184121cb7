"""Deleting a conversation: at once, without a question, with an undo."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Troubles
from tests.browser.people import ask, wait_for_status

SLOW = "#tokens=5000 #rate=20"


def entry(page: Page, conversation: str) -> Locator:
    return page.locator(f'li[data-conversation="{conversation}"]')


def delete(page: Page, conversation: str) -> None:
    entry(page, conversation).hover()
    entry(page, conversation).get_by_role("button", name=re.compile("^Delete")).click()


def test_a_deleted_conversation_is_gone_and_comes_back_by_undo(page: Page) -> None:
    conversation = ask(page, "#tokens=2 to be deleted")
    wait_for_status(page, "completed")
    page.goto("/history")
    delete(page, conversation)
    expect(entry(page, conversation)).to_have_count(0)
    expect(page.locator(".notice")).to_contain_text("“#tokens=2 to be deleted” was deleted.")
    page.get_by_role("button", name="Undo").click()
    expect(entry(page, conversation)).to_be_visible()
    page.goto(f"/c/{conversation}")
    expect(page.locator("#runs")).to_contain_text("tok1")


def test_the_undo_does_not_cover_stop(page: Page) -> None:
    """On the screen of a laptop, beside the inspector."""
    conversation = ask(page, "#tokens=2 and a title that is as long as titles are, which is quite long")
    wait_for_status(page, "completed")
    ask(page, SLOW)
    wait_for_status(page, "running")
    delete(page, conversation)
    expect(page.locator(".notice")).to_be_visible()
    page.locator(".composer [data-stop-active]").click(timeout=5000)
    wait_for_status(page, "cancelled")
    expect(page.locator(".notice")).to_be_visible()


def test_a_title_without_a_space_leaves_the_undo_within_reach(page: Page) -> None:
    conversation = ask(page, "Donaudampfschifffahrt" * 12)
    wait_for_status(page, "completed")
    page.goto("/")
    delete(page, conversation)
    expect(page.get_by_role("button", name="Undo")).to_be_in_viewport(ratio=1)
    page.get_by_role("button", name="Undo").click()
    expect(entry(page, conversation)).to_be_visible()


def test_deleting_the_open_conversation_leads_home_and_the_undo_goes_along(page: Page) -> None:
    conversation = ask(page, SLOW)
    expect(page.locator("#runs")).to_contain_text("tok3")
    delete(page, conversation)
    page.wait_for_url(re.compile(r"/$"))
    expect(page.locator(".notice")).to_contain_text("was deleted.")
    expect(entry(page, conversation)).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(entry(page, conversation)).to_be_visible()
    entry(page, conversation).click()
    wait_for_status(page, "cancelled")
    expect(page.locator("#runs")).to_contain_text("Stopped by you")


def test_a_deleted_conversation_that_is_open_elsewhere_says_that_it_is_gone(page: Page, troubles: Troubles) -> None:
    troubles.expect("404")
    conversation = ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    other = page.context.new_page()
    other.goto("/")
    delete(other, conversation)
    expect(other.locator(".notice")).to_contain_text("was deleted.")
    page.fill("#composer-text", "still there?")
    page.press("#composer-text", "Enter")
    expect(page.locator("[data-composer-error]")).to_contain_text("There is no conversation")
    expect(page.locator("#composer-text")).to_have_value("still there?")
