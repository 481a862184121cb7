"""What people do on the pages."""

from playwright.sync_api import Page, expect

expect.set_options(timeout=20_000)


def sign_in(page: Page, name: str, password: str = "right") -> None:
    page.goto("/accounts/login/")
    page.fill("#id_username", name)
    page.fill("#id_password", password)
    page.click("button:has-text('Sign in'), button:has-text('Anmelden')")
    page.wait_for_selector("[data-conversations]", state="attached")
    page.wait_for_load_state()


def ask(page: Page, text: str) -> str:
    """Begin a conversation from the front page; its id."""
    page.goto("/")
    page.fill("#opening-text", text)
    page.press("#opening-text", "Enter")
    page.wait_for_url("**/c/conv_*")
    return page.url.rpartition("/")[2]


def say(page: Page, text: str) -> None:
    """Send something in the open conversation, or queue it."""
    page.fill("#composer-text", text)
    page.press("#composer-text", "Enter")
    expect(page.locator("#composer-text")).to_have_value("")


def wait_for_status(page: Page, status: str) -> None:
    expect(page.locator("[data-status-word]")).to_have_attribute("data-status", status)
