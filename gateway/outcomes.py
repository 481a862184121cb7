"""How a run's work ended: a closed union. And why it was interrupted, where it was."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from gateway.errors import ErrorType
from gateway.messages import ToolCall


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
class Ask:
    """A call that a person must decide on, as that person needs to see it."""

    call: ToolCall
    arguments: dict[str, Any]
    parameters: Mapping[str, Any]
    description: str


@dataclass(frozen=True, slots=True)
class NeedsApproval:
    """The step stays open: it goes on when every one of these is decided. `why` is what the model said before."""

    asks: tuple[Ask, ...]
    why: str


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


Outcome = Finished | NeedsApproval | LimitReached | Stopped | Failed | HandedBack | Lost


def outcome_of(cause: Cause) -> Outcome:
    match cause:
        case Cause.STOP:
            return Stopped()
        case Cause.TIME_LIMIT:
            return LimitReached("max_time")
        case Cause.SHUTDOWN:
            return HandedBack()
        case Cause.LEASE_LOST:
            return Lost()


def words_for(outcome: Outcome) -> str:
    match outcome:
        case Stopped():
            return "was stopped"
        case LimitReached("max_time"):
            return "reached its time limit"
        case _:
            return "ended"
