"""Scripts that come with what needs them: whoever is faster has pressed all the same."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Troubles
from tests.browser.holding import Held
from tests.browser.people import ask, wait_for_status


def test_what_is_typed_into_the_search_before_its_script_has_come_is_looked_for(page: Page) -> None:
    ask(page, "#tokens=2 the road to Samarkand")
    wait_for_status(page, "completed")
    held = Held(page, "**/search*.js")
    page.keyboard.press("Control+k")
    script = held.next()
    page.keyboard.type("samarkand")
    script.continue_()
    expect(page.get_by_role("option")).to_have_count(1)
    expect(page.locator("#search-words")).to_have_value("samarkand")


@pytest.fixture
def held(page: Page) -> Held:
    return Held(page, "**/retrying*.js", "**/deciding*.js")


def test_retry_before_its_script_has_come(page: Page, held: Held) -> None:
    ask(page, "#error=401")
    wait_for_status(page, "failed")
    page.get_by_role("button", name="Retry").click()
    route = held.next()
    expect(page.locator("section.run")).to_have_count(1)
    route.continue_()
    expect(page.locator("section.run")).to_have_count(2)


def test_a_decision_before_its_script_has_come(page: Page, held: Held) -> None:
    """Enter in a field decides nothing and leads nowhere, then as later."""
    ask(page, "Send an email to ada@example.com about lunch")
    wait_for_status(page, "requires_approval")
    address = page.url
    page.locator("[data-reason]").press("Enter")
    page.get_by_role("button", name="Approve").click()
    route = held.next()
    assert page.url == address
    wait_for_status(page, "requires_approval")
    route.continue_()
    wait_for_status(page, "completed")


def test_a_script_that_could_not_be_fetched_is_fetched_when_it_is_needed(
    page: Page, held: Held, troubles: Troubles
) -> None:
    troubles.expect("ERR_FAILED")
    ask(page, "#error=401")
    held.next().abort()
    page.get_by_role("button", name="Retry").click()
    held.next().continue_()
    expect(page.locator("section.run")).to_have_count(2)
