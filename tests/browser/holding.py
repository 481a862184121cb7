"""Requests that are held back until a test lets them go on."""

from playwright.sync_api import Page, Route

from tests.browser.conftest import PATIENCE_MS

LOOK_MS = 10


class Held:
    def __init__(self, page: Page, *addresses: str) -> None:
        self.page = page
        self.routes: list[Route] = []
        for address in addresses:
            page.route(address, lambda route: self.routes.append(route))

    def next(self) -> Route:
        """Waits for it."""
        for _ in range(PATIENCE_MS // LOOK_MS):
            if self.routes:
                return self.routes.pop(0)
            self.page.wait_for_timeout(LOOK_MS)
        raise AssertionError("Nothing was asked for.")
