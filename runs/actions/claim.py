"""A worker takes runs, keeps them, and hands them back. Everything it needs to go on is in a `Claim`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.expressions import Combinable, NegatedExpression
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from runs import events
from runs.actions.ending import Ending, Usage, change_status, end_without_worker, let_go, usage_so_far
from runs.actions.placing import ended_before, last_positions, place_inputs
from runs.actions.stored import is_reasoning_shown, last_seq, started_calls, unfinished_text
from runs.database import writing
from runs.dispatch import dispatch
from runs.models import UNDER_WAY, Event, Message, Run, Status, StopReason, Worker


@dataclass(frozen=True)
class Claim:
    """A run in a worker's hands, and what the worker needs to go on with it."""

    run: Run
    new_messages: list[Message]
    position_before: int
    next_seq: int
    unfinished_text: str
    is_reasoning_shown: bool
    started_calls: frozenset[str]


def claim_runs(
    worker: str, limit: int, rung: Sequence[int] | None = None, *, overdue_seconds: float = 0
) -> list[Claim]:
    """Take runs whose turn it is: the oldest waiting one of each conversation in which nothing is under way. `rung` are
    the ones to look at, where a ring said which; None looks at all, or at those that could have been taken for some
    time and were not."""
    ahead = Run.objects.filter(conversation=OuterRef("conversation")).filter(
        Q(status__in=UNDER_WAY) | Q(status=Status.QUEUED, pk__lt=OuterRef("pk"))
    )
    waiting = Q(status=Status.QUEUED) if rung is None else Q(status=Status.QUEUED, pk__in=rung)
    if overdue_seconds:
        # Whoever should take them may be about to. A time that lies further ahead is a wrong clock's.
        just_now = (Now() - timedelta(seconds=overdue_seconds), Now() + timedelta(seconds=overdue_seconds))
        before_it = Run.objects.filter(conversation=OuterRef("conversation"), ended_at__range=just_now)
        waiting &= ~Q(queued_at__range=just_now) & ~Q(Exists(before_it))
    with writing():
        return _claim(worker, _lock_runs(waiting, ~Exists(ahead), limit=limit), timezone.now())


def claim_lost_runs(worker: str, limit: int, in_hand: Collection[int] = ()) -> list[Claim]:
    """Take runs whose worker was lost: its lease has run out, by the database's clock. Not those that the caller has
    in hand: it was only slow to renew them, or the clock jumped."""
    now = timezone.now()
    is_lost = Q(status=Status.RUNNING, lease_expires_at__lt=Now()) & ~Q(pk__in=in_hand, worker=worker)
    if not Run.objects.filter(is_lost).exists():
        return []
    with writing():
        if _drains(worker):
            return []
        going_on = []
        for run in _lock_runs(is_lost, limit=limit):
            run.losses += 1
            if not _end_lost_run(run, now):
                run.save(update_fields=["losses"])
                going_on.append(run)
        return _claim(worker, going_on, now)


def _claim(worker: str, runs: list[Run], now: datetime) -> list[Claim]:
    """Make locked runs this worker's: a handful of queries, however many they are."""
    if not runs or _drains(worker):
        return []
    # Where no run has ended yet, this is the first one: nothing stands before its input.
    later = [run for run in runs if run.conversation.last_stop_reason or run.started_at is not None]
    before = last_positions([run.conversation_id for run in later]) if later else {}
    placed = place_inputs(runs, ended_before(later) if later else [], before)
    unfinished = {run.pk: _what_is_left_of(run) for run in runs if run.started_at is not None}
    for run in runs:
        change_status(run, Status.RUNNING)
        run.worker = run.last_worker = worker
        run.attempt += 1
        run.lease_expires_at = now + timedelta(seconds=settings.AGENTSITE["LEASE_SECONDS"])
        run.started_at = run.started_at or now
        run.is_input_placed = True
    Run.objects.filter(pk__in=[run.pk for run in runs]).update(
        status=Status.RUNNING,
        worker=worker,
        last_worker=worker,
        attempt=F("attempt") + 1,
        lease_expires_at=_lease_end(),
        started_at=Coalesce("started_at", now),
        is_input_placed=True,
    )
    for run in [run for run in runs if run.agent_version != run.agent.version]:
        run.agent_version = run.agent.version
        run.save(update_fields=["agent_version"])
    claims = []
    written = []
    for run in runs:
        # A run that never started has one event, the first, and one for each time its input was changed.
        seq, text, is_reasoning_shown, calls = unfinished.get(run.pk, (1 + run.edits, "", False, frozenset()))
        started = events.write_event(
            run,
            seq + 1,
            events.RUN_STARTED,
            now,
            {
                "agent": run.agent.slug,
                "agent_version": run.agent_version,
                "model": run.agent.model,
                "attempt": run.attempt,
                "input": run.input_text,
            },
        )
        written.append(started)
        new_messages = [message for message in placed if message.conversation_id == run.conversation_id]
        position = before.get(run.conversation_id, 0)
        claims.append(Claim(run, new_messages, position, seq + 2, text, is_reasoning_shown, calls))
    Event.objects.bulk_create(written)
    transaction.on_commit(lambda: _show(written))
    return claims


