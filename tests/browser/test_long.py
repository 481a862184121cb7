"""Long conversations and busy runs: the page holds a few nodes, the rest comes when it is asked for, and typing stays
light. Nodes and messages are counted instead of milliseconds."""

import subprocess
import sys

import pytest
from playwright.sync_api import APIResponse, Page, Route, WebSocket, expect

from tests.browser.model import Gate
from tests.browser.people import ask, wait_for_status
from tests.browser.scripted import Scripted
from tests.serving import PROJECT

TURNS = 5_000


@pytest.fixture(scope="module")
def long_conversation(scripted: Scripted) -> str:
    """10,000 messages of alice."""
    return plant(scripted, TURNS)


def plant(scripted: Scripted, turns: int) -> str:
    """A conversation of alice with the scripted agent."""
    environment = scripted.site.full_environment
    command = [sys.executable, "-m", "tests.browser.seed_long", "scripted", str(turns)]
    made = subprocess.run(command, cwd=PROJECT, env=environment, check=True, capture_output=True, text=True)
    return made.stdout.strip()


def find_runs(page: Page, conversation: str) -> list[str]:
    """The ids of its last hundred runs, oldest first."""
    answer = page.request.get(f"/v1/runs?conversation={conversation}&limit=100").json()
    return [run["run_id"] for run in reversed(answer["data"])]


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


def test_a_permanent_link_into_the_middle_can_be_read_down_to_the_live_end(reader: Page, scripted: Scripted) -> None:
    conversation = plant(scripted, 100)
    gate = Gate()
    old = find_runs(reader, conversation)[10]
    scripted.go_on(reader, conversation, ["the ", gate, "end"])
    with reader.expect_response("**/newer?**"):
        reader.goto(f"/runs/{old}")
    expect(reader.get_by_text("question 25", exact=True)).to_be_attached()
    expect(reader.locator(f"#{old}")).to_be_in_viewport()
    held: list[tuple[Route, APIResponse]] = []

    def hold_the_last(route: Route) -> None:
        answer = route.fetch()
        if answer.json()["beyond"]:
            route.fulfill(response=answer)
        else:
            held.append((route, answer))

    reader.route("**/newer?**", hold_the_last)
    while not held:
        reader.locator("#transcript").evaluate("box => { box.scrollTop = box.scrollHeight; }")
    # The run goes on between the moment at which its part was read and the moment at which it is shown.
    gate.set()
    wait_for_status(reader, "completed")
    route, answer = held[0]
    assert "the end" not in answer.text()
    route.fulfill(response=answer)
    expect(reader.locator("[data-newer-part]")).to_have_count(0)
    expect(reader.locator(".run").last.locator(".said .b")).to_have_text("the end")
    scripted.go_on(reader, conversation, ["one more"], question="and now?")
    expect(reader.locator(".run").last.locator(".said")).to_contain_text("one more")
    asked = [text.strip() for text in reader.locator("[data-said-by-user]").all_text_contents()]
    assert asked[-92:] == [*(f"question {number}" for number in range(10, 100)), "and then?", "and now?"]
    assert len(set(asked)) == len(asked)


def test_newer_messages_that_cannot_be_loaded_are_offered_again(reader: Page, scripted: Scripted, troubles) -> None:
    troubles.expect("ERR_FAILED", "Failed to load")
    conversation = plant(scripted, 100)
    reader.route("**/newer?**", lambda route: route.abort())
    reader.goto(f"/runs/{find_runs(reader, conversation)[10]}")
    again = reader.get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    reader.unroute("**/newer?**")
    again.click()
    expect(again).to_be_hidden()
    expect(reader.get_by_text("question 25", exact=True)).to_be_attached()


def test_who_writes_in_the_middle_of_a_conversation_is_taken_to_its_end(reader: Page, scripted: Scripted) -> None:
    conversation = plant(scripted, 100)
    reader.goto(f"/runs/{find_runs(reader, conversation)[10]}")
    expect(reader.get_by_text("question 10", exact=True)).to_be_in_viewport()
    scripted.model.script(["an answer"])
    reader.fill("#composer-text", "written in the middle")
    reader.press("#composer-text", "Enter")
    reader.wait_for_url(f"**/c/{conversation}")
    expect(reader.get_by_text("written in the middle", exact=True)).to_be_in_viewport()
    wait_for_status(reader, "completed")


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
