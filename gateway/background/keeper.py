"""Keeps one background process: starts it, keeps the end of its output, and ends it with everything that it started.

    echo '{"command": […], …}' | python keeper.py

A program of its own between the worker and the command, so that no command outlives its worker, whatever kills that:
the worker holds the other end of this program's standard input, and when that closes, the command is ended. The command
has a process group of its own; what it starts and lets go of comes back to this program (a *subreaper*), and what is
left in the end is killed. Should this program itself be killed, the kernel kills the command (PDEATHSIG).

Reports on its standard output, once, that the command has started, or why not. Run by its path and without this
project: it imports the standard library only.
"""

import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KEEPER = "AGENTSITE_BACKGROUND_KEEPER"  # says which of the marked processes is the keeper
PIECE = 65_536
DROPPED = b"[Earlier output was dropped.]\n"
KILLING_ROUNDS = 100


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


class Log:
    """The end of the output, in a file that never grows beyond twice what is kept."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self.limit = limit
        self.file = path.open("ab")

    def add(self, piece: bytes) -> None:
        with suppress(
            OSError
        ):  # a full disk, or a conversation that is gone, must not end the keeper before its command
            self._add(piece)

    def _add(self, piece: bytes) -> None:
        self.file.write(piece)
        self.file.flush()
        if self.file.tell() > 2 * self.limit:
            kept = self.path.read_bytes()[-self.limit :]
            shorter = self.path.with_suffix(".cut")
            shorter.write_bytes(DROPPED + kept)
            shorter.rename(self.path)
            self.file.close()
            self.file = self.path.open("ab")


class Keeper:
    def __init__(self, spec: dict[str, Any]) -> None:
        self.record: dict[str, Any] = spec["record"]
        self.path = Path(spec["path"])
        self.grace: float = spec["grace_seconds"]
        self.deadline = time.monotonic() + spec["seconds"]
        self.log = Log(self.path.with_suffix(".log"), spec["output_bytes"])
        self.reason = ""
        self.has_told_to_end = False
        # The kernel writes to the pipe when a signal comes: so waiting for signals and for output is one thing.
        self.alarm, alarm_end = os.pipe()
        for end in (self.alarm, alarm_end):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(alarm_end, warn_on_full_buffer=False)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self.end("asked"))
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.write_record(pid=os.getpid(), state="running", started_at=now())
        me = os.getpid()

        def die_with_keeper() -> None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != me:
                os._exit(1)

        self.child = subprocess.Popen(
            spec["command"],
            cwd=spec["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name != KEEPER},
            preexec_fn=die_with_keeper,
        )
        assert self.child.stdout is not None
        self.output = self.child.stdout.fileno()
        os.set_blocking(self.output, False)

    def end(self, reason: str) -> None:
        self.reason = self.reason or reason

    def run(self) -> None:
        ready = selectors.DefaultSelector()
        for descriptor in (sys.stdin.fileno(), self.alarm, self.output):
            ready.register(descriptor, selectors.EVENT_READ)
        while not self.has_exited():
            left = self.deadline - time.monotonic()
            if left <= 0 and self.has_told_to_end:
                break
            if left <= 0:
                self.end("time")
            if self.reason and not self.has_told_to_end:
                self.tell_to_end()
                continue
            for key, _ in ready.select(max(left, 0)):
                if key.fd == self.output:
                    if not self.take_output():
                        ready.unregister(self.output)
                elif key.fd == self.alarm:
                    os.read(self.alarm, PIECE)
                elif not os.read(key.fd, PIECE):
                    ready.unregister(key.fd)
                    self.end("worker")
        self.finish()

    def has_exited(self) -> bool:
        """Without reaping it: as long as it is not reaped, its number and its group's belong to nobody else. Others
        that have come back to us and ended are reaped on the way."""
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == self.child.pid:
                return True
            os.waitpid(ended.si_pid, 0)
        return False

    def tell_to_end(self) -> None:
        self.has_told_to_end = True
        self.deadline = time.monotonic() + self.grace
        self.signal_group(signal.SIGTERM)

    def take_output(self) -> bool:
        """Whether there may be more."""
        try:
            piece = os.read(self.output, PIECE)
        except BlockingIOError:
            return True
        if piece:
            self.log.add(piece)
        return bool(piece)

    def signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.child.pid, number)

    def finish(self) -> None:
        """The command has ended, or did not want to: nothing of it stays."""
        self.signal_group(signal.SIGKILL)
        exit_code = self.child.wait()
        for _ in range(KILLING_ROUNDS):
            if not self.kill_children():
                break
        self.drain_output()
        with suppress(OSError):  # the conversation is gone, and its folder with it
            self.write_record(state="ended", ended_at=now(), reason=self.reason or "itself", exit_code=exit_code)

    def drain_output(self) -> None:
        while True:
            try:
                piece = os.read(self.output, PIECE)
            except BlockingIOError:
                return
            if not piece:
                return
            self.log.add(piece)

    def kill_children(self) -> bool:
        """What the command let go of has become ours. Whether there was any."""
        try:
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        except OSError:
            return False  # a kernel that does not tell; their mark finds them at the next start
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        for child in children:
            os.waitpid(int(child), 0)
        return bool(children)

    def write_record(self, **changes: Any) -> None:
        self.record |= changes
        written = self.path.with_suffix(".new")
        written.write_text(json.dumps(self.record))
        written.rename(self.path)


def now() -> str:
    return datetime.now(UTC).isoformat()


def read_line() -> bytes:
    """What to do. Nothing else ever comes on this way but its end."""
    line = b""
    while not line.endswith(b"\n") and (piece := os.read(sys.stdin.fileno(), PIECE)):
        line += piece
    return line


def main() -> None:
    line = read_line()
    if not line:
        return  # the worker was gone before it could say what to do
    try:
        keeper = Keeper(json.loads(line))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        os.write(sys.stdout.fileno(), f"{error}\n".encode())
        return
    with suppress(OSError):  # a worker that is gone already: the loop will see that, too
        os.write(sys.stdout.fileno(), b"started\n")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    keeper.run()


if __name__ == "__main__":
    main()
