"""A process's clock, moved from outside: as by a new time server, or on a machine that slept.

Imported by the tools of these tests, and so by every process that loads them. Where CLOCK_JUMPS is set, the file
`clock` in the process's data directory says by how many seconds its clock is wrong, and is read at every look at the
clock. The clock that only counts on is left alone: that one does not jump.
"""

import os
import time
from datetime import datetime, timedelta
from pathlib import Path

from django.utils import timezone

FILE = "clock"

real_time, real_now = time.time, timezone.now


def seconds_wrong() -> float:
    try:
        return float((Path(os.environ["AGENTSITE_DATA"]) / FILE).read_text() or 0)
    except FileNotFoundError:
        return 0


def wrong_time() -> float:
    return real_time() + seconds_wrong()


def wrong_now() -> datetime:
    return real_now() + timedelta(seconds=seconds_wrong())


if "CLOCK_JUMPS" in os.environ:
    time.time, timezone.now = wrong_time, wrong_now
