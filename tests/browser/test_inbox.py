"""What waits for somebody: the badge, the title, the inbox, and what the composer says meanwhile."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import find_violations
from tests.browser.people import ask, wait_for_status

EMAIL = "Send an email to ada@example.com about lunch"


@pytest.fixture
def asked(page: Page) -> Page:
    """alice in a conversation that waits for her."""
    ask(page, EMAIL)
    wait_for_status(page, "requires_approval")
    return page


def test_the_title_the_list_and_the_badge_tell(asked: Page) -> None:
    expect(asked).to_have_title(re.compile(r"^\(1\) needs approval · Send an email"))
    expect(asked.locator("li[data-conversation]").first).to_contain_text("needs approval")
    expect(asked.locator("[data-waiting]")).to_have_text(re.compile(r"^[1-9]"))


def test_the_inbox_shows_what_is_asked_and_why_and_decides(asked: Page) -> None:
    asked.goto("/inbox")
    expect(asked).to_have_title(re.compile(r"^\(\d+\) Waiting for you"))
    cards = asked.locator("li.card")
    expect(cards.first).to_contain_text("send_email")
    expect(cards.first).to_contain_text("I will send this e-mail for you.")
    for theme in ("light", "dark"):
        asked.emulate_media(color_scheme=theme)
        assert find_violations(asked) == [], theme
    for left in reversed(range(cards.count())):
        cards.first.get_by_role("button", name="Deny").click()
        expect(cards).to_have_count(left)
    expect(asked.get_by_text("Nothing waits for you.")).to_be_visible()
    expect(asked.locator("[data-waiting]")).to_be_hidden()


def test_a_form_in_the_inbox_keeps_what_is_typed_while_something_else_comes(asked: Page) -> None:
    inbox = asked.context.new_page()
    inbox.goto("/inbox")
    before = inbox.locator("li.card").count()
    reason = inbox.locator("li.card").first.locator("[data-reason]")
    reason.fill("half a rea")
    other = asked.context.new_page()
    ask(other, EMAIL)
    expect(inbox.locator("li.card")).to_have_count(before + 1)
    expect(reason).to_have_value("half a rea")


def test_staff_hear_at_once_of_what_waits_for_others_and_may_decide(asked: Page, open_page: Callable) -> None:
    charlie = open_page("charlie")
    charlie.goto("/inbox")
    before = charlie.locator("li.card").count()
    other = asked.context.new_page()
    ask(other, EMAIL)
    expect(charlie.locator("li.card")).to_have_count(before + 1)
    charlie.locator("li.card").last.get_by_role("button", name="Approve").click()
    wait_for_status(other, "completed")
    expect(other.locator("#runs")).to_contain_text("charlie")


def test_while_an_approval_waits_the_composer_says_what_to_do_and_keeps_the_text(asked: Page) -> None:
    field = asked.locator("#composer-text")
    expect(field).to_have_attribute("placeholder", re.compile("Decide on the approval first"))
    field.fill("hello")
    expect(asked.locator("[data-queue]")).to_be_hidden()
    field.press("Enter")
    expect(field).to_have_value("hello")
    asked.locator(".composer [data-stop-active]").click()
    wait_for_status(asked, "cancelled")
    expect(asked.locator("[data-send]")).to_be_enabled()
