"""The list on the left, search, history, preferences."""

import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Troubles
from tests.browser.holding import Held
from tests.browser.people import ask, say, sign_in, wait_for_status

SLOW = "#tokens=5000 #rate=20"


def entry(page: Page, conversation: str) -> Locator:
    return page.locator(f'li[data-conversation="{conversation}"]')


def test_the_list_shows_live_what_runs_and_can_stop_it(page: Page) -> None:
    other = page.context.new_page()
    conversation = ask(other, SLOW)
    expect(entry(page, conversation)).to_contain_text("running")
    entry(page, conversation).hover()
    entry(page, conversation).get_by_role("button", name=re.compile("^Stop")).click()
    wait_for_status(other, "cancelled")
    expect(entry(page, conversation)).not_to_contain_text("running")
    expect(entry(page, conversation).get_by_role("button", name=re.compile("^Stop"))).to_have_count(0)


def test_a_conversation_is_renamed_in_its_place(page: Page) -> None:
    conversation = ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    entry(page, conversation).hover()
    entry(page, conversation).get_by_role("button", name=re.compile("^Rename")).click()
    page.get_by_role("textbox", name="New title").fill("Weekly report")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Weekly report")
    expect(page).to_have_title("Weekly report · Agentsite")
    page.reload()
    expect(page.locator("h1")).to_have_text("Weekly report")
    entry(page, conversation).hover()
    entry(page, conversation).get_by_role("button", name=re.compile("^Rename")).click()
    page.get_by_role("textbox", name="New title").fill("Something else")
    page.keyboard.press("Escape")
    page.reload()
    expect(page.locator("h1")).to_have_text("Weekly report")


def test_search_finds_by_keyboard_alone(page: Page) -> None:
    conversation = ask(page, "#tokens=2 zanzibar")
    wait_for_status(page, "completed")
    page.goto("/")
    page.keyboard.press("Control+k")
    page.keyboard.type("zanz")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/c/{conversation}")


def test_search_shows_the_place_where_it_found_the_words_and_goes_there(page: Page) -> None:
    conversation = ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    say(page, "#tokens=3 <i>mombasa</i>")
    expect(page.locator(".run")).to_have_count(2)
    wait_for_status(page, "completed")
    page.goto("/")
    page.keyboard.press("Control+k")
    page.keyboard.type("mombasa")
    found = page.get_by_role("option")
    expect(found.locator(".found-excerpt")).to_have_text("#tokens=3 <i>mombasa</i>")
    expect(found.locator("mark")).to_have_text("mombasa")
    found.click()
    page.wait_for_url(f"**/c/{conversation}?run=*")
    expect(page.locator(".run:target")).to_contain_text("mombasa")


def test_search_tells_days_as_the_reader_writes_them(page: Page) -> None:
    ask(page, "#tokens=2 timbuktu")
    wait_for_status(page, "completed")
    today = page.evaluate("new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium' }).format(new Date())")
    page.keyboard.press("Control+k")
    page.keyboard.type("timbuktu")
    expect(page.get_by_role("option")).to_have_count(1)
    expect(page.get_by_role("option")).to_contain_text(today)
    page.goto("/search?q=timbuktu")
    expect(page.locator(".found-list")).to_contain_text(today)


def test_search_says_when_it_finds_nothing(page: Page) -> None:
    page.get_by_role("link", name="Search").click()
    page.get_by_role("combobox", name="Words to look for").fill("no such words anywhere")
    expect(page.locator("[data-results]")).to_contain_text("Nothing found.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_history_stops_a_run_and_shows_it_live(page: Page) -> None:
    other = page.context.new_page()
    ask(other, SLOW + " for the history")
    page.goto("/history?q=for+the+history&status=running")
    row = page.locator("tr[data-run]")
    expect(row).to_have_count(1)
    row.get_by_role("button", name=re.compile("^Stop")).click()
    wait_for_status(other, "cancelled")
    expect(page.get_by_text("No run matches.")).to_be_visible()


def test_the_inbox_says_that_nothing_waits(open_page: Callable[..., Page]) -> None:
    page = open_page("bob")
    page.get_by_role("link", name="Waiting for you").click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()


def test_the_theme_is_changed_at_once_and_kept(page: Page) -> None:
    def background() -> str:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = background()
    page.locator("details[data-menu] summary").click()
    page.get_by_text("Dark", exact=True).click()
    dark = background()
    assert dark != light
    page.reload()
    assert background() == dark
    page.emulate_media(color_scheme="dark")
    page.locator("details[data-menu] summary").click()
    page.get_by_text("Light", exact=True).click()
    assert background() == light


def test_the_console_speaks_german_where_somebody_wants_it(page: Page) -> None:
    page.goto("/preferences")
    page.get_by_label("Language").select_option("de")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Einstellungen")
    ask(page, SLOW)
    expect(page.locator(".composer [data-stop-active]")).to_contain_text("Stopp")
    expect(page).to_have_title(re.compile("^● Läuft · "))
    page.locator(".composer [data-stop-active]").click()
    wait_for_status(page, "cancelled")
    expect(page.locator("#runs")).to_contain_text("Von Ihnen gestoppt")


def test_a_browser_that_prefers_german_gets_it_unasked(open_page: Callable[..., Page]) -> None:
    page = open_page("bob", locale="de-DE")
    expect(page.locator("h1")).to_have_text("Was können wir für Sie tun?")


def test_what_belongs_to_others_is_not_found(page: Page, open_page: Callable[..., Page], troubles: Troubles) -> None:
    troubles.expect("404")
    conversation = ask(page, "#tokens=2")
    bob = open_page("bob")
    assert bob.goto(f"/c/{conversation}").status == 404
    expect(bob.locator("h1")).to_have_text("Not found")


def test_what_is_written_on_a_page_that_was_left_open_while_signing_out_elsewhere_is_kept(
    page: Page, troubles: Troubles
) -> None:
    """Whoever sends it is asked to sign in, and comes back to it."""
    troubles.expect("401", "WebSocket")
    conversation = ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    page.context.clear_cookies()
    page.fill("#composer-text", "hello?")
    page.press("#composer-text", "Enter")
    page.wait_for_url(f"**/accounts/login/?next=/c/{conversation}")
    sign_in(page, "alice")
    page.goto(f"/c/{conversation}")
    expect(page.locator("#composer-text")).to_have_value("hello?")


def test_the_time_of_a_run_ticks_and_its_steps_are_shown(page: Page) -> None:
    ask(page, SLOW)
    expect(page.locator("#facts")).to_contain_text("of 15 min")
    expect(page.locator("[data-ticking]")).to_have_text(re.compile(r"^[1-9]\d* s$"))
    page.keyboard.press("Escape")
    wait_for_status(page, "cancelled")
    expect(page.locator("#facts")).to_contain_text("Stopped")
    say(page, "#tokens=3")
    expect(page.locator("#facts")).to_contain_text("read, 3 written")


def test_what_changes_while_a_list_is_fetched_is_fetched_as_well(page: Page) -> None:
    """The end of a run that comes in this moment would otherwise not be seen before something else happens."""
    page.goto("/history")
    held = Held(page, "**/history?fragment")
    ring = "document.dispatchEvent(new CustomEvent('overview-changed'))"
    page.evaluate(ring)
    fetching = held.next()
    page.evaluate(ring)
    fetching.continue_()
    held.next().continue_()
