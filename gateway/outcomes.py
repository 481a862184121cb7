"""How a run's work ended: a closed union. And why it was interrupted, where it was."""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from gateway.errors import ErrorType


class Cause(Enum):
    """Why a run is interrupted. The order is the rank: a stop beats the time limit, and nothing beats a lost lease."""

    SHUTDOWN = 1
    TIME_LIMIT = 2
    STOP = 3
    LEASE_LOST = 4


@dataclass(frozen=True, slots=True)
class Finished:
    text: str


@dataclass(frozen=True, slots=True)
class LimitReached:
    limit: Literal["max_steps", "max_time", "budget"]


@dataclass(frozen=True, slots=True)
class Stopped:
    pass


@dataclass(frozen=True, slots=True)
class Failed:
    error_type: ErrorType
    message: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class HandedBack:
    """The worker shuts down: nothing was closed, the run goes on elsewhere."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Another worker has the run: whatever this one did since is not to be written."""


Outcome = Finished | LimitReached | Stopped | Failed | HandedBack | Lost
