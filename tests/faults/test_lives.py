"""A worker that ends at each of its commits in turn: what `lives.py` plays, judged."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import TOOLS, Seed, copy_seed
from tests.faults.lives import STORIES
from tests.faults.promises import check_conversation, check_log, tokens
from tests.serving import PROJECT, Served

Told = dict[str, Any]
Listen = Callable[[str], list[Told]]

SECONDS = 120
HALVES = [["stream", "one by one", "at once", "shutdown"], ["database", "stop in a stream", "stop in a tool"]]


@pytest.fixture(scope="module")
def listen(seed: Seed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listen]:
    """The stories are played by two processes side by side; gives what is told of one."""
    with ExitStack() as ending:
        plays = [Play(seed, tmp_path_factory.mktemp("lives"), names, ending) for names in HALVES]

        def listen(name: str) -> list[Told]:
            play = next(play for play in plays if name in play.names)
            told = [one for one in play.wait() if one["story"] == name]
            print(f"{name}: {Counter(one['fate'] for one in told)}")
            assert all(sum(one["fate"] == fate for one in told) > 3 for fate in STORIES[name].fates)
            for one in told:
                check_promises(one)
            return told

        yield listen


class Play:
    def __init__(self, seed: Seed, room: Path, names: list[str], ending: ExitStack) -> None:
        self.room = room
        self.names = names
        settings = {"AGENTSITE_MAX_ATTEMPTS": "1000", "EFFECTS_FILE": str(room / "effects")}
        environment = {**TOOLS, **settings, **ending.enter_context(copy_seed(seed, room / "data"))}
        with (room / "told").open("w") as told:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.lives", *names],
                cwd=PROJECT,
                env=Served(room / "data", environment).full_environment,
                stdout=told,
            )
        ending.callback(end, self.process)

    def wait(self) -> list[Told]:
        assert self.process.wait(SECONDS) == 0
        told = [json.loads(line) for line in (self.room / "told").read_text().splitlines()]
        check_effects(told, self.room / "effects")
        return told


def end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def check_promises(told: Told) -> None:
    """R5, T5, C2, C8, C9: whatever happened, and at whatever moment."""
    between, after = told["between"], told["after"]
    assert told["seen"] == between["events"][: len(told["seen"])], "seen before it was stored"
    check_log(after["events"])
    check_conversation(after["messages"])
    assert after["events"][: len(between["events"])] == between["events"]
    stored = {message["id"]: message for message in after["messages"]}
    assert all(stored[message["id"]] == message for message in between["messages"])
    assert after["events"][-1]["type"] == f"run.{after['status']}"
    assert after["events"][-1]["stop_reason"] == after["last_stop_reason"]
    assert not after["is_held"]
    started = Counter(event["tool_call_id"] for event in after["events"] if event["type"] == "tool.started")
    completed = Counter(event["tool_call_id"] for event in after["events"] if event["type"] == "tool.completed")
    assert set(completed.values()) <= {1}
    assert started.keys() <= completed.keys()


def check_effects(told: list[Told], path: Path) -> None:
    """T1, T2, T3, T4: no effect twice, none without its call, and each that has a result."""
    lines = path.read_text().splitlines() if path.exists() else []
    effects = [line.split()[1] for line in lines]
    assert len(effects) == len(set(effects))
    results = {
        message["tool_call_id"]: message["content"]
        for one in told
        for message in one["after"]["messages"]
        if message["role"] == "tool"
    }
    assert results.keys() >= set(effects)
    for call_id, result in results.items():
        if result.startswith("marked"):
            assert call_id in effects
        else:
            assert result.startswith(("Interrupted", "Not executed"))
            assert call_id not in effects or result.startswith("Interrupted")


def text_of(told: Told, type: str) -> str:
    return "".join(event["text"] for event in told["after"]["events"] if event["type"] == type)


def check_everything_was_said_once(told: Told, count: int) -> None:
    after = told["after"]
    assert (after["status"], after["output"]) == ("completed", tokens(count))
    assert text_of(told, "message.delta") == tokens(count)
    said = [message for message in after["messages"] if message["role"] == "assistant"]
    assert [message["content"] for message in said if message["content"]] == [tokens(count)]
    completed = [event["message_id"] for event in after["events"] if event["type"] == "message.completed"]
    assert completed == [message["id"] for message in said]


def test_a_death_at_any_commit_of_an_answer_repeats_no_word(listen: Listen) -> None:
    """T4, T5, C9"""
    for told in listen("stream"):
        check_everything_was_said_once(told, 4)
        # Thoughts that came after a death are not told: nobody knows whether they are the same.
        assert text_of(told, "reasoning.delta") in ("think0 ", "think0 think1 ")


@pytest.mark.parametrize("name", ["one by one", "at once"])
def test_a_death_at_any_commit_of_a_step_with_tools_repeats_no_effect(listen: Listen, name: str) -> None:
    """T1, T2, T3, T4, E3"""
    for told in listen(name):
        check_everything_was_said_once(told, 3)


def test_a_shutdown_at_any_commit_hands_the_run_back(listen: Listen) -> None:
    """T4: also one that was claimed in that very moment."""
    all_told = listen("shutdown")
    for told in all_told:
        assert told["between"]["status"] in ("queued", "completed")
        assert not told["between"]["is_held"]
        check_everything_was_said_once(told, 3)
    assert {told["between"]["status"] for told in all_told} == {"queued", "completed"}


def test_a_database_that_fails_at_any_commit_costs_a_moment(listen: Listen) -> None:
    """T4, T5: the worker goes on by itself, whether the commit was lost or only its confirmation."""
    for told in listen("database"):
        assert told["between"]["status"] == "completed"
        check_everything_was_said_once(told, 3)


@pytest.mark.parametrize("name", ["stop in a stream", "stop in a tool"])
def test_a_stop_before_a_death_or_a_shutdown_at_any_commit_holds(listen: Listen, name: str) -> None:
    """C2, C3, C6, C8: also one that the worker did not hear of before it left."""
    all_told = listen(name)
    for told in all_told:
        between, after = told["between"], told["after"]
        assert after["status"] == "cancelled"
        assert after["events"][-1]["receipt"]["requested_by"] == "admin"
        if told["fate"] == "is shut down":
            assert between["status"] == ("cancelled" if between["is_stopped"] else "queued")
        if name == "stop in a stream":
            *_, kept = after["messages"]
            # A run that nobody stopped in time had said everything.
            assert kept.get("partial") or kept["content"] == tokens(50)
            assert kept["content"] == text_of(told, "message.delta")
    assert any(told["between"]["is_stopped"] and told["fate"] == "is shut down" for told in all_told)
