"""On a phone: the transcript alone, panels that slide over, Stop within reach of a thumb."""

from playwright.sync_api import Page, expect

from tests.browser.people import ask, say, wait_for_status

SLOW = "#tokens=5000 #rate=20"


def overflow(page: Page) -> int:
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_nothing_is_wider_than_the_screen(phone: Page) -> None:
    conversation = ask(phone, "What can you do?")
    wait_for_status(phone, "completed")
    for path in ("/", f"/c/{conversation}", "/inbox", "/history", "/search", "/preferences"):
        phone.goto(path)
        assert overflow(phone) <= 0, path


def test_the_list_slides_over_and_goes_away_again(phone: Page) -> None:
    ask(phone, "#tokens=2")
    wait_for_status(phone, "completed")
    sidebar = phone.locator("#sidebar")
    expect(sidebar).to_be_hidden()
    phone.get_by_role("button", name="Conversations").click()
    expect(sidebar).to_be_visible()
    expect(phone.get_by_role("button", name="Close the list")).to_be_focused()
    phone.keyboard.press("Escape")
    expect(sidebar).to_be_hidden()
    expect(phone.get_by_role("button", name="Conversations")).to_be_focused()
    phone.get_by_role("button", name="Run details").click()
    expect(phone.locator("#inspector")).to_be_visible()
    phone.locator("[data-veil]").click(position={"x": 10, "y": 400})
    expect(phone.locator("#inspector")).to_be_hidden()


def test_stop_is_at_the_top_and_at_the_bottom_and_large_enough(phone: Page) -> None:
    ask(phone, SLOW)
    expect(phone.locator("#runs")).to_contain_text("tok3")
    expect(phone.locator(".bar-stop")).to_be_visible()
    box = phone.locator(".composer [data-stop-active]").bounding_box()
    assert box["height"] >= 44
    assert box["y"] > 844 / 2
    phone.locator(".bar-stop").tap()
    wait_for_status(phone, "cancelled")


def test_a_sentence_to_be_queued_has_the_whole_width(phone: Page) -> None:
    ask(phone, SLOW)
    expect(phone.locator("#runs")).to_contain_text("tok3")
    stop = phone.locator(".composer [data-stop-active]")
    before = stop.bounding_box()
    phone.fill("#composer-text", "And what is the weather like?")
    expect(phone.locator("[data-queue]")).to_be_visible()
    assert phone.locator("#composer-text").bounding_box()["width"] > 300
    assert stop.bounding_box() == before, "Stop stays where it is"
    stop.tap()
    wait_for_status(phone, "cancelled")


def test_fields_do_not_make_the_phone_zoom(phone: Page) -> None:
    ask(phone, "#tokens=2")
    wait_for_status(phone, "completed")
    for field in phone.locator("textarea, input:not([type=hidden]):not([type=radio])").all():
        assert float(field.evaluate("node => parseFloat(getComputedStyle(node).fontSize)")) >= 16, field


def test_a_whole_conversation_works_by_touch(phone: Page) -> None:
    ask(phone, "#tokens=3")
    wait_for_status(phone, "completed")
    say(phone, "#tokens=4")
    wait_for_status(phone, "completed")
    expect(phone.locator("section.run")).to_have_count(2)
