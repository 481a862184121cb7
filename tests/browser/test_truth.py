"""Truth after anything: a page shows exactly what the log holds, without gaps or repeats."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Troubles
from tests.browser.model import Call, Gate, Model
from tests.browser.people import wait_for_status
from tests.browser.scripted import Scripted, add_agent
from tests.serving import Served

FIRST = [f"one{number} " for number in range(50)]
SECOND = [f"two{number} " for number in range(50)]
WHOLE = "".join([*FIRST, *SECOND]).strip()


def shown(page: Page) -> str:
    """All that stands in the transcript, without what is different by nature."""
    html: str = page.locator("#runs").evaluate("node => node.outerHTML")
    return re.sub(r"\s*([<>])\s*", r"\1", re.sub(r' (data-touched="yes"|open="")', "", html))


def expect_truth(page: Page) -> None:
    """What is on the page is what a reload shows."""
    expect(page.locator(".said .foot").last).to_be_visible()
    before = shown(page)
    page.reload()
    assert shown(page) == before


def test_a_reload_in_the_middle_changes_nothing(reader: Page, scripted: Scripted) -> None:
    gate = Gate()
    scripted.begin(reader, [*FIRST, gate, *SECOND])
    said = reader.locator(".said .b")
    expect(said).to_have_text("".join(FIRST).strip())
    for _ in range(3):
        reader.reload()
        expect(said).to_have_text("".join(FIRST).strip())
    gate.set()
    expect(said).to_have_text(WHOLE)
    wait_for_status(reader, "completed")
    expect_truth(reader)


def test_two_tabs_and_another_device_stay_in_step(
    reader: Page, scripted: Scripted, open_page: Callable[..., Page]
) -> None:
    gate, later = Gate(), Gate()
    scripted.begin(reader, [*FIRST, gate, "**then** ", Call("give", text="x")], ["Ende.", later])
    tab = reader.context.new_page()
    device = open_page("alice", at=scripted.site)
    for page in (tab, device):
        page.goto(reader.url)
        expect(page.locator(".said .b")).to_have_text("".join(FIRST).strip())
    gate.set()
    pages = (reader, tab, device)
    for page in pages:
        expect(page.locator(".said").last).to_contain_text("Ende.")
    later.set()
    for page in pages:
        wait_for_status(page, "completed")
        expect(page.locator(".said .foot").last).to_be_visible()
    assert shown(reader) == shown(tab) == shown(device)
    expect_truth(reader)


def test_a_run_that_begins_elsewhere_appears(reader: Page, scripted: Scripted) -> None:
    conversation = scripted.begin(reader, ["first answer"])
    wait_for_status(reader, "completed")
    scripted.go_on(reader, conversation, ["second answer"])
    expect(reader.locator(".said")).to_have_text([re.compile("first answer"), re.compile("second answer")])
    expect_truth(reader)


def test_a_lost_network_comes_back_by_itself(reader: Page, scripted: Scripted, troubles: Troubles) -> None:
    """Nothing for two seconds, then a bar; afterwards the bar is gone and the text complete."""
    troubles.expect("ERR_INTERNET_DISCONNECTED", "WebSocket")
    gate = Gate()
    scripted.begin(reader, [*FIRST, gate, *SECOND])
    expect(reader.locator(".said .b")).to_have_text("".join(FIRST).strip())
    bar = reader.locator("[data-connection]")
    expect(bar).to_be_hidden()
    reader.context.set_offline(True)
    expect(bar).to_be_visible()
    gate.set()
    reader.context.set_offline(False)
    expect(bar).to_be_hidden()
    expect(reader.locator(".said .b")).to_have_text(WHOLE)
    wait_for_status(reader, "completed")
    expect_truth(reader)


def test_whoever_was_signed_out_meanwhile_is_sent_to_sign_in(
    reader: Page, scripted: Scripted, troubles: Troubles
) -> None:
    troubles.expect("WebSocket", "ERR_INTERNET_DISCONNECTED")
    scripted.begin(reader, ["an answer"])
    wait_for_status(reader, "completed")
    reader.context.set_offline(True)
    reader.context.clear_cookies()
    reader.context.set_offline(False)
    reader.wait_for_url("**/accounts/login/**")


@pytest.fixture
def breakable(planted: Path, serve_site: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """A site with a model of its own, to be killed and restarted."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    site, model = serve_site(AGENTSITE_TOOL_MODULES="tests.browser.tools"), Model()
    shutil.copytree(planted, site.data, dirs_exist_ok=True)
    site.password, site.key = "known", "unknown"
    add_agent(site, model)
    site.start()
    yield Scripted(site, model)
    model.close()


def test_a_server_that_is_killed_in_the_middle_costs_nothing(
    breakable: Scripted, open_page: Callable[..., Page], troubles: Troubles
) -> None:
    """T4, T5: the run goes on where it was, nothing is shown twice, and the page comes back by itself."""
    troubles.expect("WebSocket", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
    page = open_page("alice", at=breakable.site)
    gate = Gate()
    breakable.begin(page, [*FIRST, gate])
    expect(page.locator(".said .b")).to_have_text("".join(FIRST).strip())
    breakable.site.kill()
    expect(page.locator("[data-connection]")).to_be_visible()
    expect(page.locator(".said .b")).to_have_text("".join(FIRST).strip())
    breakable.model.script([*FIRST, *SECOND])
    breakable.site.start()
    expect(page.locator("[data-connection]")).to_be_hidden()
    expect(page.locator(".said .b")).to_have_text(WHOLE)
    wait_for_status(page, "completed")
    gate.set()
    expect_truth(page)


def test_a_server_that_is_restarted_in_a_tool_tells_how_that_ended(
    breakable: Scripted, open_page: Callable[..., Page], troubles: Troubles
) -> None:
    """T4: a call that had begun is not executed again, and the page says so."""
    troubles.expect("WebSocket", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
    page = open_page("alice", at=breakable.site)
    breakable.begin(page, ["Now.", Call("work")], ["So be it."])
    expect(page.locator(".tool-progress")).to_contain_text("Half of it is done")
    breakable.site.kill()
    breakable.site.start()
    expect(page.locator(".tool")).to_have_attribute("data-state", "interrupted")
    expect(page.locator(".said").last).to_contain_text("So be it.")
    wait_for_status(page, "completed")
    expect_truth(page)
