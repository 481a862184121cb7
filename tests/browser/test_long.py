"""Long conversations and busy runs: the page holds a few nodes, the rest comes when it is asked for, and typing stays
light. Nodes and messages are counted instead of milliseconds."""

import subprocess
import sys

import pytest
from playwright.sync_api import Page, WebSocket, expect

from tests.browser.model import Gate
from tests.browser.people import ask, wait_for_status
from tests.browser.scripted import Scripted
from tests.serving import PROJECT

TURNS = 5_000


@pytest.fixture(scope="module")
def long_conversation(scripted: Scripted) -> str:
    """10,000 messages of alice."""
    environment = scripted.site.full_environment
    command = [sys.executable, "-m", "tests.browser.seed_long", str(TURNS)]
    made = subprocess.run(command, cwd=PROJECT, env=environment, check=True, capture_output=True, text=True)
    return made.stdout.strip()


def test_ten_thousand_messages_open_with_a_few_nodes_and_can_be_read_upwards(
    reader: Page, scripted: Scripted, long_conversation: str
) -> None:
    response = reader.goto(f"/c/{long_conversation}")
    assert response is not None
    assert len(response.body()) < 300_000
    expect(reader.get_by_text(f"answer {TURNS - 1}.")).to_be_in_viewport()
    assert reader.locator("#runs *").count() < 2_000
    first = reader.locator(".run").first.get_attribute("id") or ""
    box = reader.locator("#transcript")
    with reader.expect_response("**/older?**"):
        box.evaluate("box => { box.scrollTop = 300; }")
        read = box.evaluate("box => document.elementFromPoint(600, 300).closest('.run').id")
    expect(reader.locator(".run").first).not_to_have_id(first)
    # What was read stays where it was, although something was put above it.
    expect(reader.locator(f"#{read}")).to_be_in_viewport()
    assert box.evaluate("box => box.scrollTop") > 1_000


def test_older_messages_that_cannot_be_loaded_are_offered_again(
    reader: Page, scripted: Scripted, long_conversation: str, troubles
) -> None:
    troubles.expect("ERR_FAILED", "Failed to load")
    reader.goto(f"/c/{long_conversation}")
    expect(reader.get_by_text(f"answer {TURNS - 1}.")).to_be_in_viewport()
    reader.route("**/older?**", lambda route: route.abort())
    reader.locator("#transcript").evaluate("box => { box.scrollTop = 0; }")
    again = reader.get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    reader.unroute("**/older?**")
    count = reader.locator(".run").count()
    again.click()
    expect(again).to_be_hidden()
    expect(reader.locator(".run").nth(count)).to_be_attached()


def test_ten_thousand_tokens_cost_few_updates_of_few_nodes(reader: Page, scripted: Scripted) -> None:
    """Each frame changes a handful of nodes, and what is finished is not touched again: so typing is not slowed down,
    however much comes."""
    frames: list[str] = []

    def hear(socket: WebSocket) -> None:
        if "/ws/console/" in socket.url:
            socket.on("framereceived", lambda payload: frames.append(str(payload)))

    reader.on("websocket", hear)
    gate = Gate()
    words = [f"word{number}{'.' if number % 50 else '.' + chr(10) * 2} " for number in range(10_000)]
    scripted.begin(reader, [gate, *words])
    expect(reader.locator("[data-now=thinking]")).to_be_visible()
    gate.set()
    reader.locator("#composer-text").press_sequentially("typed while it comes")
    wait_for_status(reader, "completed")
    expect(reader.locator("#composer-text")).to_have_value("typed while it comes")
    expect(reader.locator(".said")).to_contain_text("word9999.")
    text = "".join(frames)
    assert len(frames) < 2_000
    assert text.count('"put"') < 4_000
    assert reader.locator("#runs *").count() < 1_000
    assert reader.locator(".said .b").count() >= 200


def test_a_run_with_very_many_events_opens_as_quickly_as_another(page: Page) -> None:
    ask(page, "#tokens=10000")
    wait_for_status(page, "completed")
    page.reload()
    expect(page.locator(".said")).to_contain_text("tok9999")
    assert page.locator("#runs *").count() < 60
