"""The working files of a conversation: what is written is there, and nothing leads out of the folder (contract P8)."""

import asyncio
import json
import os
import threading
import time
from pathlib import Path

import pytest

from gateway.background.commands import built_in_commands
from gateway.background.processes import BackgroundSetup
from gateway.files import FileLimits, FileProblem, Files
from gateway.messages import ToolResult
from gateway.task import Task, Tasks
from gateway.tools.registry import ToolContext, load_registry


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "files" / "conv_1", FileLimits(file_bytes=1000, total_bytes=2500, count=5))


def paths(files: Files) -> list[str]:
    return [entry.path for entry in files.entries()]


def test_what_is_written_can_be_read_and_is_listed(files: Files) -> None:
    assert files.entries() == []
    files.write("plan.txt", "Grüße\n")
    files.write("./notes//today.md", "one")
    files.write("plan.txt", "two")
    assert files.read("plan.txt") == "two"
    assert files.read("notes/./today.md") == "one"
    assert paths(files) == ["notes", "notes/today.md", "plan.txt"]
    assert [entry.path for entry in files.entries("notes/")] == ["notes/today.md"]
    assert (files.directory.stat().st_mode & 0o777, (files.directory / "plan.txt").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "a/../../secret",
        "..",
        "/etc/passwd",
        "~/secret",
        "",
        ".",
        "a\0b",
        "a\nb",
        "x" * 201,
        "ü" * 101,
        "/".join("x" * 100 for _ in range(11)),
        "/".join("x" * 17),
        "\udcff",
        ".writing-1",
    ],
)
def test_a_path_that_leads_out_or_cannot_be_is_refused(files: Files, path: str) -> None:
    """P8: refused for reading, writing and listing alike, and nothing is made."""
    for attempt in (lambda: files.write(path, "x"), lambda: files.read(path)):
        with pytest.raises(FileProblem):
            attempt()
    if path not in ("", "."):
        with pytest.raises(FileProblem):
            files.entries(path)
    assert not files.directory.exists() or paths(files) == []
    assert not (files.directory.parent / "secret").exists()


def test_no_link_is_followed_at_any_place_of_a_path(files: Files, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    files.write("plan.txt", "inside")
    (files.directory / "file").symlink_to(outside / "secret.txt")
    (files.directory / "folder").symlink_to(outside)
    (files.directory / "up").symlink_to("..")
    for path in ("file", "folder/secret.txt", "up/conv_1/plan.txt"):
        with pytest.raises(FileProblem):
            files.read(path)
    for path in ("folder/new.txt", "up/new.txt", "folder/deeper/new.txt"):
        with pytest.raises(FileProblem):
            files.write(path, "x")
    with pytest.raises(FileProblem):
        files.entries("folder")
    assert paths(files) == ["file", "folder", "plan.txt", "up"], "links are shown, and not walked through"
    files.write("file", "mine")
    assert (outside / "secret.txt").read_text() == "secret", "the link was replaced, and not what it leads to"
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]


