"""Approvals in the console: asked with a form, decided by whoever is first, told to everybody."""

from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Troubles
from tests.browser.people import ask, wait_for_status
from tests.serving import Served

ONE = "Send an email to bob@example.com saying hello there"
THREE = "Send three emails"


def form(page: Page) -> Locator:
    return page.locator(".question[data-question]")


def open_card(page: Page) -> Locator:
    card = page.locator(".tool").first
    card.evaluate("card => card.open = true")
    return card


def test_a_call_is_approved_as_it_is(page: Page) -> None:
    ask(page, ONE)
    wait_for_status(page, "requires_approval")
    expect(form(page)).to_contain_text("wants to use send_email")
    expect(form(page).locator(".arguments")).to_contain_text("bob@example.com")
    expect(form(page).locator(":focus")).to_have_count(0)
    form(page).get_by_role("button", name="Approve").click()
    wait_for_status(page, "completed")
    expect(form(page)).to_have_count(0)
    expect(page.locator(".tool summary")).to_contain_text("approved by you")
    page.reload()
    expect(open_card(page)).to_contain_text("Approved by you")


def test_a_call_is_approved_with_other_arguments(page: Page) -> None:
    ask(page, ONE)
    wait_for_status(page, "requires_approval")
    form(page).get_by_role("button", name="Edit the arguments").click()
    expect(form(page).locator("input:focus")).to_have_value("bob@example.com")
    form(page).locator("input:focus").fill("carol@example.com")
    page.keyboard.press("Enter")
    expect(form(page)).to_be_visible()
    page.keyboard.press("Control+Enter")
    wait_for_status(page, "completed")
    expect(open_card(page)).to_contain_text("Approved with changes by you")
    expect(page.locator(".tool .result")).to_contain_text("carol@example.com")


def test_arguments_that_break_the_schema_are_refused_and_nothing_is_lost(page: Page, troubles: Troubles) -> None:
    troubles.expect("400")
    ask(page, ONE)
    wait_for_status(page, "requires_approval")
    form(page).get_by_role("button", name="Edit the arguments").click()
    field = form(page).locator("[data-fields] input").first
    field.evaluate("field => { field.dataset.kind = 'json'; }")
    field.fill("5")
    form(page).get_by_role("button", name="Approve").click()
    expect(form(page).get_by_role("alert")).to_be_visible()
    expect(field).to_have_value("5")
    field.fill('"dave@example.com"')
    form(page).get_by_role("button", name="Approve").click()
    wait_for_status(page, "completed")


def test_a_field_that_does_not_fit_is_named_and_gets_the_focus(page: Page, troubles: Troubles) -> None:
    troubles.expect("400")
    ask(page, THREE)
    wait_for_status(page, "requires_approval")
    for part in form(page).locator("fieldset.decision").all():
        part.get_by_label("Approve").check()
    second = form(page).locator("fieldset.decision").nth(1)
    second.get_by_role("button", name="Edit the arguments").click()
    field = second.locator("[data-fields] input").first
    field.fill("nobody")
    form(page).get_by_role("button", name="Send the decisions").click()
    expect(form(page).get_by_role("alert")).to_have_text("What is entered under “to” does not fit. Please check it.")
    expect(field).to_be_focused()
    field.fill("dave@example.com")
    form(page).get_by_role("button", name="Send the decisions").click()
    wait_for_status(page, "completed")


def test_a_call_is_denied_with_a_reason(page: Page) -> None:
    ask(page, ONE)
    wait_for_status(page, "requires_approval")
    form(page).get_by_label("Reason for denying").fill("not today")
    form(page).get_by_role("button", name="Deny").click()
    wait_for_status(page, "completed")
    card = open_card(page)
    expect(card).to_have_attribute("data-state", "denied")
    expect(card).to_contain_text("Denied by you")
    expect(card).to_contain_text("not today")


def test_several_calls_are_decided_together(page: Page) -> None:
    ask(page, THREE)
    wait_for_status(page, "requires_approval")
    calls = form(page).locator("fieldset.decision")
    expect(calls).to_have_count(3)
    calls.nth(0).get_by_label("Approve").check()
    send = form(page).get_by_role("button", name="Send the decisions")
    send.click()
    expect(form(page).get_by_role("alert")).to_contain_text("Choose for each call")
    calls.nth(1).get_by_label("Deny").check()
    calls.nth(1).get_by_label("Reason").fill("not him")
    calls.nth(2).get_by_label("Approve").check()
    send.click()
    wait_for_status(page, "completed")
    states = page.locator(".tool").evaluate_all("cards => cards.map(card => card.dataset.state)")
    assert states == ["finished", "denied", "finished"]


def test_whoever_comes_second_is_told_who_was_first(page: Page, open_page: Callable[..., Page]) -> None:
    ask(page, ONE)
    wait_for_status(page, "requires_approval")
    staff = open_page("charlie")
    staff.goto(page.url)
    wait_for_status(staff, "requires_approval")
    form(page).get_by_role("button", name="Approve").click()
    wait_for_status(staff, "completed")
    expect(form(staff)).to_have_count(0)
    expect(staff.locator(".tool summary")).to_contain_text("approved by alice")


def test_a_decision_that_comes_too_late_says_so(page: Page, site: Served, troubles: Troubles) -> None:
    """While the page does not know it yet: the server answers who decided what."""
    troubles.expect("409", "WebSocket")
    ask(page, THREE)
    wait_for_status(page, "requires_approval")
    page.route_web_socket("**/ws/console/**", lambda socket: None)
    page.reload()
    wait_for_status(page, "requires_approval")
    other = page.context.new_page()
    other.goto(page.url)
    for field in other.locator("fieldset.decision").all():
        field.get_by_label("Deny").check()
    other.get_by_role("button", name="Send the decisions").click()
    wait_for_status(other, "completed")
    for field in form(page).locator("fieldset.decision").all():
        field.get_by_label("Approve").check()
    form(page).get_by_role("button", name="Send the decisions").click()
    expect(form(page).get_by_role("alert")).not_to_be_empty()


def test_a_stop_while_an_approval_waits_denies_it(page: Page) -> None:
    """C7: nobody is shown as awaiting approval."""
    ask(page, THREE)
    wait_for_status(page, "requires_approval")
    page.locator(".composer [data-stop-active]").click()
    wait_for_status(page, "cancelled")
    expect(form(page)).to_have_count(0)
    expect(page.locator(".tool")).to_have_count(3)
    expect(open_card(page)).to_contain_text("Denied: the run was stopped")
