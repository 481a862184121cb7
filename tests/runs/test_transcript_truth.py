"""What was on the page, and what came since, is what a reload shows: after every event, however they come together, and
wherever a page loses its connection."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from runs import actions, events
from runs.console_socket import Watch
from runs.events import Line
from runs.models import Event, Run, Status, StopReason
from runs.transcript.page import open_transcript
from tests.factories import end_run, make_agent, make_run, start_run, store_event
from tests.runs.dom import Page

Told = tuple[str, dict[str, Any]]

ANSWER = """\
# Result

The *answer* is **42**, as [shown](https://example.com):

1. one
2. two

```python
answer = 6 * 7
print(answer)
```

Done, see [there].

[there]: https://example.com/there"""


def tool_calls(*calls: tuple[str, str, str]) -> list[dict[str, Any]]:
    return [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in calls
    ]


def pieces(type: str, text: str, size: int) -> Iterator[Told]:
    for start in range(0, len(text), size):
        yield type, {"text": text[start : start + size]}


def completed(text: str, **more: Any) -> Told:
    return events.MESSAGE_COMPLETED, {"message_id": "msg_1", "position": 2, "text": text, **more}


def started(id: str, name: str) -> Told:
    return events.TOOL_STARTED, {"tool_call_id": id, "name": name, "arguments": "{}"}


def done(id: str, name: str, result: str, **more: Any) -> Told:
    payload = {"tool_call_id": id, "name": name, "result": result, "is_error": False, "state": "finished"}
    return events.TOOL_COMPLETED, {**payload, "seconds": 0.2, **more}


def a_talk() -> list[Told]:
    return [*pieces(events.MESSAGE_DELTA, ANSWER, 7), completed(ANSWER)]


def a_thought() -> list[Told]:
    return [
        *pieces(events.REASONING_DELTA, "Let me **think** about it.\n\nThat is easy.", 9),
        *pieces(events.MESSAGE_DELTA, "It is 42.", 4),
        completed("It is 42."),
    ]


def second_thoughts() -> list[Told]:
    """A model that goes on thinking after it has said something."""
    return [
        (events.REASONING_DELTA, {"text": "first "}),
        (events.MESSAGE_DELTA, {"text": "Well, "}),
        (events.REASONING_DELTA, {"text": "second"}),
        (events.MESSAGE_DELTA, {"text": "yes."}),
        completed("Well, yes."),
    ]


def tools() -> list[Told]:
    calls = tool_calls(("c1", "calculator", '{"expression": "6*7"}'), ("c2", "wait", "{}"), ("c3", "broken", "rubbish"))
    chart = {"type": "chart", "kind": "bar", "labels": ["a", "b"], "series": [{"name": "x", "values": [1, 2]}]}
    return [
        (events.MESSAGE_DELTA, {"text": "I look."}),
        completed("I look.", tool_calls=calls),
        started("c1", "calculator"),
        done("c1", "calculator", "42"),
        started("c2", "wait"),
        (events.TOOL_POSTPONED, {"tool_call_id": "c2", "name": "wait"}),
        started("c2", "wait"),
        (events.TOOL_PROGRESS, {"tool_call_id": "c2", "name": "wait", "text": "half", "fraction": 0.5}),
        (events.TOOL_PROGRESS, {"tool_call_id": "c2", "name": "wait", "text": "nearly", "fraction": 0.9}),
        done("c2", "wait", json.dumps(chart)),
        started("c3", "broken"),
        done("c3", "broken", "It broke.", is_error=True),
        *pieces(events.MESSAGE_DELTA, "42, then.", 3),
        completed("42, then."),
    ]


def retries() -> list[Told]:
    error = {"error_type": "llm_error", "message": "502"}
    return [
        (events.MESSAGE_DELTA, {"text": "Once upon"}),
        (events.RETRY_SCHEDULED, {"number": 1, "seconds": 0.5, "error": error}),
        completed("Once upon", partial=True),
        (events.MODEL_CHANGED, {"from": "a", "to": "b", "reason": "a does not answer"}),
        (events.MESSAGE_DELTA, {"text": "Another"}),
        completed("Another"),
    ]


def requested(id: str, to: str) -> Told:
    schema = {
        "type": "object",
        "properties": {"to": {"type": "string"}, "copies": {"type": "integer"}},
        "required": ["to"],
    }
    payload = {"tool_call_id": id, "name": "send_email", "arguments": {"to": to}, "schema": schema}
    return events.APPROVAL_REQUESTED, {**payload, "description": "Sends it.", "expires_at": None, "on_expiry": "deny"}


def decided(id: str, decision: str, **more: Any) -> Told:
    payload = {
        "tool_call_id": id,
        "name": "send_email",
        "decision": decision,
        "edited": False,
        "arguments": {"to": "x"},
    }
    how = {"reason": "", "decided_by": "bob", "decided_via": "console", "decided_at": "2026-01-01T12:00:00+00:00"}
    return events.APPROVAL_DECIDED, {**payload, **how, **more}


def approvals() -> list[Told]:
    calls = tool_calls(*((f"c{number}", "send_email", '{"to": "x"}') for number in (1, 2)))
    return [
        (events.MESSAGE_DELTA, {"text": "May I?"}),
        completed("May I?", tool_calls=calls),
        requested("c1", "alice"),
        requested("c2", "bob"),
        decided("c1", "approved", edited=True),
        decided("c2", "denied", reason="too early"),
        (events.RUN_STARTED, {"agent": "agent", "model": "scripted", "attempt": 2, "agent_version": 1}),
        started("c1", "send_email"),
        done("c1", "send_email", "sent"),
        done("c2", "send_email", "Denied.", is_error=True, state="not_started", seconds=None),
        (events.MESSAGE_DELTA, {"text": "Sent one."}),
        completed("Sent one."),
    ]


STORIES = [a_talk, a_thought, second_thoughts, tools, retries, approvals]
RECEIPT = {"requested_by": "alice", "requested_via": "api", "requested_at": "2026-01-01T12:00:00+00:00"}
FAILURE = {"error_type": "llm_authentication", "message": "401", "detail": ""}
ENDS: dict[str, dict[str, Any]] = {
    "completed": {},
    "stopped": {"status": Status.CANCELLED, "stop_reason": StopReason.CANCELLED, "receipt": RECEIPT},
    "failed": {"status": Status.FAILED, "stop_reason": StopReason.ERROR, "error": FAILURE},
    "limit": {"stop_reason": StopReason.MAX_STEPS},
}


class Reader:
    """A page that is open since some moment, and whose connection breaks now and then."""

    def __init__(self, run: Run, user: User, patience: int, chance: random.Random) -> None:
        self.run, self.user, self.patience, self.chance = run, user, patience, chance
        transcript = open_transcript(run.conversation, user)
        self.page = Page(transcript.html, transcript.after)
        self.waiting: list[Line] = []
        self.connect()

    def connect(self) -> None:
        self.watch = Watch(self.run.conversation, self.user, "en", self.page.after)
        self.page.take(json.loads(self.watch.open()))
        last = self.page.seen.get(self.run.public_id, 0)
        log = Event.objects.filter(run=self.run, seq__gt=last).order_by("seq")
        self.waiting = [Line(*row) for row in log.values_list("seq", "type", "line")]

    def hear(self, event: Event) -> None:
        self.waiting.append(Line(event.seq, event.type, event.line))
        if len(self.waiting) >= self.patience:
            self.catch_up()
            if self.chance.random() < 0.2:
                self.connect()

    def catch_up(self) -> None:
        for frame in self.watch.take(self.waiting):
            self.page.take(json.loads(frame))
        self.waiting = []

    def check(self) -> None:
        self.catch_up()
        fresh = open_transcript(self.run.conversation, self.user)
        assert str(self.page) == str(Page(fresh.html, fresh.after))


@pytest.fixture
def alice(db: None) -> User:
    make_agent()
    return User.objects.create_user("alice")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_page_that_was_open_shows_what_a_reload_shows(alice: User, story: Any, end: str) -> None:
    chance = random.Random(f"{story.__name__} {end}")
    run = make_run(alice, "the question")
    early = Reader(run, alice, 1, chance)
    early.check()
    run = start_run(run)
    early.connect()
    readers = [early, Reader(run, alice, 1, chance), Reader(run, alice, 4, chance)]
    for kind, payload in story():
        event = store_event(run, kind, **payload)
        if chance.random() < 0.2:
            readers.append(Reader(run, alice, chance.randrange(1, 6), chance))
        for reader in readers:
            if event.seq > max([line.seq for line in reader.waiting], default=reader.page.seen[run.public_id]):
                reader.hear(event)
        readers[1].check()
    end_run(run, "", **ENDS[end])
    last = Event.objects.filter(run=run).latest("seq")
    for reader in readers:
        reader.hear(last)
        reader.check()
    assert "the question" in readers[0].page.runs.text


def test_what_waits_behind_a_run_appears_when_its_turn_comes(alice: User) -> None:
    first = start_run(make_run(alice, "first question"))
    second = make_run(alice, "second question", conversation_id=first.conversation.public_id)
    reader = Reader(first, alice, 1, random.Random(0))
    assert "second question" not in reader.page.runs.text
    assert reader.watch._state()["queued"][0]["text"] == "second question"
    end_run(first)
    reader.hear(Event.objects.filter(run=first).latest("seq"))
    assert "second question" in reader.page.runs.text
    second = start_run(second)
    for event in Event.objects.filter(run=second, seq__gt=1):
        reader.hear(event)
    reader.check()
    assert reader.watch._state()["active"] == second.public_id
    assert reader.watch._state()["queued"] == []


def test_a_waiting_message_that_is_removed_is_gone_from_every_page(alice: User) -> None:
    first = start_run(make_run(alice, "first question"))
    order = {"conversation_id": first.conversation.public_id}
    second, third = make_run(alice, "second question", **order), make_run(alice, "third question", **order)
    reader = Reader(first, alice, 1, random.Random(0))
    for run in (second, third):
        actions.withdraw_run(run.pk, by="alice", via="console")
        reader.hear(Event.objects.filter(run=run).latest("seq"))
        reader.check()
    assert reader.watch._state()["queued"] == []
    end_run(first)
    reader.hear(Event.objects.filter(run=first).latest("seq"))
    reader.check()
    assert reader.watch._state()["run"]["id"] == first.public_id
    assert "first question" in reader.page.runs.text
    assert "second question" not in reader.page.runs.text


def test_a_page_that_shows_a_run_which_is_taken_back_loads_itself_again(alice: User) -> None:
    run = make_run(alice, "taken back")
    watch = Watch(run.conversation, alice, "en", {run.public_id: 1})
    watch.open()
    actions.withdraw_run(run.pk, by="alice", via="api")
    last = Event.objects.filter(run=run).latest("seq")
    assert [json.loads(frame) for frame in watch.take([Line(last.seq, last.type, last.line)])] == [{"reload": True}]
    assert "taken back" not in open_transcript(run.conversation, alice).html


def test_a_waiting_run_that_is_stopped_is_told_with_who_stopped_it(alice: User) -> None:
    """C12"""
    first = start_run(make_run(alice, "first question"))
    second = make_run(alice, "second question", conversation_id=first.conversation.public_id)
    reader = Reader(first, alice, 1, random.Random(0))
    actions.request_stop(second.pk, by="alice", via="console")
    reader.hear(Event.objects.filter(run=second).latest("seq"))
    assert "Stopped by you" in reader.page.runs.text
    assert "before it began" in reader.page.runs.text
    assert reader.watch._state()["active"] == first.public_id
    reader.check()


def test_a_message_that_is_removed_keeps_its_place_and_leaves_the_status_to_what_was_answered(alice: User) -> None:
    """C12"""
    first = start_run(make_run(alice, "first question"))
    second = make_run(alice, "second question", conversation_id=first.conversation.public_id)
    third = make_run(alice, "third question", conversation_id=first.conversation.public_id)
    reader = Reader(first, alice, 1, random.Random(0))
    actions.request_stop(third.pk, by="alice", via="console")
    reader.hear(Event.objects.filter(run=third).latest("seq"))
    late = Reader(first, alice, 1, random.Random(0))
    end_run(first)
    end_run(start_run(second))
    for one in (reader, late):
        one.hear(Event.objects.filter(run=first).latest("seq"))
        for event in Event.objects.filter(run=second, seq__gt=1):
            one.hear(event)
    for one in (reader, late, Reader(first, alice, 1, random.Random(0))):
        one.check()
        assert one.page.runs.text.index("second question") < one.page.runs.text.index("third question")
        state = one.watch._state()["run"]
        assert (state["id"], state["status"]) == (second.public_id, "completed")
    opened = open_transcript(first.conversation, alice).state["run"]
    assert (opened["id"], opened["status"]) == (second.public_id, "completed")


def test_no_model_is_in_the_timeline_after_a_tool_that_was_cut_off(alice: User) -> None:
    run = start_run(make_run(alice))
    call = {"tool_call_id": "call_1", "name": "wait"}
    store_event(run, events.TOOL_STARTED, **call, arguments={"seconds": 20})
    store_event(run, events.RUN_STOPPING, requested_by="alice", requested_via="console")
    store_event(run, events.TOOL_COMPLETED, **call, result="", state="interrupted")
    end_run(run, **ENDS["stopped"])
    timeline = open_transcript(run.conversation, alice).state["run"]["timeline"]
    assert [span["kind"] for span in timeline][-1] == "tool"


def test_the_timeline_tells_of_each_call_what_its_card_tells(alice: User) -> None:
    """Also of several calls of one tool, in whatever order they end."""
    run = start_run(make_run(alice))
    calls = [{"tool_call_id": f"call_{number}", "name": "wait"} for number in range(3)]
    for call in calls:
        store_event(run, events.TOOL_STARTED, **call, arguments={})
    for seconds, call in zip((0.002, 5.0, None), calls, strict=True):
        store_event(run, events.TOOL_COMPLETED, **call, result="", state="finished", seconds=seconds)
    first, second, third = open_transcript(run.conversation, alice).state["run"]["timeline"][-4:-1]
    assert (first["seconds"], second["seconds"]) == (0.002, 5.0)
    assert third["seconds"] < 5


def test_a_page_that_was_away_for_long_is_told_to_load_itself_again(alice: User) -> None:
    first = end_run(start_run(make_run(alice)))
    for _ in range(51):
        end_run(start_run(make_run(alice, conversation_id=first.conversation.public_id)))
    watch = Watch(first.conversation, alice, "en", {first.public_id: 3})
    assert json.loads(watch.open()) == {"reload": True}
