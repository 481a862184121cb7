"""A real browser on a real server. alice and bob own what they start, charlie is staff; their password is "right".

Synchronous, as Playwright's interface: its event loop runs only while these tests do, so that it gets in no other's
way. A page that logs an error, breaks its policy or asks for what is not there fails its test.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    Response,
    ViewportSize,
    sync_playwright,
)

from tests.browser.chromium import FLAGS, find_chromium
from tests.browser.model import Model
from tests.browser.people import sign_in
from tests.browser.scripted import Scripted, add_agent
from tests.serving import PROJECT, Served

DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
# The machine may be busy; a test that waits for something that comes never waits for time.
PATIENCE_MS = 20_000


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
    yield browser
    browser.close()


@pytest.fixture(scope="package")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a site with people, to be copied."""
    data = tmp_path_factory.mktemp("planted") / "data"
    data.mkdir()
    environment = Served(data).full_environment
    subprocess.run([sys.executable, "-m", "tests.browser.seed"], cwd=PROJECT, env=environment, check=True)
    return data


@pytest.fixture(scope="package")
def site(planted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests that do not break it."""
    data = tmp_path_factory.mktemp("browser") / "data"
    shutil.copytree(planted, data)
    site = Served(data, password="known", key="unknown")
    site.start()
    yield site
    code = site.stop()
    assert not site.troubles(), site.log
    assert code == 0


@pytest.fixture
def fresh_site(planted: Path, serve_site: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> Served:
    """A running server of a test's own, to be killed and restarted."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    site = serve_site()
    shutil.copytree(planted, site.data, dirs_exist_ok=True)
    site.password, site.key = "known", "unknown"
    site.start()
    return site


class Troubles(list[str]):
    """What a page complains about; `expect` names what a test provokes."""

    def __init__(self) -> None:
        super().__init__()
        self.expected: list[str] = []

    def expect(self, *parts: str) -> None:
        self.expected += parts

    def watch(self, page: Page) -> None:
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.append(f"script: {error}"))
        page.on("response", self._see)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.append(f"console: {message.text}")

    def _see(self, response: Response) -> None:
        if response.status >= 500:
            self.append(f"{response.status} {response.url}")

    @property
    def unexpected(self) -> list[str]:
        return [line for line in self if not any(part in line for part in self.expected)]


@pytest.fixture
def troubles() -> Iterator[Troubles]:
    troubles = Troubles()
    yield troubles
    assert not troubles.unexpected


@pytest.fixture
def open_context(browser: Browser, troubles: Troubles) -> Iterator[Callable[..., BrowserContext]]:
    """Browsers of their own, with cookies of their own: `open_context(viewport=PHONE, locale="de")`."""
    contexts: list[BrowserContext] = []

    def make(**options: Any) -> BrowserContext:
        options = {"viewport": DESKTOP, "locale": "en-GB", "timezone_id": "Europe/Berlin", **options}
        context = browser.new_context(**options)
        context.set_default_timeout(PATIENCE_MS)
        context.on("page", troubles.watch)
        contexts.append(context)
        return context

    yield make
    for context in contexts:
        context.close()


@pytest.fixture(scope="package")
def cookies() -> dict[tuple[str, str], Any]:
    """With which somebody is signed in at a site: they type their password there once, and not for every test."""
    return {}


@pytest.fixture
def open_page(
    open_context: Callable[..., BrowserContext], site: Served, cookies: dict[tuple[str, str], Any]
) -> Callable[..., Page]:
    """A page of somebody who is signed in: `open_page("bob")`, `open_page("alice", viewport=PHONE)`."""

    def make(name: str = "alice", at: Served | None = None, **options: Any) -> Page:
        url = (at or site).url
        context = open_context(base_url=url, **options)
        context.add_cookies(cookies.get((url, name), []))
        page = context.new_page()
        page.goto("/")
        if not page.locator("[data-conversations]").count():
            sign_in(page, name)
            cookies[url, name] = [one for one in context.cookies() if one["name"] == "sessionid"]
        page.wait_for_load_state()
        return page

    return make


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    """alice at her desk."""
    return open_page("alice")


@pytest.fixture
def phone(open_page: Callable[..., Page]) -> Page:
    """alice on her phone."""
    return open_page("alice", viewport=PHONE, has_touch=True, is_mobile=True)


@pytest.fixture(scope="package")
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.close()


@pytest.fixture(scope="package")
def scripted(planted: Path, model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scripted]:
    """One server for all tests that need a model of their own and do not break the server."""
    data = tmp_path_factory.mktemp("scripted") / "data"
    shutil.copytree(planted, data)
    site = Served(data, {"AGENTSITE_TOOL_MODULES": "tests.browser.tools"}, password="known", key="unknown")
    add_agent(site, model)
    site.start()
    yield Scripted(site, model)
    code = site.stop()
    assert not site.troubles(), site.log
    assert code == 0


@pytest.fixture
def reader(open_page: Callable[..., Page], scripted: Scripted) -> Page:
    """alice on the scripted site."""
    return open_page("alice", at=scripted.site)
