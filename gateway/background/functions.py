"""What can always be started in the background, also where no command is allowed: functions that count and say so.

    python functions.py countdown 10

Run as a program of its own, by its path and without this project on the path: it imports the standard library only.
"""

import sys
import time
from collections.abc import Callable

LONGEST = 86_400


def countdown(seconds: str = "10") -> None:
    """Count down from a number of seconds, one line a second."""
    left = _read(seconds)
    while left > 0:
        _say(f"{left:g} seconds left")
        time.sleep(min(1.0, left))
        left -= 1
    _say("done")


def heartbeat(seconds: str = "1", count: str = "60") -> None:
    """Say that it is alive every so many seconds, so many times."""
    interval, beats = max(_read(seconds), 0.01), int(_read(count))
    for number in range(1, beats + 1):
        _say(f"beat {number} of {beats}")
        time.sleep(interval)
    _say("done")


FUNCTIONS: dict[str, Callable[..., None]] = {"countdown": countdown, "heartbeat": heartbeat}


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _read(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= LONGEST:
        sys.exit(f"{text!r} must be a number from 0 to {LONGEST}.")
    return number


def main(name: str, *arguments: str) -> None:
    try:
        FUNCTIONS[name](*arguments)
    except TypeError:
        sys.exit(f"{name} takes fewer arguments.")


if __name__ == "__main__":
    main(*sys.argv[1:])
