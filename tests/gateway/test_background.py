"""Background processes: they are seen, bounded and ended with all that they started, and nobody else ever is (P8)."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.background import marks
from gateway.background.commands import CommandProblem, built_in_commands, parse_commands
from gateway.background.processes import BackgroundSetup, Processes, ProcessProblem
from gateway.files import FileLimits
from gateway.task import Tasks
from tests.gateway.test_files import call

PATIENCE = 30.0
SHELL = ["sh=/bin/sh -c *", "nothing=/does/not/exist", "fixed=/bin/echo fixed"]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def marked_under(directory: Path) -> list[int]:
    """The living processes that carry a mark below this directory."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    found = {pid: marks._read_mark(pid) for pid in pids}
    return [pid for pid, marked in found.items() if marked is not None and marked.mark.startswith(f"{directory}/")]


def marked_with(directory: Path, word: bytes) -> list[int]:
    """Those of them whose command line holds this word."""
    return [pid for pid in marked_under(directory) if word in Path(f"/proc/{pid}/cmdline").read_bytes()]


@contextmanager
def killed_at_the_end(process: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    """Also where a test fails in between: it must not wait for the process, or leave it behind."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def start_stranger() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "1000"])


def make_tasks(directory: Path, **setup: Any) -> Tasks:
    chosen: dict[str, Any] = {"grace_seconds": 0.3, **setup}
    return Tasks(directory, FileLimits(), BackgroundSetup(parse_commands(SHELL), **chosen))


@pytest.fixture
async def tasks(tmp_path: Path) -> AsyncIterator[Tasks]:
    tasks = make_tasks(tmp_path)
    yield tasks
    await tasks.close()
    assert marked_under(tmp_path) == [], "no test leaves a process behind"


@pytest.fixture
def processes(tasks: Tasks) -> Processes:
    return tasks.of("conv_1").processes


async def said(processes: Processes, id: str, words: str) -> None:
    async def has_said() -> bool:
        return words in (await processes.look(id, 100_000))[1]

    await until(has_said)


async def ended(processes: Processes, id: str) -> None:
    async def has_ended() -> bool:
        return not (await processes.look(id, 1))[0].is_running

    await until(has_ended)


async def test_a_process_runs_on_and_its_output_is_seen_until_it_is_ended(processes: Processes) -> None:
    state = await processes.start("countdown", ["500"])
    assert (state.id, state.is_running) == ("p1", True)
    await said(processes, "p1", "499 seconds left")
    state = await processes.end("p1")
    assert (state.is_running, state.reason, state.exit_code) == (False, "asked", -signal.SIGTERM)
    assert (await processes.end("p1")) == state, "ending it again changes nothing"
    assert "500 seconds left" in (await processes.look("p1", 1000))[1], "what it said stays"


async def test_a_process_that_ends_by_itself_tells_its_exit_code(processes: Processes) -> None:
    await processes.start("countdown", ["0"])
    await processes.start("sh", ["echo no >&2; exit 3"])
    await ended(processes, "p1")
    await ended(processes, "p2")
    one, two = await processes.states()
    assert [(one.reason, one.exit_code), (two.reason, two.exit_code)] == [("itself", 0), ("itself", 3)]
    assert [(await processes.look(each, 100))[1] for each in ("p1", "p2")] == ["done\n", "no\n"]


async def test_the_output_is_bounded_and_its_end_is_kept(tmp_path: Path) -> None:
    tasks = make_tasks(tmp_path, output_bytes=10_000)
    processes = tasks.of("conv_1").processes
    await processes.start("sh", ["i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"])
    await ended(processes, "p1")
    log = tmp_path / "background" / "conv_1" / "p1.log"
    assert log.stat().st_size <= 20_100
    text = (await processes.look("p1", 1_000_000))[1]
    assert text.startswith("[Earlier output was dropped.]")
    assert text.endswith("line 19999\n")
    assert (await processes.look("p1", 5))[1] == "9999\n"
    await tasks.close()


async def test_a_process_ends_when_its_time_is_over(tmp_path: Path) -> None:
    tasks = make_tasks(tmp_path, seconds=0.2)
    processes = tasks.of("conv_1").processes
    await processes.start("countdown", ["1000"])
    await ended(processes, "p1")
    assert (await processes.states())[0].reason == "time"
    await tasks.close()


async def test_only_so_many_run_at_once_in_a_conversation(tmp_path: Path) -> None:
    tasks = make_tasks(tmp_path, most=2)
    processes = tasks.of("conv_1").processes
    answers = await asyncio.gather(*(processes.start("countdown", ["1000"]) for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(answer, ProcessProblem) for answer in answers) == 3
    with pytest.raises(ProcessProblem, match=r"2 processes run already \(p1, p2\)"):
        await processes.start("countdown", [])
    await tasks.of("conv_2").processes.start("countdown", ["1000"])
    await processes.end("p1")
    assert (await processes.start("countdown", ["1000"])).id == "p3"
    await tasks.close()


async def test_only_what_is_allowed_is_started_and_never_through_a_shell(processes: Processes, tmp_path: Path) -> None:
    with pytest.raises(ProcessProblem, match="There are: countdown, fixed, heartbeat, nothing, sh"):
        await processes.start("/bin/sh", ["-c", "true"])
    with pytest.raises(CommandProblem, match="fixed takes no arguments"):
        await processes.start("fixed", ["more"])
    for arguments in (["a\0b"], ["x" * 5000], ["\udcff"], ["x"] * 51):
        with pytest.raises(CommandProblem):
            await processes.start("sh", arguments)
    with pytest.raises(ProcessProblem, match=r"nothing could not be started: .*No such file"):
        await processes.start("nothing", [])
    assert await processes.states() == [], "what never began leaves no trace"
    await processes.start("countdown", ["; touch stolen"])
    await ended(processes, "p1")
    assert "must be a number" in (await processes.look("p1", 1000))[1]
    assert not (tmp_path / "files" / "conv_1" / "stolen").exists()


@pytest.mark.parametrize("id", ["p9", "1", "p1.json", "../conv_2/p1", "", "p²", "p" + "1" * 20])
async def test_an_id_that_is_none_is_refused(processes: Processes, id: str) -> None:
    await processes.start("countdown", ["0"])
    for attempt in (processes.look(id, 10), processes.end(id)):
        with pytest.raises(ProcessProblem, match="There are: p1"):
            await attempt


async def test_a_command_works_in_the_conversations_folder_and_knows_no_secret(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTSITE_SECRET_KEY", "top-secret")
    monkeypatch.setenv("PROVIDER_KEY", "top-secret")
    await processes.start("sh", ["pwd; env; cat /proc/$PPID/environ"])
    await ended(processes, "p1")
    text = (await processes.look("p1", 100_000))[1]
    assert text.startswith(f"{tmp_path}/files/conv_1\n")
    assert "top-secret" not in text


STUBBORN = """
trap '' TERM
sleep 1000 &
setsid sleep 1000 &
(setsid sleep 1000 &)
echo ready
while :; do sleep 1; done
"""


async def test_a_process_that_ignores_it_is_killed_with_all_that_it_started(
    processes: Processes, tmp_path: Path
) -> None:
    """P8: also children that left its group, and those that nobody is the parent of any more."""
    await processes.start("sh", [STUBBORN])
    await said(processes, "p1", "ready")
    assert len(marked_under(tmp_path)) >= 5
    state = await processes.end("p1")
    assert (state.reason, state.exit_code) == ("asked", -signal.SIGKILL)
    assert marked_under(tmp_path) == []


async def test_what_a_process_leaves_running_goes_with_it(processes: Processes, tmp_path: Path) -> None:
    await processes.start("sh", ["setsid sleep 1000 & sleep 1000 & exit 0"])
    await ended(processes, "p1")

    async def is_alone() -> bool:
        return marked_under(tmp_path) == []

    await until(is_alone)


async def test_a_process_with_very_long_arguments_is_started(processes: Processes) -> None:
    await processes.start("sh", ["echo $#", *(["x" * 4000] * 49)])
    await said(processes, "p1", "48\n")


async def test_what_a_process_lets_go_of_leaves_no_dead_behind(processes: Processes, tmp_path: Path) -> None:
    """Orphans come back to the keeper, which must bury them: else numbers of processes run out."""
    await processes.start("sh", ["for i in 1 2 3 4 5 6 7 8 9; do (true &); done; sleep 0.2; echo ready; sleep 1000"])
    await said(processes, "p1", "ready")
    (keeper,) = marked_with(tmp_path, b"keeper.py")

    async def has_one_child() -> bool:
        children = await asyncio.to_thread(Path(f"/proc/{keeper}/task/{keeper}/children").read_text)
        return len(children.split()) == 1

    await until(has_one_child)


async def test_the_end_of_a_task_ends_its_processes_and_removes_its_folders_and_no_others(
    tasks: Tasks, tmp_path: Path
) -> None:
    """P8: ending a conversation is hard. Twice does no harm."""
    one, other = tasks.of("conv_1"), tasks.of("conv_10")
    for task in (one, other):
        task.files.write("plan.txt", "x")
        await task.processes.start("countdown", ["1000"])
    await one.end()
    await one.end()
    assert not (tmp_path / "files" / "conv_1").exists()
    assert not (tmp_path / "background" / "conv_1").exists()
    assert marked_under(tmp_path / "background" / "conv_1") == []
    assert other.files.read("plan.txt") == "x"
    assert (await other.processes.states())[0].is_running


async def test_the_processes_of_a_worker_end_when_it_leaves_and_the_next_one_can_tell(tmp_path: Path) -> None:
    tasks = make_tasks(tmp_path)
    await tasks.of("conv_1").processes.start("countdown", ["1000"])
    await tasks.close()
    assert marked_under(tmp_path) == []
    (state,) = await make_tasks(tmp_path).of("conv_1").processes.states()
    assert (state.is_running, state.reason) == (False, "worker")


async def test_another_worker_on_the_machine_finds_a_process_and_can_end_it(tasks: Tasks, tmp_path: Path) -> None:
    """P8: what is known of a process is on the disk, so it does not matter who looks."""
    await tasks.of("conv_1").processes.start("countdown", ["1000"])
    others = make_tasks(tmp_path).of("conv_1").processes
    await said(others, "p1", "seconds left")
    assert (await others.end("p1")).reason == "asked"


WORKER = """
import asyncio, sys
from pathlib import Path
from tests.gateway.test_background import STUBBORN, make_tasks, said

async def work(directory):
    processes = make_tasks(directory).of("conv_1").processes
    await processes.start("sh", [STUBBORN])
    await said(processes, "p1", "ready")
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(work(Path(sys.argv[1])))
"""


def start_worker(directory: Path) -> "subprocess.Popen[bytes]":
    """A worker with a stubborn process, in a process of its own, when it is up."""
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(directory)], stdout=subprocess.PIPE)
    assert worker.stdout.readline() == b"ready\n"
    return worker


async def test_a_worker_that_is_killed_takes_its_processes_along(tmp_path: Path) -> None:
    """P8: no orphan, also without anybody who cleans up afterwards."""
    worker = await asyncio.to_thread(start_worker, tmp_path)
    with killed_at_the_end(worker):
        assert len(marked_under(tmp_path)) >= 5
        worker.kill()

    async def is_gone() -> bool:
        return marked_under(tmp_path) == []

    await until(is_gone)


async def test_what_survived_a_killed_worker_is_ended_at_the_next_start(tmp_path: Path, caplog) -> None:
    """P8: the keepers were killed along with the worker, and could do nothing."""
    worker = await asyncio.to_thread(start_worker, tmp_path)
    with killed_at_the_end(worker):
        keepers = marked_with(tmp_path, b"keeper.py")
        assert len(keepers) == 1
        worker.send_signal(signal.SIGSTOP)
        os.kill(keepers[0], signal.SIGKILL)

        async def has_lost_its_command() -> bool:
            return not marked_with(tmp_path, b"trap")

        await until(has_lost_its_command)
        assert len(marked_under(tmp_path)) >= 3, "the kernel ends the command, and not what that has started"
        tasks = make_tasks(tmp_path)
        await tasks.clean_up()
        assert len(marked_under(tmp_path)) >= 3, "their worker lives, as far as anybody knows"
        worker.kill()
        worker.wait()
        await tasks.clean_up()
    assert marked_under(tmp_path) == []
    assert "background processes of a worker that is gone were ended" in caplog.text
    (state,) = await tasks.of("conv_1").processes.states()
    assert (state.is_running, state.reason) == (False, "lost")


async def test_a_stranger_with_a_recorded_number_is_left_alone(processes: Processes, tmp_path: Path) -> None:
    """A number that belongs to another process by now is not what the record means."""
    await processes.start("countdown", ["0"])
    await ended(processes, "p1")
    with killed_at_the_end(start_stranger()) as stranger:
        path = tmp_path / "background" / "conv_1" / "p1.json"
        record = {**json.loads(path.read_text()), "pid": stranger.pid, "state": "running"}
        path.write_text(json.dumps(record))
        assert not (await processes.states())[0].is_running
        await processes.end("p1")
        await processes.end_all()
        await make_tasks(tmp_path).clean_up()
        assert stranger.poll() is None


async def test_old_records_make_room_and_numbers_are_not_used_again(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("gateway.background.processes.KEPT_RECORDS", 3)
    tasks = make_tasks(tmp_path)
    processes = tasks.of("conv_1").processes
    for number in range(1, 6):
        assert (await processes.start("fixed", [])).id == f"p{number}"
        await ended(processes, f"p{number}")
    assert [state.id for state in await processes.states()] == ["p3", "p4", "p5"]
    assert sorted(path.name for path in (tmp_path / "background" / "conv_1").glob("*.log")) == [
        "p3.log",
        "p4.log",
        "p5.log",
    ]
    await tasks.close()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("countdown", "not of the form"),
        ("a b=true", "not of the form"),
        ("a=", "not of the form"),
        ("=true", "not of the form"),
        ("a='", "No closing quotation"),
        ("countdown=true", "two commands named 'countdown'"),
    ],
)
def test_a_command_that_is_configured_wrongly_is_explained(line: str, words: str) -> None:
    with pytest.raises(CommandProblem, match=words):
        parse_commands([line])


def test_a_command_takes_arguments_only_where_its_line_says_so() -> None:
    commands = parse_commands(["backup=/usr/bin/backup --quick 'my files'", "tests=pytest -q *"])
    assert commands["backup"].line == ("/usr/bin/backup", "--quick", "my files")
    assert not commands["backup"].takes_arguments
    assert commands["tests"].make_line(["a b"]) == ["pytest", "-q", "a b"]
    assert set(built_in_commands()) == {"countdown", "heartbeat"}


async def test_the_tools_start_look_and_end(tasks: Tasks) -> None:
    task = tasks.of("conv_1")
    listed = (await call(task, "check_process")).content
    assert "No process was started yet." in listed
    assert "heartbeat: Say that it is alive" in listed
    started = (await call(task, "start_process", command="heartbeat", arguments=["0.01", "80000"])).content
    assert started.startswith("Started as p1: heartbeat 0.01 80000 runs since ")
    await said(task.processes, "p1", "beat 2")
    assert "beat 1 of 80000" in (await call(task, "check_process", id="p1", characters=20_000)).content
    assert "p1: heartbeat" in (await call(task, "check_process")).content
    ending = (await call(task, "end_process", id="p1")).content
    assert ending == "heartbeat 0.01 80000 was ended on request, exit code -15."
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("start_process", {"command": "rm"}),
        ("start_process", {"command": "fixed", "arguments": ["x"]}),
        ("check_process", {"id": "p7"}),
        ("end_process", {"id": "p7"}),
    ]
    for name, arguments in wrong:
        assert (await call(task, name, **arguments)).is_error


async def test_the_record_is_whole_at_every_moment(processes: Processes) -> None:
    """Whoever looks while a process starts and ends sees one of the two, and never half of it."""
    begun_at = time.monotonic()
    for _ in range(5):
        starting = asyncio.create_task(processes.start("fixed", []))
        while not starting.done():
            await processes.states()
        started = starting.result()
        while (await processes.look(started.id, 1))[0].is_running:
            assert time.monotonic() - begun_at < PATIENCE
