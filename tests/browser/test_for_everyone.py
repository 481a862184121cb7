"""axe-core finds nothing on any page in any theme; keys alone lead everywhere; motion is for those who want it."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.browser.axe import find_violations
from tests.browser.conftest import PHONE, Troubles
from tests.browser.people import ask, wait_for_status
from tests.serving import Served

SIGNED_OUT = ("/", "/accounts/login/", "/nowhere")
SIGNED_IN = ("/", "/inbox", "/history", "/search", "/search?q=nothing-like-it", "/preferences", "/accounts/password/")
THEMES = ("light", "dark")
SLOW = "#tokens=5000 #rate=20"


@pytest.mark.parametrize("theme", THEMES)
def test_no_violation_for_strangers(open_context: Callable, site: Served, troubles: Troubles, theme: str) -> None:
    troubles.expect("404")
    page = open_context(base_url=site.url, color_scheme=theme).new_page()
    for path in SIGNED_OUT:
        page.goto(path)
        assert find_violations(page) == [], path


@pytest.mark.parametrize("theme", THEMES)
def test_no_violation_on_the_pages_of_the_console(open_page: Callable[..., Page], theme: str) -> None:
    page = open_page("charlie", color_scheme=theme)
    for path in SIGNED_IN:
        page.goto(path)
        assert find_violations(page) == [], path


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("viewport", [None, PHONE], ids=["desk", "phone"])
def test_no_violation_in_a_conversation_before_during_and_after(
    open_page: Callable[..., Page], theme: str, viewport: ViewportSize | None
) -> None:
    page = open_page("alice", color_scheme=theme, **({"viewport": viewport} if viewport else {}))
    ask(page, "What time is it, and what is 17*23?")
    wait_for_status(page, "completed")
    assert find_violations(page) == [], "answered"
    page.fill("#composer-text", SLOW)
    page.press("#composer-text", "Enter")
    expect(page.locator("#runs")).to_contain_text("tok3")
    page.fill("#composer-text", "#tokens=2")
    page.press("#composer-text", "Enter")
    expect(page.locator("#queue li")).to_have_count(1)
    assert find_violations(page) == [], "running, with a queued message"
    page.get_by_role("button", name="Remove the queued message").click()
    expect(page.locator("#queue li")).to_have_count(0)
    page.locator("#composer-text").press("Escape")
    wait_for_status(page, "cancelled")
    assert find_violations(page) == [], "stopped"
    page.fill("#composer-text", "#error=401")
    page.press("#composer-text", "Enter")
    wait_for_status(page, "failed")
    assert find_violations(page) == [], "failed"


@pytest.mark.parametrize("theme", THEMES)
def test_no_violation_in_dialogs_and_panels(open_page: Callable[..., Page], theme: str) -> None:
    page = open_page("alice", color_scheme=theme)
    ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("option").first).to_be_visible()
    assert find_violations(page) == [], "search"
    page.keyboard.press("Escape")
    page.locator("details[data-menu] summary").click()
    assert find_violations(page) == [], "menu"
    page.get_by_role("button", name="Keys").click()
    assert find_violations(page) == [], "keys"
    page.keyboard.press("Escape")
    page.goto("/")
    page.set_viewport_size(PHONE)
    page.get_by_role("button", name="Conversations").click()
    assert find_violations(page) == [], "list on a phone"


def test_the_first_tab_leads_past_the_list_to_the_content(page: Page) -> None:
    ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    page.goto("/history")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('#content').contains(document.activeElement)")


def test_a_keyboard_alone_renames_a_conversation(page: Page) -> None:
    conversation = ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    page.locator(f'li[data-conversation="{conversation}"] .entry-link').focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+a")
    page.keyboard.type("By keys")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("By keys")


def test_nothing_moves_for_those_who_want_no_motion(open_page: Callable[..., Page]) -> None:
    page = open_page("alice", reduced_motion="reduce")
    ask(page, SLOW)
    wait_for_status(page, "running")
    moving = page.evaluate(
        """() => document.getAnimations().filter(
            (one) => one.playState === "running" && one.effect.getTiming().iterations > 1
        ).length"""
    )
    assert moving == 0
    page.keyboard.press("Escape")
    wait_for_status(page, "cancelled")


def test_every_page_has_a_title_that_tells(page: Page) -> None:
    titles = []
    for path in ("/", "/inbox", "/history", "/search", "/preferences", "/accounts/password/"):
        page.goto(path)
        titles.append(page.title())
    assert len(set(titles)) == len(titles)
    assert all(title.endswith(" · Agentsite") for title in titles)
