"""From SQLite to PostgreSQL, by the commands of docs/deployment.md: everything is still there, and works."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.faults.calling import Caller
from tests.gateway.fake_model import Call, serve_fake_model
from tests.postgres import new_database, running_postgres
from tests.serving import PROJECT, Served


@pytest.fixture
def empty_database() -> Iterator[str]:
    """The address of one in a PostgreSQL: the suite's own, or in the half without one another."""
    with ExitStack() as stack:
        server = os.environ.get("DATABASE_URL") or stack.enter_context(running_postgres())
        yield stack.enter_context(new_database(server))


def dump(site: Served) -> str:
    """What the documented command writes."""
    command = re.search(r"manage\.py (dumpdata .*) > site\.json", (PROJECT / "docs/deployment.md").read_text())
    assert command is not None
    dumped = site.manage(*command[1].split())
    assert dumped.returncode == 0, dumped.stderr
    return dumped.stdout


async def test_a_site_moves_with_its_people_keys_conversations_and_open_questions(
    empty_database: str, serve_site: Callable[..., Served]
) -> None:
    site = serve_site(DATABASE_URL="")

    async def answer(call: Call) -> None:
        await call.say(f"I read {len(call.body['messages'])} with {call.request.headers['Authorization']}.")

    async with serve_fake_model() as model:
        model.script = answer
        made = site.manage(*f"create_agent helper --base-url {model.url} --model m --api-key s3cret".split())
        assert made.returncode == 0, made.stderr
        site.start()
        async with Caller(site) as caller:
            asked = await caller.start("hello", agent="helper")
            before = await caller.log(asked)
            open_question = await caller.start("Send an email to ada@example.com about lunch", agent="demo")
            await caller.see(open_question, lambda seen: seen[-1].type == "approval.requested")
            _, questions = await caller.ask("GET", "/v1/approvals?status=pending")
        assert site.stop() == 0

        fixture = site.data / "site.json"
        fixture.write_text(dump(site))
        site.environment["DATABASE_URL"] = empty_database
        for command in (["migrate"], ["loaddata", str(fixture)]):
            done = site.manage(*command)
            assert done.returncode == 0, done.stderr
        site.start()

        async with Caller(site) as caller:
            assert await caller.log(asked) == before
            again = await caller.start("and again", conversation=asked.conversation_id)
            await caller.log(again)
            assert (await caller.messages(again))[-1]["content"] == "I read 3 with Bearer s3cret."

            _, kept = await caller.ask("GET", "/v1/approvals?status=pending")
            assert [(one["arguments"], one["schema"]) for one in kept["data"]] == [
                (one["arguments"], one["schema"]) for one in questions["data"]
            ]
            decision = {"tool_call_id": kept["data"][0]["tool_call_id"], "approve": True}
            path = f"/v1/runs/{open_question.run_id}/approvals"
            assert (await caller.ask("POST", path, {"decisions": [decision]}))[0] == 202
            assert (await caller.log(open_question))[-1].type == "run.completed"
