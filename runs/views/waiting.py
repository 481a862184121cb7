"""What waits for somebody's decision."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils.safestring import SafeString, mark_safe

from runs import access
from runs.models import ApprovalStatus, Run, Status
from runs.transcript.fragments import Fragments, make_viewer
from runs.transcript.items import Question
from runs.transcript.log import fold_runs


@dataclass(frozen=True)
class Waiting:
    run: Run
    key: str
    """The same for as long as the same is asked."""
    html: SafeString
    """The form, as the conversation shows it."""
    why: str
    """What the model said before it asked."""
    since: datetime


def waiting_runs(user: User) -> QuerySet[Run]:
    """Runs that this person may decide on: their own, and for staff everybody's; the longest waiting first."""
    return access.visible_runs(user).filter(status=Status.REQUIRES_APPROVAL).order_by("pk")


def count_waiting(user: User) -> int:
    return waiting_runs(user).count()


def read_waiting(runs: Sequence[Run], user: User) -> list[Waiting]:
    folds = fold_runs(runs)
    viewer = make_viewer(user)
    approvals = access.decidable_approvals(user).filter(run__in=runs, status=ApprovalStatus.PENDING).order_by("-pk")
    first = {approval.run_id: approval for approval in approvals}
    waiting = []
    for run in runs:
        fragments = Fragments(run, folds[run.pk], viewer)
        asked = [item for item in folds[run.pk].items if isinstance(item, Question) and item.is_pending]
        html = mark_safe("".join(fragments.question(item) for item in asked))  # noqa: S308
        if run.pk in first:  # and not decided in this very moment
            key = "-".join([run.public_id, *(item.key for item in asked)])
            waiting.append(Waiting(run, key, html, first[run.pk].why, first[run.pk].requested_at))
    return waiting
