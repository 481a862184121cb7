"""The parts of a conversation that a page shows: bounded, complete for who scrolls up, and nobody else's."""

import json
from datetime import UTC, datetime, timedelta
from unittest import mock

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from runs import actions, events
from runs.actions import Decision
from runs.models import Event, Run, Status, StopReason
from runs.transcript.folding import Fold
from runs.transcript.page import WINDOW, open_transcript, read_newer, read_older
from tests.factories import answered_turns, end_run, make_agent, make_run, start_run, store_event, waiting_run
from tests.runs.dom import Page


@pytest.fixture
def alice(db: None) -> User:
    make_agent()
    return User.objects.create_user("alice")


@pytest.fixture
def as_alice(alice: User, client: Client) -> Client:
    client.force_login(alice)
    return client


def say(run: Run, text: str, **more: object) -> None:
    store_event(run, events.MESSAGE_COMPLETED, message_id="msg_1", position=1, text=text, **more)


def answered_run(user: User, question: str, answer: str, **order: object) -> Run:
    run = start_run(make_run(user, question, **order))
    say(run, answer)
    return end_run(run, answer)


def test_ten_thousand_messages_cost_no_more_than_a_few(alice: User) -> None:
    """The number of nodes, bytes and queries is bounded, so that the time is."""
    short, long = answered_turns(alice, 30), answered_turns(alice, 5000)
    with CaptureQueriesContext(connection) as few:
        shown = open_transcript(short, alice)
    with CaptureQueriesContext(connection) as many:
        transcript = open_transcript(long, alice)
    assert len(many) == len(few) <= 12
    page = Page(transcript.html, transcript.after)
    assert sum(1 for _ in page.runs.walk()) < 1_000
    assert len(transcript.html) < 100_000
    assert abs(len(transcript.html) - len(shown.html)) < 5_000
    assert "answer 4999" in page.runs.text
    assert "answer 4900" not in page.runs.text


def test_scrolling_up_shows_everything_once_and_in_order(alice: User) -> None:
    conversation = answered_turns(alice, 130)
    transcript = open_transcript(conversation, alice)
    page, before, loads = Page(transcript.html, transcript.after), transcript.before, 0
    while before:
        ops, before = read_older(conversation, alice, before)
        for op in ops:
            page.apply(*op)
        loads += 1
    questions = [node.text for node in page.runs.walk() if "data-said-by-user" in node.attributes]
    assert questions == [f"question {number}" for number in range(130)]
    assert loads > 3


def test_a_run_with_very_many_items_is_cut_and_can_be_read_to_its_beginning(alice: User) -> None:
    answered_run(alice, "earlier", "before that")
    first = answered_run(alice, "first", "one")
    run = start_run(make_run(alice, "much to do", conversation_id=first.conversation.public_id))
    for number in range(200):
        say(run, f"step {number}!")
    end_run(run, "step 199!")
    transcript = open_transcript(run.conversation, alice)
    page, before = Page(transcript.html, transcript.after), transcript.before
    assert before.startswith(f"{run.public_id}:")
    assert page.runs.text.count("step ") == WINDOW
    assert "much to do" not in page.runs.text
    while before:
        ops, before = read_older(run.conversation, alice, before)
        for op in ops:
            page.apply(*op)
    text = page.runs.text
    places = [text.index(f"step {number}!") for number in range(200)]
    assert places == sorted(places)
    assert text.index("first") < text.index("one") < text.index("much to do") < text.index("step 0!")


def test_ten_thousand_events_of_one_message_are_one_node_for_each_block(alice: User) -> None:
    run = start_run(make_run(alice))
    now = timezone.now()
    deltas = [events.write_event(run, seq, events.MESSAGE_DELTA, now, {"text": "word "}) for seq in range(3, 10_003)]
    Event.objects.bulk_create(deltas, batch_size=2000)
    with CaptureQueriesContext(connection) as queries:
        transcript = open_transcript(run.conversation, alice)
    page = Page(transcript.html, transcript.after)
    assert len(queries) <= 12
    assert sum(1 for _ in page.runs.walk()) < 60
    assert page.runs.text.count("word") == 10_000
    assert transcript.after == f"{run.public_id}:10002"


def test_an_old_runs_link_shows_the_part_around_it(alice: User) -> None:
    conversation = answered_turns(alice, 100)
    old = Run.objects.filter(conversation=conversation).order_by("pk")[20]
    transcript = open_transcript(conversation, alice, around=old.public_id)
    assert transcript.is_excerpt
    text = Page(transcript.html, "").runs.text
    assert "question 20" in text
    assert "question 21" not in text
    assert not open_transcript(conversation, alice, around=Run.objects.latest("pk").public_id).is_excerpt
    assert not open_transcript(conversation, alice, around="run_nothing").is_excerpt