def _show(written: Sequence[Event]) -> None:
    for event in written:
        events.publish(event.run, [event])


def _what_is_left_of(run: Run) -> tuple[int, str, bool, frozenset[str]]:
    """Of an earlier attempt: the last number, the text that is no message yet, whether thoughts for that message were
    shown, and the calls that had started."""
    return last_seq(run), unfinished_text(run), is_reasoning_shown(run), started_calls(run)


def _end_lost_run(run: Run, now: datetime) -> bool:
    """A lost run that was told to stop, or lost too often, ends here."""
    if run.stop_requested_at is not None:
        ending = Ending(Status.CANCELLED, StopReason.CANCELLED)
    elif run.losses >= settings.AGENTSITE["MAX_ATTEMPTS"]:
        error = {
            "error_type": "worker_lost",
            "message": f"The worker was lost {run.losses} times while it worked on this run.",
            "detail": "",
        }
        ending = Ending(Status.FAILED, StopReason.ERROR, error=error)
    else:
        return False
    end_without_worker(run, ending, now)
    return True


def _drains(worker: str) -> bool:
    """Asked at every claim: the worker may not have heard of it yet. By a query of its own, which costs less than a
    condition in the one that locks the runs."""
    return Worker.objects.filter(name=worker, is_draining=True).exists()


def _lock_runs(*conditions: Q | Exists | NegatedExpression, limit: int) -> list[Run]:
    """The oldest runs that fulfil the conditions, without those that somebody else is about to change."""
    runs = Run.objects.select_for_update(
        of=("self",), skip_locked=connection.features.has_select_for_update_skip_locked
    )
    return list(
        runs.select_related("conversation", "agent__provider", "agent__fallback_provider")
        .filter(*conditions)
        .order_by("pk")[:limit]
    )


def renew_leases(worker: str, run_pks: Sequence[int]) -> None:
    """Of the runs that the worker does work on: one whose end could not be written must be taken up again."""
    with writing():
        runs = Run.objects.filter(pk__in=run_pks, worker=worker, status=Status.RUNNING)
        runs.update(lease_expires_at=_lease_end())


def _lease_end() -> Combinable:
    """By the database's clock, as everywhere where leases are compared: those of two machines may disagree."""
    return Now() + timedelta(seconds=settings.AGENTSITE["LEASE_SECONDS"])


def release_orphans() -> None:
    """No worker lives, as whoever calls this knows for sure. What earlier ones left running is lost already and need
    not wait for its leases to run out."""
    with writing():
        Run.objects.filter(status=Status.RUNNING).update(lease_expires_at=Now() - timedelta(seconds=1))
        Worker.objects.all().delete()


def hand_back(run: Run, usage: Usage) -> None:
    """A worker that shuts down returns its run to the queue. Part of the journal's transaction."""
    let_go(run, Status.QUEUED, usage)
    if run.stop_requested_at is not None:
        # Not here, where its last events are not stored yet. If this gets lost, whoever takes the run ends it.
        transaction.on_commit(lambda: _end_stopped(run.pk), robust=True)
    else:
        dispatch(run.pk)


def hand_back_rest(worker: str) -> None:
    """What a worker that leaves still holds: claimed in its last moment, and not begun."""
    with writing():
        for run in Run.objects.select_for_update().filter(worker=worker, status=Status.RUNNING).order_by("pk"):
            hand_back(run, usage_so_far(run))


def _end_stopped(run_pk: int) -> None:
    """A run that was told to stop while it was handed back: nobody works on it any more."""
    with writing():
        for run in _lock_runs(Q(pk=run_pk, status=Status.QUEUED, stop_requested_at__isnull=False), limit=1):
            end_without_worker(run, Ending(Status.CANCELLED, StopReason.CANCELLED), timezone.now())
