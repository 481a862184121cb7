"""A site whose agent says what a test tells it to say."""

from collections.abc import Sequence
from dataclasses import dataclass

from playwright.sync_api import Page

from tests.browser.model import Item, Model
from tests.serving import Served

TOOLS = ("give", "work", "fail")


@dataclass
class Scripted:
    site: Served
    model: Model

    def begin(self, page: Page, *answers: Sequence[Item], question: str = "the question") -> str:
        """A new conversation, open on the page; its id."""
        self.model.script(*answers)
        started = self._post(page, "/v1/runs", {"input": question, "agent": "scripted"})
        page.goto(f"/c/{started['conversation_id']}")
        return started["conversation_id"]

    def go_on(self, page: Page, conversation_id: str, *answers: Sequence[Item], question: str = "and then?") -> None:
        """Another run in a conversation, started elsewhere."""
        self.model.script(*answers)
        self._post(page, "/v1/runs", {"input": question, "conversation": conversation_id})

    def _post(self, page: Page, path: str, body: dict[str, str]) -> dict[str, str]:
        token = next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "csrftoken")
        headers = {"X-CSRFToken": token, "Origin": self.site.url}
        answer = page.request.post(self.site.url + path, data=body, headers=headers)
        assert answer.ok, answer.text()
        found: dict[str, str] = answer.json()
        return found


def add_agent(site: Served, model: Model) -> None:
    tools = [part for name in TOOLS for part in ("--tool", name)]
    made = site.manage("create_agent", "scripted", "--base-url", model.url, "--model", "scripted", *tools)
    assert made.returncode == 0, made.stderr