def test_scrolling_down_from_an_old_run_shows_everything_once_and_in_order_to_the_end(alice: User) -> None:
    conversation = answered_turns(alice, 130)
    old = Run.objects.filter(conversation=conversation).order_by("pk")[20]
    transcript = open_transcript(conversation, alice, around=old.public_id)
    page, beyond, loads = Page(transcript.html, ""), transcript.beyond, 0
    first = next(node for node in page.runs.walk() if "data-said-by-user" in node.attributes).text
    while beyond:
        newer = read_newer(conversation, alice, beyond)
        assert newer is not None
        assert len(newer.ops) <= WINDOW
        for op in newer.ops:
            page.apply(*op)
        beyond, loads = newer.beyond, loads + 1
    questions = [node.text for node in page.runs.walk() if "data-said-by-user" in node.attributes]
    assert questions == [f"question {number}" for number in range(int(first.split()[1]), 130)]
    assert loads > 3
    assert newer.after == open_transcript(conversation, alice).after


def test_the_end_of_an_excerpt_is_where_the_live_connection_goes_on(alice: User) -> None:
    conversation = answered_turns(alice, 60)
    old = Run.objects.filter(conversation=conversation).order_by("pk")[57]
    active = start_run(make_run(alice, "now", conversation_id=conversation.public_id))
    store_event(active, text="half a ")
    waiting = make_run(alice, "later", conversation_id=conversation.public_id)
    newer = read_newer(conversation, alice, old.public_id)
    assert newer is not None
    assert [op[2] for op in newer.ops] == [*conversation.runs.order_by("pk").values_list("public_id", flat=True)][58:-1]
    assert "half a" in newer.ops[-1][3]
    assert newer.after == f"{active.public_id}:3,{waiting.public_id}:1"
    assert newer.after == open_transcript(conversation, alice).after


def test_a_run_that_waits_in_the_queue_is_no_place_to_lead_to(alice: User) -> None:
    active = start_run(make_run(alice, "now"))
    waiting = make_run(alice, "later", conversation_id=active.conversation.public_id)
    assert not open_transcript(active.conversation, alice, around=waiting.public_id).is_excerpt


def test_a_conversation_without_runs_can_be_opened(alice: User) -> None:
    conversation = answered_run(alice, "x", "y").conversation
    conversation.runs.all().delete()
    transcript = open_transcript(conversation, alice)
    assert (transcript.html, transcript.after, transcript.before) == ("", "", "")
    assert transcript.state["run"] is None


# -- what an open page asks for


@pytest.mark.parametrize(("part", "op"), [("older?before", "prepend"), ("newer?beyond", "put")])
def test_other_parts_are_the_owners_and_staffs(alice: User, as_alice: Client, part: str, op: str) -> None:
    """R6: what is not yours does not exist."""
    conversation = answered_turns(alice, 60)
    run = conversation.runs.order_by("pk")[30]
    address = f"/c/{conversation.public_id}/{part}={run.public_id}"
    answer = as_alice.get(address)
    assert answer.json()["ops"][0][:2] == [op, "runs"]
    bob = Client()
    bob.force_login(User.objects.create_user("bob"))
    assert bob.get(address).status_code == 404
    charlie = Client()
    charlie.force_login(User.objects.create_user("charlie", is_staff=True))
    assert charlie.get(address).status_code == 200
    assert Client().get(address).status_code == 302


@pytest.mark.parametrize("before", ["", "x", "run_nothing", ":", "run_nothing:1", "%00"])
def test_a_cursor_that_leads_nowhere_is_not_found(as_alice: Client, alice: User, before: str) -> None:
    run = answered_run(alice, "x", "y")
    assert as_alice.get(f"/c/{run.conversation.public_id}/older?before={before}").status_code == 404
    assert as_alice.get(f"/c/{run.conversation.public_id}/older?before={run.public_id}:x").status_code == 404
    assert as_alice.get(f"/c/{run.conversation.public_id}/newer?beyond={before}").status_code == 404
    assert as_alice.get(f"/c/%00/older?before={before}").status_code == 404
    assert as_alice.get(f"/c/{run.conversation.public_id}/runs/%00/messages/0").status_code == 404
    assert not open_transcript(run.conversation, alice, around="run_\0").is_excerpt


def test_a_message_can_be_had_as_the_model_wrote_it(as_alice: Client, alice: User) -> None:
    run = answered_run(alice, "x", "# **Hi** <b>")
    address = f"/c/{run.conversation.public_id}/runs/{run.public_id}/messages/0"
    answer = as_alice.get(address)
    assert answer.content.decode() == "# **Hi** <b>"
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["X-Content-Type-Options"] == "nosniff"
    bob = Client()
    bob.force_login(User.objects.create_user("bob"))
    assert bob.get(address).status_code == 404


