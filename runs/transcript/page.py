"""The newest part of a conversation, and the older ones on demand: what a page shows at once is bounded, however long
the conversation is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils.safestring import SafeString, mark_safe

from runs.models import ACTIVE, Conversation, Run, Status
from runs.shell import add_shell
from runs.transcript.folding import Fold
from runs.transcript.fragments import Fragments, make_viewer
from runs.transcript.frames import Op
from runs.transcript.items import Item
from runs.transcript.log import fold_runs
from runs.transcript.state import state_of

# So many items are shown at once; a run that has more is cut, others are shown whole.
WINDOW = 40
# So many runs are looked at together.
CHUNK = 20
RUN_ID = re.compile(r"run_[0-9a-f]{1,32}")


@dataclass(frozen=True)
class Transcript:
    html: SafeString
    state: dict[str, Any]
    after: str
    """The last event of each run that is shown here or may still change: where the live connection goes on."""
    before: str
    """Where the older part begins; empty where there is none."""
    is_excerpt: bool = False
    """An earlier part, with others missing between it and the end."""


@dataclass(frozen=True)
class Stretch:
    """Runs, oldest first, of the first one perhaps only the last items."""

    runs: list[tuple[Run, Fold]]
    first_item: int
    has_older: bool

    @property
    def cursor(self) -> str:
        if self.first_item:
            return f"{self.runs[0][0].public_id}:{self.first_item}"
        return self.runs[0][0].public_id if self.has_older else ""

    def sections(self, user: User) -> list[tuple[Fragments, Sequence[Item] | None]]:
        viewer = make_viewer(user)
        return [
            (Fragments(run, fold, viewer), fold.items[self.first_item :] if number == 0 and self.first_item else None)
            for number, (run, fold) in enumerate(self.runs)
        ]


def runs_of(conversation: Conversation) -> QuerySet[Run]:
    """Those that are, or will be, a part of it."""
    return Run.objects.filter(conversation=conversation, is_withdrawn=False).select_related(
        "agent", "conversation", "owner"
    )


def open_transcript(conversation: Conversation, user: User, around: str | None = None) -> Transcript:
    """What a page shows first: the end of the conversation, or the part that ends with the run `around`."""
    runs = runs_of(conversation)
    active = list(runs.filter(status__in=ACTIVE).order_by("pk"))
    # Behind the first one they only wait: they are in the composer's queue, not in the transcript.
    waiting = [run for run in active[1:] if run.status == Status.QUEUED and run.started_at is None]
    shown = runs.exclude(pk__in=[run.pk for run in waiting])
    folds = fold_runs(waiting)
    newest = stretch = _read_back(shown)
    target = _find_run(runs, around) if around else None
    is_excerpt = False
    if target is not None and target.pk not in [run.pk for run, _fold in stretch.runs]:
        stretch = _read_back(shown.filter(pk__lte=target.pk))
        is_excerpt = True
    last = newest.runs[-1] if newest.runs else None
    # A run that was stopped before its turn says nothing about how the conversation stands.
    begun = next((pair for pair in reversed(newest.runs) if pair[1].has_begun), last)
    shown_run = next(((run, fold) for run, fold in newest.runs if fold.end is None), begun)
    behind = [(run, folds[run.pk]) for run in waiting]
    known = [*((run, fold) for run, fold in newest.runs if fold.end is None or (run, fold) in (last, begun)), *behind]
    return Transcript(
        html=mark_safe("".join(part.section(items) for part, items in stretch.sections(user))),  # noqa: S308
        state=add_shell(state_of(shown_run, behind), conversation),
        after=",".join(f"{run.public_id}:{fold.seq}" for run, fold in known),
        before=stretch.cursor if stretch.runs else "",
        is_excerpt=is_excerpt,
    )


def read_older(conversation: Conversation, user: User, before: str) -> tuple[list[Op], str] | None:
    """The part before a cursor, as operations, and the next cursor; None where the cursor names no run of this
    conversation."""
    run_id, _, number = before.partition(":")
    runs = runs_of(conversation)
    run = _find_run(runs, run_id)
    if run is None or not (number or "0").isdecimal():
        return None
    if number:
        return _read_within(run, user, int(number[:9]), runs)
    stretch = _read_back(runs.filter(pk__lt=run.pk))
    html = "".join(part.section(items) for part, items in stretch.sections(user))
    return [["prepend", "runs", html]], stretch.cursor if stretch.runs else ""


def _find_run(runs: QuerySet[Run], run_id: str) -> Run | None:
    """What comes from an address may be anything, and not every database takes that."""
    return runs.filter(public_id=run_id).first() if RUN_ID.fullmatch(run_id) else None


def _read_within(run: Run, user: User, number: int, runs: QuerySet[Run]) -> tuple[list[Op], str]:
    """More of a run that has too many items to be shown at once."""
    part = Fragments(run, fold_runs([run])[run.pk], make_viewer(user))
    first = max(number - WINDOW, 0)
    items = part.fold.items[first:number]
    ops: list[Op] = [["prepend", f"{part.id}-items", "".join(part.item(item) for item in items)]]
    if first:
        return ops, f"{part.id}:{first}"
    ops.append(["put", part.id, f"{part.id}-in", part.asked()])
    return ops, part.id if runs.filter(pk__lt=run.pk).exists() else ""


def _read_back(runs: QuerySet[Run]) -> Stretch:
    """The last of these runs, as many as fill a window."""
    read: list[tuple[Run, Fold]] = []
    count = 0
    while count < WINDOW:
        earlier = runs.filter(pk__lt=read[-1][0].pk) if read else runs
        chunk = list(earlier.order_by("-pk")[:CHUNK])
        folds = fold_runs(chunk)
        for run in chunk:
            read.append((run, folds[run.pk]))
            count += len(folds[run.pk].items) + 1
            if count >= WINDOW:
                break
        if len(chunk) < CHUNK:
            break
    read.reverse()
    if not read:
        return Stretch([], 0, has_older=False)
    oldest, fold = read[0]
    first_item = len(fold.items) - WINDOW if len(fold.items) > WINDOW else 0
    return Stretch(read, first_item, has_older=runs.filter(pk__lt=oldest.pk).exists())
