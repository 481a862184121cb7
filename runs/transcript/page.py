"""The newest part of a conversation, or the one that a link leads to, and its neighbours on demand: what a page shows
at once is bounded, however long the conversation is."""

import re
from collections.abc import Iterable, Sequence
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
    beyond: str = ""
    """Where the newer part begins, for an earlier part with others between it and the end; empty at the end."""

    @property
    def is_excerpt(self) -> bool:
        return bool(self.beyond)


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


def _set_apart(runs: QuerySet[Run]) -> tuple[QuerySet[Run], list[Run]]:
    """Those that a transcript shows, and those that only wait behind an active one: the composer's queue shows them."""
    active = list(runs.filter(status__in=ACTIVE).order_by("pk"))
    waiting = [run for run in active[1:] if run.status == Status.QUEUED and run.started_at is None]
    return runs.exclude(pk__in=[run.pk for run in waiting]), waiting


def open_transcript(conversation: Conversation, user: User, around: str | None = None) -> Transcript:
    """What a page shows first: the end of the conversation, or the part that ends with the run `around`."""
    shown, waiting = _set_apart(runs_of(conversation))
    folds = fold_runs(waiting)
    newest = stretch = _read_back(shown)
    target = _find_run(shown, around) if around else None
    beyond = ""
    if target is not None and target.pk not in [run.pk for run, _fold in stretch.runs]:
        stretch = _read_back(shown.filter(pk__lte=target.pk))
        beyond = target.public_id
    last = newest.runs[-1] if newest.runs else None
    # A run that was stopped before its turn says nothing about how the conversation stands.
    begun = next((pair for pair in reversed(newest.runs) if pair[1].has_begun), last)
    shown_run = next(((run, fold) for run, fold in newest.runs if fold.end is None), begun)
    behind = [(run, folds[run.pk]) for run in waiting]
    known = [*((run, fold) for run, fold in newest.runs if fold.end is None or (run, fold) in (last, begun)), *behind]
    return Transcript(
        html=mark_safe("".join(part.section(items) for part, items in stretch.sections(user))),  # noqa: S308
        state=add_shell(state_of(shown_run, behind), conversation),
        after=_places_of(known),
        before=stretch.cursor if stretch.runs else "",
        beyond=beyond,
    )


def _places_of(runs: Iterable[tuple[Run, Fold]]) -> str:
    return ",".join(f"{run.public_id}:{fold.seq}" for run, fold in runs)


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


@dataclass(frozen=True)
class Newer:
    ops: list[Op]
    beyond: str
    """The next cursor; empty where the conversation's end has been reached."""
    after: str
    """How far this goes in runs that may still change; at the end, where the live connection goes on from."""


def read_newer(conversation: Conversation, user: User, beyond: str) -> Newer | None:
    """The part behind a cursor. Whoever reads downwards meets a run at its beginning, so it is shown whole."""
    runs = runs_of(conversation)
    run = _find_run(runs, beyond)
    if run is None:
        return None
    shown, waiting = _set_apart(runs)
    later = list(shown.filter(pk__gt=run.pk).order_by("pk")[:CHUNK])
    folds = fold_runs([*later, *waiting])
    read: list[Run] = []
    count = 0
    for next_run in later:
        read.append(next_run)
        count += len(folds[next_run.pk].items) + 1
        if count >= WINDOW:
            break
    viewer = make_viewer(user)
    ops = [["put", "runs", each.public_id, Fragments(each, folds[each.pk], viewer).section()] for each in read]
    last = read[-1] if read else run
    is_end = not shown.filter(pk__gt=last.pk).exists()
    begun = next((each for each in reversed(read) if folds[each.pk].has_begun), last)
    live = [each for each in read if folds[each.pk].end is None or (is_end and each in (last, begun))]
    return Newer(
        ops=ops,
        beyond="" if is_end else last.public_id,
        after=_places_of((each, folds[each.pk]) for each in [*live, *(waiting if is_end else ())]),
    )


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
