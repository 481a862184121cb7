"""The background processes of one conversation.

What is known of a process is on the disk: a record and the end of its output, both written by its keeper. So whoever
works for the conversation next finds it, whichever agent or worker that is. What a worker holds is the leash: the other
end of the keeper's standard input. When the worker goes, by whatever way, the leash goes, and the process with it.
"""

import asyncio
import json
import logging
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.background import keeper, marks
from gateway.background.commands import Command

logger = logging.getLogger("gateway.background")

KEEPER = str(Path(keeper.__file__).resolve())
START_SECONDS = 20.0
# What the keeper needs beyond the grace that it gives its command.
PATIENCE_SECONDS = 3.0
KEPT_RECORDS = 20


class ProcessProblem(Exception):
    """A process cannot be started, seen or ended as asked; the message says why."""


@dataclass(frozen=True)
class BackgroundSetup:
    """What all conversations have in common."""

    commands: Mapping[str, Command]
    most: int = 4
    """Running at once in one conversation."""
    seconds: float = 3600.0
    output_bytes: int = 256 * 1024
    grace_seconds: float = 3.0


@dataclass(frozen=True, slots=True)
class ProcessState:
    id: str
    name: str
    arguments: list[str]
    is_running: bool
    started_at: str
    ended_at: str
    exit_code: int | None
    reason: str
    """Why it ended: `itself`, `asked`, `time`, `worker`, or `lost` where nobody was left to say."""


class Leashes:
    """The keepers that this worker has started. They end when it lets go."""

    def __init__(self) -> None:
        self._held: dict[asyncio.Task[int], tuple[asyncio.subprocess.Process, Path]] = {}

    def hold(self, process: asyncio.subprocess.Process, directory: Path) -> None:
        task = asyncio.create_task(process.wait(), name=f"background {process.pid}")
        self._held[task] = (process, directory)
        task.add_done_callback(self._held.pop)

    def has_any(self, directory: Path) -> bool:
        return any(held == directory for _process, held in self._held.values())

    async def let_go(self, seconds: float) -> None:
        for process, _directory in self._held.values():
            if process.stdin is not None:
                process.stdin.close()
        if self._held:
            _, late = await asyncio.wait(set(self._held), timeout=seconds)
            for task in late:
                logger.error("%s did not end in time.", task.get_name())
                task.cancel()


