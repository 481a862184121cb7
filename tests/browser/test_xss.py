"""Safety: nothing that a model, a tool or a person says can run in the page or load from elsewhere. That the browser
complains about nothing (a broken policy would be such a complaint) is checked after every test here."""

import json

from playwright.sync_api import Dialog, Page, Request, expect

from tests.browser.model import Call, Gate, Refusal
from tests.browser.people import wait_for_status
from tests.browser.scripted import Scripted
from tests.runs.xss import ATTACKS

EVERYTHING = "\n\n".join(ATTACKS)
FORBIDDEN = "script, iframe, object, embed, meta, base, link, style, video, [onerror], [onload], [style]"


class Watch:
    """What must not happen while a page is open."""

    def __init__(self, page: Page, scripted: Scripted) -> None:
        self.page = page
        self.dialogs: list[str] = []
        self.elsewhere: list[str] = []
        self.own = (scripted.site.url, scripted.site.url.replace("http", "ws"), "data:")
        page.on("dialog", self._hear)
        page.on("request", self._see)

    def _hear(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _see(self, request: Request) -> None:
        if not request.url.startswith(self.own):
            self.elsewhere.append(request.url)

    def check(self) -> None:
        expect(self.page.locator("#runs").locator(FORBIDDEN)).to_have_count(0)
        expect(self.page.locator("[data-transcript]")).to_have_count(1)
        for link in self.page.locator("#runs a").evaluate_all("links => links.map(link => link.protocol)"):
            assert link in ("http:", "https:", "mailto:")
        sources = self.page.locator("#runs img").evaluate_all("images => images.map(image => image.src)")
        assert all(source.startswith("data:image/") for source in sources)
        assert (self.dialogs, self.elsewhere) == ([], [])


def test_what_a_model_says_does_nothing_live_or_after_a_reload(reader: Page, scripted: Scripted) -> None:
    watch, gate = Watch(reader, scripted), Gate()
    pieces = [EVERYTHING[start : start + 11] for start in range(0, len(EVERYTHING), 11)]
    scripted.begin(reader, [*pieces[:100], gate, *pieces[100:]])
    expect(reader.locator(".said")).to_contain_text("<script>")
    watch.check()
    gate.set()
    wait_for_status(reader, "completed")
    expect(reader.locator(".said")).to_contain_text("click me")
    watch.check()
    reader.reload()
    expect(reader.locator(".said")).to_contain_text("click me")
    watch.check()


def test_what_a_tool_is_given_and_gives_back_does_nothing(reader: Page, scripted: Scripted) -> None:
    watch = Watch(reader, scripted)
    parts = json.dumps([{"type": "image", "url": "https://evil.example/x.png"}, {"type": "text", "text": EVERYTHING}])
    calls = [Call("give", text=EVERYTHING), Call("give", text=parts), Call("fail", text=EVERYTHING)]
    calls.append(Call("<img src=x onerror=alert(1)>", **{"<script>alert(1)</script>": EVERYTHING}))
    scripted.begin(reader, ["", *calls], ["There."])
    wait_for_status(reader, "completed")
    for card in reader.locator(".tool").all():
        card.evaluate("card => card.open = true")
    expect(reader.locator(".tool-body").first).to_contain_text("onerror")
    watch.check()


def test_what_a_person_says_does_nothing(reader: Page, scripted: Scripted) -> None:
    watch = Watch(reader, scripted)
    scripted.begin(reader, [Refusal(400)], question=EVERYTHING)
    wait_for_status(reader, "failed")
    expect(reader.locator("[data-said-by-user]")).to_contain_text("<script>alert(1)</script>")
    watch.check()


def test_the_policy_forbids_what_should_ever_get_through(page: Page, troubles) -> None:
    """The last fence: even a script that stood in the page would not run, and a picture from elsewhere not load."""
    policy = page.goto("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy or "default-src 'self'" in policy
    assert "unsafe" not in policy
    troubles.expect("Content Security Policy")
    page.evaluate(
        "document.body.append(document.createRange().createContextualFragment("
        "'<script>window.ran = 1<' + '/script><img src=\"https://elsewhere.example/x.png\">'))"
    )
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in line for line in troubles)
