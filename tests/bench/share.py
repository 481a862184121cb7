"""A process that gets no more than its share of a processor, as in a container with a limit.

By the kernel's control groups, which only root may make: the newer kind (`cpu.max`) or the older (`cpu.cfs_quota_us`).
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PERIOD = 100_000
OLDER = Path("/sys/fs/cgroup/cpu")
NEWER = Path("/sys/fs/cgroup")


@contextmanager
def held_to(share: float, pid: int) -> Iterator[None]:
    is_older = (OLDER / "cpu.cfs_quota_us").exists()
    parent = OLDER if is_older else NEWER
    room = parent / f"agentsite-bench-{pid}"
    room.mkdir()
    try:
        quota = str(int(share * PERIOD))
        if is_older:
            (room / "cpu.cfs_period_us").write_text(str(PERIOD))
            (room / "cpu.cfs_quota_us").write_text(quota)
        else:
            (parent / "cgroup.subtree_control").write_text("+cpu")
            (room / "cpu.max").write_text(f"{quota} {PERIOD}")
        (room / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        (parent / "cgroup.procs").write_text(str(pid))
        while (room / "cgroup.procs").read_text():
            time.sleep(0.05)
        room.rmdir()
