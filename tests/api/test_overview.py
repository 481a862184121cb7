"""The overview's websocket: lists hear that they have something to look at."""

from runs import actions, events
from runs.database import in_reader, in_writer
from tests.api.asking import is_refused
from tests.api.conftest import People
from tests.factories import add_event, end_run, finished_run, make_run, start_run


async def test_an_overview_hears_of_each_beginning_and_end_and_of_nothing_between(people: People) -> None:
    async with people.as_alice.socket("/ws/overview/") as socket:
        assert await socket.next_event() == {"conversation_id": None}
        run = await in_writer(make_run, people.alice)
        changed = {"conversation_id": run.conversation.public_id}
        assert await socket.next_event() == changed
        run = await in_writer(start_run, run)
        assert await socket.next_event() == changed
        await in_writer(lambda: add_event(run, text="word"))
        await in_writer(end_run, run)
        assert await socket.next_event() == changed
        other = await in_writer(make_run, people.alice)
        assert await socket.next_event() == {"conversation_id": other.conversation.public_id}, "not of the word"


async def test_an_overview_hears_that_a_queued_message_was_changed(people: People) -> None:
    run = await in_writer(make_run, people.alice)
    async with people.as_alice.socket("/ws/overview/") as socket:
        await socket.next_event()
        await in_reader(actions.edit_run, run.pk, [{"role": "user", "content": "changed"}])
        assert await socket.next_event() == {"conversation_id": run.conversation.public_id}


async def test_an_overview_hears_that_a_conversation_was_renamed_deleted_or_restored(people: People) -> None:
    conversation = (await in_writer(finished_run, people.alice)).conversation
    async with people.as_alice.socket("/ws/overview/") as socket:
        await socket.next_event()
        changed = {"conversation_id": conversation.public_id}
        await in_reader(actions.rename_conversation, conversation, "another title")
        assert await socket.next_event() == changed
        await in_reader(lambda: actions.delete_conversation(conversation, by="alice", via="api"))
        assert await socket.next_event() == changed
        await in_reader(actions.restore_conversation, conversation)
        assert await socket.next_event() == changed


async def test_an_overview_hears_nothing_of_other_people(people: People) -> None:
    async with people.as_bob.socket("/ws/overview/") as socket:
        await socket.next_event()
        await in_writer(make_run, people.alice)
        mine = await in_writer(make_run, people.bob)
        assert await socket.next_event() == {"conversation_id": mine.conversation.public_id}


async def test_staff_hear_of_everybodys_approvals_and_of_nothing_else(people: People) -> None:
    run = await in_writer(lambda: start_run(make_run(people.alice)))
    async with people.as_charlie.socket("/ws/overview/") as socket:
        await socket.next_event()
        await in_writer(make_run, people.bob)
        await in_writer(lambda: add_event(run, events.APPROVAL_REQUESTED, tool_call_id="call_1", name="send"))
        assert await socket.next_event() == {"conversation_id": run.conversation.public_id}


async def test_nobody_valid_gets_no_overview(people: People) -> None:
    assert await is_refused(people.stranger, "/ws/overview/")
    foreign = await people.in_browser(people.alice, Origin="https://evil.example")
    assert await is_refused(foreign, "/ws/overview/")