class Processes:
    def __init__(self, directory: Path, workplace: Path, setup: BackgroundSetup, leashes: Leashes) -> None:
        self.directory = directory
        self.workplace = workplace
        self.setup = setup
        self._leashes = leashes
        # Two starts at once could each fit alone and together be too much.
        self._starting = asyncio.Lock()

    async def start(self, name: str, arguments: list[str]) -> ProcessState:
        """Raises `ProcessProblem`, and what the command has against its arguments."""
        if not marks.is_supported():
            raise ProcessProblem("Background processes need Linux, with /proc and pidfd.")
        command = self.setup.commands.get(name)
        if command is None:
            known = ", ".join(sorted(self.setup.commands))
            raise ProcessProblem(f"There is no command {name!r} that may be started. There are: {known}.")
        line = command.make_line(arguments)
        async with self._starting:
            path = await asyncio.to_thread(self._make_room)
            spec = {
                "path": str(path),
                "command": line,
                "cwd": str(self.workplace),
                "seconds": self.setup.seconds,
                "output_bytes": self.setup.output_bytes,
                "grace_seconds": self.setup.grace_seconds,
                "record": {"name": name, "arguments": arguments},
            }
            try:
                answer = await self._launch(spec, str(path))
            except OSError as error:
                answer = str(error)
        if answer != "started":
            await asyncio.to_thread(_remove_record, path)
            raise ProcessProblem(f"{name} could not be started: {answer or 'its keeper ended at once'}.")
        state = await asyncio.to_thread(self._read, path)
        assert state is not None
        return state

    async def _launch(self, spec: dict[str, Any], mark: str) -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            KEEPER,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=marks.make_environment(mark),
            cwd="/",
            start_new_session=True,
        )
        self._leashes.hold(process, self.directory)
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                process.stdin.write(json.dumps(spec).encode() + b"\n")
                await process.stdin.drain()
                return (await process.stdout.readline()).decode(errors="replace").strip()
        except TimeoutError:
            process.stdin.close()
            return f"nothing happened for {START_SECONDS:g} seconds"

    async def states(self) -> list[ProcessState]:
        """The oldest first."""
        return await asyncio.to_thread(self._read_all)

    async def look(self, id: str, characters: int) -> tuple[ProcessState, str]:
        """How it is, and the end of what it said."""
        return await asyncio.to_thread(self._look, id, characters)

    async def end(self, id: str) -> ProcessState:
        """Ends it if it runs, and returns when it has ended."""
        path = self._path_of(id)
        state = await asyncio.to_thread(self._read, path)
        if state is None:
            raise self._unknown(id)
        if state.is_running:
            await asyncio.to_thread(marks.end_marked, lambda marked: marked.mark == str(path), self._patience)
            state = await asyncio.to_thread(self._read, path) or state
        return state

    @property
    def are_here(self) -> bool:
        """Whether there is anything to end: on the disk, or on a leash of this worker where another one that shares the
        disk has removed the records already."""
        return self.directory.exists() or self._leashes.has_any(self.directory)

    async def end_all(self) -> None:
        """Ends whatever runs, and forgets all of it."""
        prefix = f"{self.directory}/"
        if marks.is_supported():
            # Also what a worker started that is gone, or another one.
            await asyncio.to_thread(marks.end_marked, lambda marked: marked.mark.startswith(prefix), self._patience)
        await asyncio.to_thread(_remove_directory, self.directory)

    @property
    def _patience(self) -> float:
        return self.setup.grace_seconds + PATIENCE_SECONDS

    # From here on: in a thread.

    def _make_room(self) -> Path:
        """The path of a new record, if one more process may run."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.workplace.mkdir(parents=True, exist_ok=True, mode=0o700)
        states = self._read_all()
        running = [state.id for state in states if state.is_running]
        if len(running) >= self.setup.most:
            raise ProcessProblem(
                f"{len(running)} processes run already ({', '.join(running)}), and no more are allowed: end one first."
            )
        ended = [state for state in states if not state.is_running]
        for state in ended[: max(0, len(states) - KEPT_RECORDS + 1)]:
            _remove_record(self._path_of(state.id))
        number = max((_number_of(path) for path in self.directory.glob("p*.json")), default=0)
        while True:
            number += 1
            path = self.directory / f"p{number}.json"
            with suppress(FileExistsError):
                # Taken, for whoever looks for a number at the same moment.
                path.touch(mode=0o600, exist_ok=False)
                return path

    def _path_of(self, id: str) -> Path:
        if not (id[:1] == "p" and id[1:].isascii() and id[1:].isdigit() and len(id) < 10):
            raise self._unknown(id)
        return self.directory / f"{id}.json"

    def _unknown(self, id: str) -> ProcessProblem:
        known = ", ".join(path.stem for path in sorted(self.directory.glob("p*.json"), key=_number_of)) or "none"
        return ProcessProblem(f"There is no process {id[:40]!r}. There are: {known}.")

    def _read_all(self) -> list[ProcessState]:
        paths = sorted(self.directory.glob("p*.json"), key=_number_of)
        return [state for path in paths if (state := self._read(path)) is not None]

    def _read(self, path: Path) -> ProcessState | None:
        record = _read_record(path)
        if record is None:
            return None
        says_running = record["state"] == "running"
        is_running = says_running and marks.is_alive(record["pid"], str(path))
        if says_running and not is_running:
            # It may have ended between the two looks. If not, its keeper was killed and could not say so.
            record = _read_record(path) or record
        return ProcessState(
            id=path.stem,
            name=record["name"],
            arguments=record["arguments"],
            is_running=is_running,
            started_at=record["started_at"],
            ended_at=record.get("ended_at", ""),
            exit_code=record.get("exit_code"),
            reason="" if is_running else record.get("reason", "lost"),
        )

    def _look(self, id: str, characters: int) -> tuple[ProcessState, str]:
        path = self._path_of(id)
        state = self._read(path)
        if state is None:
            raise self._unknown(id)
        try:
            with path.with_suffix(".log").open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                # A character has four bytes at most; the first one may be cut.
                log.seek(max(0, size - 4 * characters))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            text = ""
        return state, text[-characters:]


def end_orphans(directory: Path, grace_seconds: float) -> int:
    """End what workers that are gone have left running, in whichever conversation; how many processes that were."""
    prefix = f"{directory}/"
    if not marks.is_supported():
        return 0
    return marks.end_marked(
        lambda marked: marked.mark.startswith(prefix) and marks.is_orphan(marked), grace_seconds + PATIENCE_SECONDS
    )


def _read_record(path: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None  # not there, or only just begun
    return record


def _number_of(path: Path) -> int:
    digits = path.stem[1:]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def _remove_record(path: Path) -> None:
    for each in (path, path.with_suffix(".log"), path.with_suffix(".new"), path.with_suffix(".cut")):
        each.unlink(missing_ok=True)


def _remove_directory(directory: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(directory)
