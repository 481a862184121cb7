"""What events change on a page that is open: a few small operations on nodes that have ids.

    ["put", parent, id, html]   the node with this id becomes this, or is added to its parent, a run before later ones
    ["prepend", parent, html]   older nodes, before those that are there; see `page`
    ["text", id, text]          text is added at the end of the node
    ["remove", id]

Except for added text, doing an operation twice changes nothing. A frame says up to which event of its run it goes, and
a page does none twice.
"""

from typing import Any

from django.contrib.auth.models import User

from runs.models import Run
from runs.transcript.blocks import Add
from runs.transcript.folding import Fold
from runs.transcript.fragments import Fragments, make_viewer
from runs.transcript.items import Item, Question, Said, Thought, ToolUse

Op = list[str]


class WatchedRun:
    """A run on somebody's page."""

    def __init__(self, run: Run, fold: Fold, user: User, *, is_placed: bool) -> None:
        self.run = run
        self.fold = fold
        self.is_placed = is_placed
        self.fragments = Fragments(run, fold, make_viewer(user))
        self._known = {item.key: _shape(item) for item in fold.items}
        self._now = fold.now
        self._has_end = fold.end is not None
        fold.changed.clear()

    @property
    def id(self) -> str:
        return self.run.public_id

    def place(self) -> list[Op]:
        """The whole run, for a page that has nothing of it."""
        html = self.fragments.section()
        self.is_placed = True
        self._settle()
        return [["put", "runs", self.id, html]]

    def renew(self) -> list[Op]:
        """What is still growing, once more: whoever comes back may have it in another cut."""
        ops = [self._put(item) for item in self.fold.items if isinstance(item, Said | Thought) and item.is_open]
        self._settle()
        return ops

    def take_ops(self) -> list[Op]:
        """What has changed since the last time."""
        ops: list[Op] = []
        for item in self.fold.changed.values():
            ops += self._show(item)
        if self.fold.now != self._now:
            ops.append(["put", f"{self.id}-work", f"{self.id}-now", self.fragments.now()])
        if self.fold.end is not None and not self._has_end:
            ops.append(["put", f"{self.id}-work", f"{self.id}-end", self.fragments.end()])
        self._settle()
        return ops

    def _settle(self) -> None:
        for item in self.fold.changed.values():
            self._known[item.key] = _shape(item)
        self.fold.changed.clear()
        self._now = self.fold.now
        self._has_end = self.fold.end is not None

    def _put(self, item: Item) -> Op:
        return ["put", f"{self.id}-items", self.fragments.id_of(item), self.fragments.item(item)]

    def _show(self, item: Item) -> list[Op]:
        before = self._known.get(item.key)
        if before is None:
            return [self._put(item)]
        match item:
            case Said() | Thought():
                return self._grow(item, is_same=before == _shape(item))
            case ToolUse() if before == _shape(item) == ("running",):
                place = self.fragments.id_of(item)
                return [["put", place, f"{place}-p", self.fragments.progress(item)]]
            case Question() if item.is_pending and len(before) == len(item.uses):
                # Whoever is in the middle of the form keeps what they have entered for the other calls.
                place = self.fragments.id_of(item)
                return [
                    ["put", place, f"{place}-{use.index}", self.fragments.decision(item, use)]
                    for use, was_pending in zip(item.uses, before, strict=True)
                    if was_pending and not use.is_pending
                ]
        return [self._put(item)]

    def _grow(self, item: Said | Thought, *, is_same: bool) -> list[Op]:
        place = self.fragments.id_of(item)
        ops: list[Op] = []
        for change in item.take_changes():
            if isinstance(change, Add):
                ops.append(["text", f"{place}-b{change.number}", change.text])
            elif change.html:
                node = self.fragments.node(item, change.number, change.html)
                ops.append(["put", f"{place}-body", f"{place}-b{change.number}", node])
            else:
                ops.append(["remove", f"{place}-b{change.number}"])
        if not is_same and isinstance(item, Said):
            ops.append(["put", place, f"{place}-f", self.fragments.foot(item)])
        elif not is_same and isinstance(item, Thought):
            ops.append(["put", place, f"{place}-s", self.fragments.summary(item)])
        return ops


def _shape(item: Item) -> tuple[Any, ...]:
    """What decides how a later change is shown."""
    match item:
        case ToolUse():
            return (item.state,)
        case Question():
            return tuple(use.is_pending for use in item.uses)
        case Said():
            return (item.is_open,)
        case Thought():
            return (item.is_open, item.seconds)
    return ()