@pytest.mark.parametrize("number", [2, 10**30])
def test_a_message_that_was_never_said_is_not_found(as_alice: Client, alice: User, number: int) -> None:
    run = answered_run(alice, "question", "answer")
    address = f"/c/{run.conversation.public_id}/runs/{run.public_id}/messages/{number}"
    assert as_alice.get(address).status_code == 404


def test_a_long_result_is_cut_on_the_page_and_whole_behind_the_button(as_alice: Client, alice: User) -> None:
    run = start_run(make_run(alice))
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    say(run, "", tool_calls=[call])
    result = "line\n" * 5000
    store_event(run, events.TOOL_COMPLETED, tool_call_id="c1", name="look", result=result, state="finished", seconds=1)
    end_run(run)
    html = open_transcript(run.conversation, alice).html
    address = f"/c/{run.conversation.public_id}/runs/{run.public_id}/results/0/0"
    assert address in html
    assert len(html) < 20_000
    assert as_alice.get(address).content.decode() == result
    assert as_alice.get(address[:-1] + "1").status_code == 404


@pytest.mark.parametrize("words", ['{"cut": "\\ud83d"}', '{"\\ud83d": 1}', "[" * 900 + "]" * 900, "[" * 100_000])
def test_no_tool_and_no_model_makes_a_conversation_unreadable(as_alice: Client, alice: User, words: str) -> None:
    """Half a character, or lists in lists: what cannot be shown as JSON is shown as it was written."""
    run = start_run(make_run(alice))
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": words}}
    say(run, "", tool_calls=[call])
    store_event(run, events.TOOL_COMPLETED, tool_call_id="c1", name="look", result=words, state="finished", seconds=1)
    end_run(run)
    answer = as_alice.get(f"/c/{run.conversation.public_id}")
    assert answer.status_code == 200
    shown = Page(open_transcript(run.conversation, alice).html, "").runs.text
    assert words[:1000] in shown


def test_the_state_says_what_the_rest_of_the_page_needs(alice: User) -> None:
    run = start_run(make_run(alice))
    state = open_transcript(run.conversation, alice).state
    assert (state["active"], state["run"]["status"], state["run"]["steps"]) == (run.public_id, "running", 1)
    assert state["run"]["tokens"] is None
    say(run, "done", usage={"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "cost": "0.01"})
    state = open_transcript(run.conversation, alice).state
    assert (state["active"], state["run"]["tokens"], state["run"]["cost"]) == (run.public_id, 7, "0.01")
    end_run(run)
    state = open_transcript(run.conversation, alice).state
    assert (state["active"], state["run"]["word"], state["run"]["tokens"]) == (None, "completed", 0)
    assert json.dumps(state)


def test_what_a_cut_off_step_had_said_is_shown_also_where_only_whole_messages_are_streamed(alice: User) -> None:
    """C3, C4: it is kept, and told with the end."""
    run = start_run(make_run(alice, has_token_streaming=False))
    say(run, "a whole message")
    receipt = {"requested_by": "alice", "requested_via": "api", "requested_at": timezone.now().isoformat()}
    end_run(run, "half a mess", status=Status.CANCELLED, stop_reason=StopReason.CANCELLED, receipt=receipt)
    text = Page(open_transcript(run.conversation, alice).html, "").runs.text
    assert "a whole message" in text
    assert "half a mess" in text
    assert "Cut off here" in text


# -- the time that the inspector shows


def test_the_time_does_not_count_the_wait_for_an_approval(alice: User) -> None:
    """L1: the inspector shows what the limit counts."""
    run = waiting_run(alice, "call_1")
    later = timezone.now() + timedelta(hours=1)
    with mock.patch("django.utils.timezone.now", return_value=later):
        state = open_transcript(run.conversation, alice).state
        assert 0 < state["run"]["active_seconds"] < 60
        assert "data-ticking" not in state["inspector"]
        actions.decide_approvals(run.pk, [Decision("call_1", approve=True)], by=alice, via="console")
        start_run(run)
    later += timedelta(minutes=5)
    with mock.patch("django.utils.timezone.now", return_value=later):
        state = open_transcript(run.conversation, alice).state
    assert 300 < state["run"]["active_seconds"] < 360
    assert "data-ticking" in state["inspector"]


def test_the_time_after_a_lost_worker_goes_on_from_what_was_told(alice: User) -> None:
    fold = Fold("run_1")
    times = {0: events.RUN_STARTED, 5: events.TOOL_STARTED, 8: events.TOOL_COMPLETED, 600: events.RUN_STARTED}
    call = {"tool_call_id": "call_1", "name": "wait"}
    for seq, (second, kind) in enumerate(times.items(), start=1):
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
        fold.take([{"seq": seq, "type": kind, "at": at.isoformat(), **call}])
    assert (fold.worked_seconds, fold.working_since) == (8, datetime(2026, 1, 1, 0, 10, tzinfo=UTC))
