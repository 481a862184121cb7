"""An action that cannot be done."""

from dataclasses import dataclass


@dataclass
class Refused(Exception):
    """An action that cannot be done, in words for the caller. `status` is what HTTP calls it."""

    status: int
    code: str
    message: str
    param: str | None = None

    def __str__(self) -> str:
        return self.message
