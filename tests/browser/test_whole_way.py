"""What people come for: sign in, ask, watch, stop, go on."""

import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Troubles
from tests.browser.people import ask, say, sign_in, wait_for_status
from tests.serving import Served

SLOW = "#tokens=2000 #rate=20"


def stop_button(page: Page) -> Locator:
    return page.locator(".composer [data-stop-active]")


def test_somebody_signs_in_asks_and_gets_an_answer_with_a_tool(open_context: Callable, site: Served) -> None:
    page = open_context(base_url=site.url).new_page()
    page.goto("/")
    expect(page.locator("h1")).to_have_text("Agents that stop when you say stop")
    sign_in(page, "alice")
    expect(page.locator("h1")).to_have_text("What can we do for you?")
    page.get_by_role("button", name="What time is it, and what is 17*23?", exact=True).click()
    page.wait_for_url("**/c/conv_*")
    expect(page.locator("#runs")).to_contain_text("calculator")
    expect(page.locator("#runs")).to_contain_text("391")
    wait_for_status(page, "completed")
    expect(page).to_have_title("What time is it, and what is 17*23? · Agentsite")


def test_a_wrong_password_is_explained(open_context: Callable, site: Served) -> None:
    page = open_context(base_url=site.url).new_page()
    page.goto("/accounts/login/")
    page.fill("#id_username", "alice")
    page.fill("#id_password", "wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("do not match")


def test_whoever_followed_a_link_comes_back_to_it_after_signing_in(open_context: Callable, site: Served) -> None:
    page = open_context(base_url=site.url).new_page()
    page.goto("/history")
    page.fill("#id_username", "alice")
    page.fill("#id_password", "right")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/history")


def test_tokens_arrive_while_the_stop_button_stands_where_send_was(page: Page) -> None:
    ask(page, SLOW)
    expect(page.locator("#runs")).to_contain_text("tok3")
    expect(page.locator("[data-send]")).to_be_hidden()
    expect(stop_button(page)).to_be_visible()
    expect(page).to_have_title(re.compile("^● Running · "))
    stop_button(page).click()
    wait_for_status(page, "cancelled")


def test_a_stop_keeps_the_text_says_who_stopped_it_and_the_conversation_goes_on(page: Page) -> None:
    """C3, C8, C12 on the page."""
    ask(page, SLOW)
    expect(page.locator("#runs")).to_contain_text("tok3")
    stop_button(page).click()
    wait_for_status(page, "cancelled")
    expect(page.locator("#runs")).to_contain_text("tok3")
    expect(page.locator("#runs")).to_contain_text("Stopped by you")
    expect(page.locator("#runs")).to_contain_text("kept")
    expect(page.locator("[data-send]")).to_be_visible()
    say(page, "#tokens=3")
    wait_for_status(page, "completed")


def test_stop_answers_at_once_and_says_stopped_only_when_it_is_true(page: Page) -> None:
    """While the server has not answered, the button says what is under way and nothing else does."""
    ask(page, SLOW)
    expect(page.locator("#runs")).to_contain_text("tok3")
    held = []
    page.route("**/v1/runs/*/stop", lambda route: held.append(route))
    stop_button(page).click()
    expect(stop_button(page)).to_contain_text("Stopping…")
    expect(page.locator("[data-status-word]")).to_have_attribute("data-status", "running")
    assert "Stopped by" not in page.locator("#runs").inner_text()
    stop_button(page).click(force=True)
    expect(page.locator("[data-conversations]")).to_be_visible()
    assert len(held) == 1, "a second click asks nothing"
    held[0].continue_()
    wait_for_status(page, "cancelled")
    expect(page.locator("#runs")).to_contain_text("Stopped by you")


def test_a_stop_while_a_tool_runs_ends_it(page: Page) -> None:
    """C6 on the page."""
    ask(page, "Wait 60 seconds")
    expect(page.locator("#runs")).to_contain_text("wait")
    wait_for_status(page, "running")
    expect(page.locator("#runs progress, #runs [role=progressbar], #runs [data-state=running]").first).to_be_visible()
    page.keyboard.press("Escape")
    wait_for_status(page, "cancelled")
    expect(page.locator("#runs")).to_contain_text("Stopped by you")


def test_an_error_of_the_provider_is_told_in_plain_words_and_can_be_retried(page: Page) -> None:
    ask(page, "#error=401 #errors=1")
    wait_for_status(page, "failed")
    expect(page.locator("#runs")).to_contain_text("The provider refused the key.")
    page.get_by_role("button", name="Retry").click()
    wait_for_status(page, "completed")


def test_a_double_click_on_a_question_starts_one_conversation(open_page: Callable[..., Page]) -> None:
    page = open_page("bob")
    page.goto("/")
    before = page.locator("li[data-conversation]").count()
    page.get_by_role("button", name="What time is it, and what is 17*23?", exact=True).dblclick()
    page.wait_for_url("**/c/conv_*")
    wait_for_status(page, "completed")
    expect(page.locator("li[data-conversation]")).to_have_count(before + 1)


def test_enter_twice_in_the_composer_sends_once(page: Page) -> None:
    ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    page.fill("#composer-text", "#tokens=4")
    page.evaluate(
        """() => {
            const field = document.querySelector("#composer-text");
            for (const _ of [1, 2]) {
                field.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true, cancelable: true}));
            }
        }"""
    )
    expect(page.locator("section.run")).to_have_count(2)
    wait_for_status(page, "completed")
    page.reload()
    expect(page.locator("section.run")).to_have_count(2)


def test_a_message_whose_answer_got_lost_is_sent_again_and_runs_once(page: Page, troubles: Troubles) -> None:
    """R15: the page keeps the key of a text until the server has answered."""
    ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    troubles.expect("net::ERR_FAILED")

    def lose_answer(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/v1/runs", lose_answer, times=1)
    page.fill("#composer-text", "#tokens=5")
    page.press("#composer-text", "Enter")
    expect(page.locator("[data-composer-error]")).to_contain_text("cannot be reached")
    expect(page.locator("#composer-text")).to_have_value("#tokens=5")
    page.press("#composer-text", "Enter")
    expect(page.locator("#composer-text")).to_have_value("")
    wait_for_status(page, "completed")
    page.reload()
    expect(page.locator("section.run")).to_have_count(2)
