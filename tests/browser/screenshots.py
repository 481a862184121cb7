"""The pictures of the documentation, taken from a real site with a real browser.

    python -m tests.browser.screenshots        what `make screenshots` runs

The site is made for the occasion, with the demo agent; nothing is retouched.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.browser.chromium import FLAGS, find_chromium
from tests.browser.people import ask, sign_in, wait_for_status
from tests.serving import PROJECT, Served

IMAGES = PROJECT / "docs" / "images"
DESK: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
# Everything that moves once has moved; what moves for ever does not count.
SETTLED = """() => Promise.all(
    document.getAnimations().filter((one) => one.effect.getTiming().iterations === 1).map((one) => one.finished)
)"""
CONVERSATIONS = ("What can you do?", "How do I connect a real model?", "What happens when I press Stop?")


def take(browser: Browser, site: Served) -> None:
    page = open_page(browser, site, DESK, "light")
    for text in CONVERSATIONS:
        ask(page, text)
        wait_for_status(page, "completed")
    page.goto("/")
    keep(page, "agents")
    ask(page, "What time is it, and what is 17*23?")
    wait_for_status(page, "completed")
    talk(page)
    keep(page, "console")
    stop(page)
    keep(page, "stopped")
    conversation = page.url
    ask(page, "Send an email to ada@example.com about lunch")
    wait_for_status(page, "requires_approval")
    keep(page, "approval")
    page.goto("/history")
    keep(page, "history")

    dark = open_page(browser, site, DESK, "dark")
    dark.goto(conversation)
    talk(dark)
    keep(dark, "console-dark")
    stop(dark)

    phone = open_page(browser, site, PHONE, "light")
    phone.goto(conversation)
    talk(phone)
    keep(phone, "phone")
    stop(phone)


def open_page(browser: Browser, site: Served, size: ViewportSize, theme: str) -> Page:
    is_phone = size is PHONE
    context = browser.new_context(
        viewport=size,
        device_scale_factor=2 if is_phone else 1,
        color_scheme="dark" if theme == "dark" else "light",
        has_touch=is_phone,
        is_mobile=is_phone,
        base_url=site.url,
        locale="en-GB",
    )
    context.set_default_timeout(20_000)
    page = context.new_page()
    sign_in(page, "alice")
    return page


def talk(page: Page) -> None:
    """A long answer in the middle, and a question that waits."""
    page.fill("#composer-text", "Write a long answer")
    page.press("#composer-text", "Enter")
    wait_for_status(page, "running")
    page.locator("section.run").last.locator("p").nth(1).wait_for()
    page.fill("#composer-text", "And what is 1204 * 0.19?")
    page.press("#composer-text", "Enter")
    page.locator("#queue li").wait_for()


def stop(page: Page) -> None:
    page.get_by_role("button", name="Remove the queued message").click()
    page.locator("#queue").wait_for(state="hidden")
    page.locator(".composer [data-stop-active]").click()
    wait_for_status(page, "cancelled")
    page.locator("[data-conversations] [data-status=running]").wait_for(state="detached")


def keep(page: Page, name: str) -> None:
    page.evaluate(SETTLED)
    page.screenshot(path=IMAGES / f"{name}.png")
    print(f"docs/images/{name}.png")


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        site = Served(Path(folder) / "data", password="known", key="unknown")
        site.data.mkdir()
        environment = site.full_environment
        subprocess.run([sys.executable, "-m", "tests.browser.seed"], cwd=PROJECT, env=environment, check=True)
        site.start()
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
                take(browser, site)
                browser.close()
        finally:
            site.stop()


if __name__ == "__main__":
    main()
