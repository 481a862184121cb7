"""Finding processes by the mark that they carry, and ending them, without ever hitting a stranger.

A number of a process means nothing once the process is gone: the next one may get it. So whatever is started in the
background carries a mark in its environment, which its own children inherit: whose it is, and which worker started it.
A process is opened first (a *pidfd* means that one process and never its successor), then its mark is read, and only
then is it signalled.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gateway.background.keeper import KEEPER

MARK = "AGENTSITE_BACKGROUND"
OWNER = "AGENTSITE_BACKGROUND_OWNER"
LOOK_SECONDS = 0.02
KILL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Marked:
    mark: str
    """The path of its record."""
    owner: str
    is_keeper: bool


def is_supported() -> bool:
    return hasattr(os, "pidfd_open") and Path("/proc/self/environ").exists()


def make_environment(mark: str) -> dict[str, str]:
    """For a background process: what programs need, and nothing of what this process knows (keys, addresses)."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR") if name in os.environ}
    return {**kept, MARK: mark, OWNER: _describe_process(os.getpid()), KEEPER: "1"}


def is_orphan(marked: Marked) -> bool:
    """Whether the worker that started it is gone."""
    pid = marked.owner.partition(":")[0]
    return not (pid.isdigit() and _describe_process(int(pid)) == marked.owner)


def is_alive(pid: int, mark: str) -> bool:
    """Whether that process is there and is still the one with that mark."""
    with _opened(pid) as descriptor:
        marked = _read_mark(pid) if descriptor is not None else None
    return marked is not None and marked.mark == mark


def end_marked(is_wanted: Callable[[Marked], bool], grace_seconds: float) -> int:
    """End all processes whose mark is wanted; how many there were. Those that do not go within the time are killed."""
    # A keeper ends what it keeps and says why; the others are told themselves only where no keeper is left.
    found = _signal_marked(lambda marked: marked.is_keeper and is_wanted(marked), signal.SIGTERM)
    found = found or _signal_marked(is_wanted, signal.SIGTERM)
    if not found:
        return 0
    give_up_at = time.monotonic() + grace_seconds
    while time.monotonic() < give_up_at and _signal_marked(is_wanted, None):
        time.sleep(LOOK_SECONDS)
    give_up_at = time.monotonic() + KILL_SECONDS
    while _signal_marked(is_wanted, signal.SIGKILL) and time.monotonic() < give_up_at:
        time.sleep(LOOK_SECONDS)
    return found


def _signal_marked(is_wanted: Callable[[Marked], bool], number: signal.Signals | None) -> int:
    count = 0
    for pid in [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]:
        with _opened(pid) as descriptor:
            marked = _read_mark(pid) if descriptor is not None else None
            if marked is None or descriptor is None or not is_wanted(marked):
                continue
            count += 1
            if number is not None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, number)
    return count


@contextmanager
def _opened(pid: int) -> Iterator[int | None]:
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_mark(pid: int) -> Marked | None:
    """None for those without a mark, of others, and dead ones, whose environment is empty."""
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    if MARK.encode() not in content:
        return None
    values = dict(line.split("=", 1) for line in os.fsdecode(content).split("\0") if "=" in line)
    return Marked(values[MARK], values.get(OWNER, ""), KEEPER in values) if MARK in values else None


def _describe_process(pid: int) -> str:
    """A process and no other, ever: its number and the moment it began, on this boot of the machine."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    # The name, in parentheses, may hold anything; what follows is numbers. The twentieth of those is the start.
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else f"{pid}:{fields[19]}:{boot}"
