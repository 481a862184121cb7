"""The first set of tools, except for the calculator: current_time, wait, remember, recall."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from gateway.tools.current_time import current_time
from gateway.tools.recall import recall
from gateway.tools.remember import remember
from gateway.tools.wait import count_down, wait
from tests.gateway.test_tools import FakeNotes, Reports, call, make_context


@pytest.mark.parametrize(
    ("arguments", "zone"),
    [
        ({}, UTC),
        ({"timezone": None}, UTC),
        ({"timezone": " "}, UTC),
        ({"timezone": "utc"}, UTC),
        ({"timezone": "Europe/Berlin"}, ZoneInfo("Europe/Berlin")),
        ({"timezone": "Asia/Kathmandu"}, ZoneInfo("Asia/Kathmandu")),
    ],
)
async def test_the_current_time_has_its_weekday_and_its_offset(arguments, zone):
    before = datetime.now(zone).replace(microsecond=0)
    result = await call(current_time, arguments)
    after = datetime.now(zone)
    weekday, text = result.content.split(", ")
    told = datetime.fromisoformat(text)
    assert before <= told <= after
    assert told.utcoffset() == before.utcoffset()
    assert weekday in (f"{before:%A}", f"{after:%A}")


@pytest.mark.parametrize(
    ("timezone", "words"),
    [
        ("berlin", "'berlin' is no IANA time zone. Perhaps Europe/Berlin?"),
        ("new york", "Perhaps America/New_York?"),
        ("Mars/Olympus", "Use a name such as Europe/Berlin."),
        ("Europe", "is no IANA time zone"),
        ("../../etc/passwd", "is no IANA time zone"),
        ("/etc/localtime", "is no IANA time zone"),
        ("a\0b", "is no IANA time zone"),
        ("\ud800", "timezone: Input should be a valid string"),
        ("x" * 65, "is too long"),
    ],
)
async def test_a_time_zone_that_does_not_exist_is_explained(timezone, words):
    """E3"""
    result = await call(current_time, {"timezone": timezone})
    assert result.is_error
    assert words in result.content


class SleepyClock:
    """Each sleep takes as long as it was asked for, and a little more, as sleeps do."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sleeps: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds * 1.01


async def test_waiting_reports_about_every_half_second_and_ends_on_time():
    clock, reports = SleepyClock(), Reports()
    await count_down(10, reports, clock, clock.sleep)
    assert 10 <= clock.now - 100 < 10.02
    assert max(clock.sleeps) == 0.5
    assert len(reports) == 21
    fractions = [fraction for _, fraction in reports if fraction is not None]
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)
    assert reports[2][0] == "1.0 of 10 seconds"
    assert reports[-1] == ("10 of 10 seconds", 1.0)


async def test_waiting_for_no_time_is_over_at_once():
    reports = Reports()
    result = await call(wait, {"seconds": 0}, make_context(reports=reports))
    assert result.content == "Waited 0 seconds."
    assert reports == [("0 of 0 seconds", 1.0)]


async def test_waiting_is_cancelled_at_once():
    """C1, C6"""
    has_begun = asyncio.Event()

    def report(text: str, fraction: float | None) -> None:
        assert not has_begun.is_set()
        has_begun.set()

    context = replace(make_context(), report=report)
    task = asyncio.create_task(call(wait, {"seconds": 3600}, context))
    await has_begun.wait()
    task.cancel()
    async with asyncio.timeout(5):
        await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.parametrize("seconds", [-1, 3601, "ten", None])
async def test_waiting_has_its_limits(seconds):
    """E3"""
    result = await call(wait, {"seconds": seconds})
    assert result.is_error
    assert result.content.startswith("The arguments do not fit: seconds: ")


def test_the_longest_wait_is_not_ended_by_the_time_limit_of_the_tool():
    assert wait.timeout_seconds > timedelta(hours=1).total_seconds()


async def test_a_note_is_kept_replaced_and_recalled():
    context = make_context(notes=FakeNotes())
    assert (await call(recall, {}, context)).content == "There are no notes in this conversation yet."
    assert (await call(remember, {"key": "name", "text": "Alice"}, context)).content == "Remembered under 'name'."
    await call(remember, {"key": " name ", "text": "Bob"}, context)
    await call(remember, {"key": "größe", "text": "1,80 m"}, context)
    assert (await call(recall, {}, context)).content == '{"name":"Bob","größe":"1,80 m"}'
    assert (await call(recall, {"key": "name "}, context)).content == '{"name":"Bob"}'


async def test_remembering_the_same_twice_changes_nothing():
    """T4: this is why the tool may be repeated after a crash."""
    notes = FakeNotes()
    for _ in range(2):
        await call(remember, {"key": "name", "text": "Alice"}, make_context(notes=notes))
    assert notes.notes == {"name": "Alice"}


async def test_a_note_that_is_not_there_is_explained_with_those_that_are():
    """E3"""
    context = make_context(notes=FakeNotes())
    await call(remember, {"key": "name", "text": "Alice"}, context)
    result = await call(recall, {"key": "colour"}, context)
    assert (result.content, result.is_error) == ("There is no note under 'colour'. There are: name.", True)


@pytest.mark.parametrize(
    "arguments",
    [
        {"key": "x" * 101, "text": "y"},
        {"key": "x", "text": "y" * 2001},
        {"key": "", "text": "y"},
        {"key": " \0 ", "text": "y"},
        {"key": "x"},
        {"key": 5, "text": "y"},
    ],
)
async def test_a_note_has_its_limits(arguments):
    """E3"""
    notes = FakeNotes()
    assert (await call(remember, arguments, make_context(notes=notes))).is_error
    assert notes.notes == {}


async def test_a_note_reaches_the_storage_without_what_databases_refuse():
    notes = FakeNotes()
    await call(remember, {"key": "na\0me", "text": "A\0lice"}, make_context(notes=notes))
    assert notes.notes == {"name": "Alice"}
