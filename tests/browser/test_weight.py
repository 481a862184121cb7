"""The first page is light: under 100 KB of scripts and styles together, nothing from elsewhere."""

from playwright.sync_api import Page, Response

from tests.browser.people import ask, wait_for_status

MOST_BYTES = 100_000


def test_scripts_and_styles_of_the_first_page_and_of_a_conversation_weigh_little(page: Page) -> None:
    ask(page, "#tokens=2")
    wait_for_status(page, "completed")
    conversation = page.url
    for address in ("/", conversation):
        weights: dict[str, int] = {}

        def weigh(response: Response, weights: dict[str, int] = weights) -> None:
            if response.request.resource_type in ("script", "stylesheet"):
                weights[response.url] = len(response.body())

        page.on("response", weigh)
        page.goto(address, wait_until="networkidle")
        page.remove_listener("response", weigh)
        assert len(weights) > 10, "they were counted"
        assert sum(weights.values()) < MOST_BYTES, weights


def test_nothing_is_loaded_from_elsewhere(page: Page) -> None:
    hosts = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    ask(page, "What can you do?")
    wait_for_status(page, "completed")
    assert len(hosts) == 1
