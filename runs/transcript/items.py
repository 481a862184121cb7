"""What a transcript is made of. An item knows its key, which together with the run's id is its id on the page: it
depends on what happened before it in the run and on nothing else, so that it is the same after a reload."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from runs.transcript.blocks import Change, GrowingText
from runs.transcript.markdown import render_blocks
from runs.transcript.parsing import read_json


@dataclass
class Text:
    """Words of the model. While it is open they still come."""

    number: int
    at: datetime
    text: str = ""
    is_open: bool = True
    _fresh: list[str] = field(default_factory=list)
    _growing: GrowingText | None = None
    _rendered: int = 0

    def add(self, text: str) -> None:
        self.is_open = True
        self._fresh.append(text)

    def close(self, text: str | None = None) -> None:
        """No more comes. `text` is the whole, where it is known."""
        self._gather()
        self.text = self.text if text is None else text
        self.is_open = False

    def take_changes(self) -> list[Change]:
        """What is to be seen differently since the last time."""
        self._gather()
        if not self.is_open:
            growing, self._growing, self._rendered = self._growing or GrowingText(), None, 0
            return growing.finish(self.text)
        self._growing = self._growing or GrowingText()
        fresh, self._rendered = self.text[self._rendered :], len(self.text)
        return self._growing.add(fresh) if fresh else []

    @property
    def nodes(self) -> list[str]:
        """All of it, block by block."""
        if not self.is_open:
            return render_blocks(self.text)
        self.take_changes()
        assert self._growing is not None
        return self._growing.nodes

    def _gather(self) -> None:
        self.text += "".join(self._fresh)
        self._fresh.clear()


@dataclass
class Said(Text):
    is_partial: bool = False

    @property
    def key(self) -> str:
        return f"m{self.number}"


@dataclass
class Thought(Text):
    seconds: float | None = None

    @property
    def key(self) -> str:
        return f"t{self.number}"


@dataclass
class Approval:
    """Somebody must decide, or has decided, about a call."""

    schema: dict[str, Any]
    description: str
    expires_at: datetime | None
    on_expiry: str
    is_pending: bool = True
    is_approved: bool = False
    is_edited: bool = False
    decided_by: str = ""
    decided_via: str = ""
    decided_at: datetime | None = None
    reason: str = ""


@dataclass
class ToolUse:
    """A tool's work: from the model's wish to the result."""

    number: int
    index: int
    call_id: str
    name: str
    arguments: Any
    state: str = "waiting"
    """waiting, running, then finished, failed, interrupted, not_started or denied"""
    seconds: float | None = None
    started_at: datetime | None = None
    progress: str = ""
    fraction: float | None = None
    result: str = ""
    approval: Approval | None = None

    @property
    def key(self) -> str:
        return f"c{self.number}-{self.index}"

    @property
    def is_pending(self) -> bool:
        return self.approval is not None and self.approval.is_pending

    @property
    def is_over(self) -> bool:
        return self.state not in ("waiting", "running")


@dataclass
class Question:
    """The calls of one step that need an approval: one form for all of them."""

    number: int
    why: str
    uses: list[ToolUse] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"a{self.number}"

    @property
    def is_pending(self) -> bool:
        return any(use.is_pending for use in self.uses)


@dataclass
class Note:
    """Something that happened and that the reader may want to know, in one quiet line."""

    seq: int
    kind: str
    at: datetime
    details: dict[str, Any]

    @property
    def key(self) -> str:
        return f"e{self.seq}"


Item = Said | Thought | ToolUse | Question | Note


def read_arguments(raw: str) -> Any:
    """The model's arguments, as far as they are JSON; else its words as they are."""
    try:
        return read_json(raw)
    except ValueError:
        return raw