def test_a_folder_that_is_swapped_for_a_link_all_the_time_leads_nowhere(files: Files, tmp_path: Path) -> None:
    """Checked and opened are one step: there is no moment in between to be used."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "plan.txt").write_text("outside")
    files.write("a/plan.txt", "inside")
    folder, aside, link = (files.directory / name for name in ("a", "b", "c"))
    link.symlink_to(outside)
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            folder.rename(aside)
            link.rename(folder)
            folder.rename(link)
            aside.rename(folder)

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen: set[str] = set()
    give_up_at = time.monotonic() + 20
    while len(seen) < 2 and time.monotonic() < give_up_at:
        for _ in range(2000):
            try:
                seen.add(files.read("a/plan.txt"))
            except FileProblem:
                seen.add("refused")
    is_over.set()
    swapping.join()
    assert seen == {"inside", "refused"}, "the link was met, and not followed"


def test_what_is_no_ordinary_text_file_is_refused_in_words(files: Files) -> None:
    files.write("a.txt", "x")
    (files.directory / "picture.png").write_bytes(b"\x89PNG\r\n\xff")
    (files.directory / "zeros").write_bytes(b"a\0b")
    os.mkfifo(files.directory / "pipe")
    (files.directory / "large").write_bytes(b"x" * 1001)
    for path, words in [
        ("picture.png", "binary"),
        ("zeros", "binary"),
        ("pipe", "no ordinary file"),
        ("large", "1,001 bytes"),
        ("missing", "There is no file 'missing'"),
        ("a.txt/b", "no folder"),
    ]:
        with pytest.raises(FileProblem, match=words):
            files.read(path)
    for text in ("a\0b", "\udcff"):
        with pytest.raises(FileProblem):
            files.write("b.txt", text)
    (files.directory / "folder").mkdir()
    for attempt in (lambda: files.read("folder"), lambda: files.write("folder", "x")):
        with pytest.raises(FileProblem, match="folder"):
            attempt()
    assert not [path.name for path in files.directory.iterdir() if path.name.startswith(".writing")]


def test_the_limits_hold_and_a_file_that_is_replaced_makes_room_for_itself(files: Files) -> None:
    with pytest.raises(FileProblem, match="1,001 bytes"):
        files.write("a", "x" * 1001)
    files.write("a", "x" * 1000)
    files.write("b", "x" * 1000)
    with pytest.raises(FileProblem, match="All files together"):
        files.write("c", "x" * 501)
    files.write("b", "y" * 1000)
    files.write("c", "x" * 500)
    files.write("d/e", "")
    with pytest.raises(FileProblem, match="5 files and folders"):
        files.write("f", "")
    files.write("c", "")
    assert files.read("c") == ""


def test_what_a_killed_write_left_behind_is_no_file_and_is_swept_up(files: Files) -> None:
    files.write("a", "x")
    fresh, old = files.directory / ".writing-fresh", files.directory / ".writing-old"
    for left_over in (fresh, old):
        left_over.write_text("x" * 2500)
    past = time.time() - 3600
    os.utime(old, (past, past))
    assert paths(files) == ["a"]
    files.write("b", "x" * 1000)
    assert (fresh.exists(), old.exists()) == (True, False)


# -- the tools


class NoNotes:
    async def remember(self, key: str, text: str) -> None:
        raise NotImplementedError

    async def recall(self) -> dict[str, str]:
        return {}


async def call(task: Task | None, name: str, **arguments: object) -> ToolResult:
    tool = load_registry().get(name)
    context = ToolContext("conv_1", "call_1", NoNotes(), lambda text, fraction: None, task=task)
    return await tool.call(json.dumps(arguments), context)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Tasks(tmp_path, FileLimits(), BackgroundSetup(built_in_commands())).of("conv_1")


async def test_the_tools_write_list_and_read_in_pages(task: Task) -> None:
    assert (await call(task, "list_files")).content == "There are no files yet."
    lines = "".join(f"line {number}\n" for number in range(1, 11))
    assert await call(task, "write_file", path="a/plan.txt", content=lines) == ToolResult(
        f"Written: a/plan.txt, {len(lines)} bytes."
    )
    assert (await call(task, "list_files")).content == f"a/\na/plan.txt  {len(lines)}"
    assert (await call(task, "read_file", path="a/plan.txt")).content == lines
    page = (await call(task, "read_file", path="a/plan.txt", offset=3, limit=2)).content
    assert page == "line 3\nline 4\n[Lines 3 to 4 of 10; go on with offset 5.]"
    beyond = await call(task, "read_file", path="a/plan.txt", offset=11)
    assert (beyond.is_error, beyond.content) == (True, "a/plan.txt has 10 lines.")
    await call(task, "write_file", path="empty", content="")
    assert (await call(task, "read_file", path="empty")).content == "(The file is empty.)"


async def test_a_page_of_long_lines_ends_where_it_says(task: Task) -> None:
    await call(task, "write_file", path="long", content="\n".join("x" * 5000 for _ in range(5)))
    page = (await call(task, "read_file", path="long")).content
    assert page.endswith("[Lines 1 to 2 of 5; go on with offset 3.]")


async def test_refusals_are_told_to_the_model_and_fail_nothing(task: Task) -> None:
    """E3"""
    for name, arguments in [
        ("write_file", {"path": "../a", "content": "x"}),
        ("read_file", {"path": "/etc/passwd"}),
        ("list_files", {"folder": "../.."}),
    ]:
        result = await call(task, name, **arguments)
        assert result.is_error
        assert "not inside this conversation's folder" in result.content
    assert "no folder for files" in (await call(None, "read_file", path="a")).content


async def test_writes_at_the_same_moment_are_too_much_together_as_well(tmp_path: Path) -> None:
    files = Files(tmp_path / "conv_1", FileLimits(file_bytes=100, total_bytes=500, count=100))

    def write(number: int) -> bool:
        try:
            files.write(f"f{number}", "x" * 100)
        except FileProblem:
            return False
        return True

    written = await asyncio.gather(*(asyncio.to_thread(write, number) for number in range(20)))
    assert sum(written) == 5


@pytest.mark.parametrize("id", ["", "..", "../conv_2", "a/b", "conv_1\0", "x" * 65])
def test_a_task_has_a_folder_of_its_own_or_none(tmp_path: Path, id: str) -> None:
    with pytest.raises(ValueError, match="is no id"):
        Tasks(tmp_path, FileLimits(), BackgroundSetup({})).of(id)
