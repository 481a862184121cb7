"""Where the focus goes when what had it is gone: by keyboard one never starts again at the top of the page."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.people import ask, say, wait_for_status

SLOW = "#tokens=5000 #rate=20"
EMAIL = "Send an email to ada@example.com about lunch"


def composer(page: Page) -> Locator:
    return page.locator("#composer-text")


def press(button: Locator) -> None:
    button.focus()
    button.press("Enter")


def test_after_stop_one_writes_on(page: Page) -> None:
    ask(page, SLOW)
    wait_for_status(page, "running")
    press(page.locator(".composer [data-stop-active]"))
    wait_for_status(page, "cancelled")
    expect(composer(page)).to_be_focused()


def test_after_retry_one_writes_on(page: Page) -> None:
    ask(page, "#error=401")
    press(page.get_by_role("button", name="Retry"))
    expect(page.locator("section.run")).to_have_count(2)
    expect(composer(page)).to_be_focused()


def test_after_a_decision_one_writes_on(page: Page) -> None:
    ask(page, EMAIL)
    press(page.get_by_role("button", name="Approve"))
    wait_for_status(page, "completed")
    expect(composer(page)).to_be_focused()


@pytest.mark.parametrize("name", ["Remove the queued message", "Send now"])
def test_after_a_queued_message_is_gone_one_writes_on(page: Page, name: str) -> None:
    ask(page, SLOW)
    wait_for_status(page, "running")
    say(page, SLOW)
    press(page.get_by_role("button", name=name))
    expect(page.locator("#queue li")).to_have_count(0)
    expect(composer(page)).to_be_focused()
    wait_for_status(page, "running")
    page.keyboard.press("Escape")
    wait_for_status(page, "cancelled")


def test_whoever_clicked_beside_everything_is_not_put_into_the_composer(page: Page) -> None:
    ask(page, SLOW)
    wait_for_status(page, "running")
    page.locator("#facts h2").first.click()
    expect(composer(page)).not_to_be_focused()
    page.keyboard.press("Escape")
    wait_for_status(page, "cancelled")
    expect(composer(page)).not_to_be_focused()


def test_on_a_phone_nothing_opens_the_keyboard(phone: Page) -> None:
    ask(phone, SLOW)
    wait_for_status(phone, "running")
    phone.locator(".composer [data-stop-active]").tap()
    wait_for_status(phone, "cancelled")
    expect(composer(phone)).not_to_be_focused()


def test_the_link_in_the_inspector_keeps_the_focus_while_the_facts_change(page: Page) -> None:
    ask(page, SLOW)
    wait_for_status(page, "running")
    page.locator("#facts a").focus()
    page.keyboard.press("Escape")
    expect(page.locator("#facts .status")).to_have_attribute("data-status", "cancelled")
    expect(page.locator("#facts a")).to_be_focused()


def test_stop_in_the_history_is_still_stop_after_the_rows_came_anew(page: Page) -> None:
    """And after it, the focus is on the run's row."""
    other = page.context.new_page()
    ask(other, SLOW)
    wait_for_status(other, "running")
    page.goto("/history")
    rows = page.locator("main tr[data-run]")
    run = rows.first.get_attribute("data-run")
    row = page.locator(f"tr[data-run={run}]")
    row.get_by_role("button").focus()
    third = page.context.new_page()
    ask(third, "#tokens=2")
    expect(rows.first).not_to_have_attribute("data-run", run)
    expect(row.get_by_role("button")).to_be_focused()
    page.keyboard.press("Enter")
    wait_for_status(other, "cancelled")
    expect(row.locator(".status")).to_have_attribute("data-status", "cancelled")
    expect(row.get_by_role("link")).to_be_focused()


def test_stop_in_the_list_leaves_the_focus_on_the_conversation(page: Page) -> None:
    conversation = ask(page, SLOW)
    wait_for_status(page, "running")
    page.goto("/")
    entry = page.locator(f'li[data-conversation="{conversation}"]')
    press(entry.get_by_role("button", name=re.compile("^Stop")))
    expect(entry.get_by_role("button", name=re.compile("^Stop"))).to_have_count(0)
    expect(entry.get_by_role("link")).to_be_focused()


def test_who_types_in_the_inbox_types_on_while_something_else_comes(page: Page) -> None:
    other = page.context.new_page()
    ask(other, EMAIL)
    wait_for_status(other, "requires_approval")
    page.goto("/inbox")
    cards = page.locator("li.card")
    before = cards.count()
    reason = cards.first.locator("[data-reason]")
    reason.press_sequentially("half a rea")
    ask(other, EMAIL)
    expect(cards).to_have_count(before + 1)
    expect(reason).to_be_focused()
    page.keyboard.type("son")
    expect(reason).to_have_value("half a reason")
    for left in reversed(range(before + 1)):
        press(cards.first.get_by_role("button", name="Deny"))
        expect(cards).to_have_count(left)
        expect(page.locator("[data-inbox]")).to_be_focused()
