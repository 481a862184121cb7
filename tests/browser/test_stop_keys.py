"""Esc and Stop at moments at which people press them: too early, twice, or while they write something else."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import Troubles
from tests.browser.holding import Held
from tests.browser.people import ask, say, wait_for_status

SLOW = "#tokens=5000 #rate=20"
EMAIL = "Send an email to ada@example.com about lunch"


def test_escape_while_the_message_is_on_its_way_stops_its_run(page: Page) -> None:
    """C5, C2: the page knows of no run yet."""
    ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    held = Held(page, "**/v1/runs")
    page.fill("#composer-text", SLOW)
    page.press("#composer-text", "Enter")
    sending = held.next()
    page.keyboard.press("Escape")
    sending.continue_()
    wait_for_status(page, "cancelled")
    expect(page.locator("section.run")).to_have_count(2)


def test_a_message_that_could_not_be_sent_is_not_stopped_later(page: Page, troubles: Troubles) -> None:
    troubles.expect("ERR_FAILED")
    ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    held = Held(page, "**/v1/runs")
    page.fill("#composer-text", SLOW)
    page.press("#composer-text", "Enter")
    held.next().abort()
    expect(page.locator("[data-composer-error]")).to_be_visible()
    page.keyboard.press("Escape")
    page.press("#composer-text", "Enter")
    held.next().continue_()
    wait_for_status(page, "running")
    page.keyboard.press("Escape")
    wait_for_status(page, "cancelled")


def test_a_second_or_a_held_escape_leaves_the_next_question_alone(page: Page) -> None:
    """C2, R16"""
    ask(page, SLOW)
    wait_for_status(page, "running")
    say(page, "#tokens=60 #rate=30")
    runs = page.locator("section.run")
    expect(page.locator("#queue li")).to_have_count(1)
    page.keyboard.down("Escape")
    expect(page.locator("#queue li")).to_have_count(0)
    wait_for_status(page, "running")
    for _ in range(30):
        page.keyboard.down("Escape")
    page.keyboard.up("Escape")
    wait_for_status(page, "completed")
    expect(runs.first).to_contain_text("Stopped by you")
    expect(runs.last).to_contain_text("tok59")


def test_stop_pressed_twice_by_a_slow_hand_stops_one_run(page: Page) -> None:
    """The page's clock is the test's, however long the machine takes."""
    ask(page, SLOW)
    wait_for_status(page, "running")
    say(page, SLOW)
    expect(page.locator("#queue li")).to_have_count(1)
    stop = page.locator(".composer [data-stop-active]")
    page.evaluate("performance.now = () => 10000")
    stop.click()
    expect(page.locator("section.run").first).to_contain_text("Stopped by you")
    expect(page.locator("#queue li")).to_have_count(0)
    wait_for_status(page, "running")
    page.evaluate("performance.now = () => 10700")
    stop.click()
    wait_for_status(page, "running")
    page.evaluate("performance.now = () => 10900")
    stop.click()
    wait_for_status(page, "cancelled")


def test_escape_in_a_question_leaves_the_field_and_decides_nothing(page: Page) -> None:
    """C7"""
    ask(page, EMAIL)
    wait_for_status(page, "requires_approval")
    reason = page.locator("[data-reason]")
    reason.press_sequentially("not to")
    page.keyboard.press("Escape")
    expect(reason).not_to_be_focused()
    expect(reason).to_have_value("not to")
    page.get_by_role("button", name="Edit the arguments").click()
    field = page.locator("[data-fields] input").first
    field.fill("eve@example.com")
    page.keyboard.press("Escape")
    expect(field).not_to_be_focused()
    wait_for_status(page, "requires_approval")
    page.keyboard.press("Escape")
    wait_for_status(page, "cancelled")


def test_what_is_wrong_with_a_field_is_said_at_the_field(page: Page, troubles: Troubles) -> None:
    troubles.expect("400 (Bad Request)")
    ask(page, "send three emails")
    page.get_by_role("button", name="Edit the arguments").first.click()
    field = page.locator("[data-fields] input").first
    field.fill("not an address")
    for choice in page.locator("input[type=radio][value=approve]").all():
        choice.check()
    page.get_by_role("button", name="Send the decisions").click()
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    problem = page.locator("[data-problem]")
    expect(problem).to_be_in_viewport()
    assert field.get_attribute("aria-describedby") == problem.get_attribute("id")
    field.fill("eve@example.com")
    page.get_by_role("button", name="Send the decisions").click()
    wait_for_status(page, "completed")


def test_whoever_was_signed_out_meanwhile_is_sent_to_the_sign_in_at_once(page: Page, troubles: Troubles) -> None:
    troubles.expect("401 (Unauthorized)")
    ask(page, SLOW)
    wait_for_status(page, "running")
    address = page.url
    kept: Any = page.context.cookies()
    page.context.clear_cookies(name="sessionid")
    page.locator(".composer [data-stop-active]").click()
    page.wait_for_url("**/accounts/login/**")
    page.context.add_cookies(kept)
    page.goto(address)
    page.keyboard.press("Escape")
    wait_for_status(page, "cancelled")
