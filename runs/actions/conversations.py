"""Changing a conversation: its title, a fresh start, its end, and the way back for a while.

Deleting has three stages. At once nobody finds the conversation any more and its runs are stopped. After the undo time
the worker ends its task (files, processes, live agent), see `runs.caretaker`. After the time in the trash its rows go.
"""

from contextlib import suppress
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.expressions import Combinable
from django.db.models.functions import Now
from django.utils import timezone

from runs import bell, events
from runs.actions.placing import last_positions
from runs.actions.refusals import Refused
from runs.actions.stop import request_stop
from runs.database import writing
from runs.models import ACTIVE, Conversation, Event, Message, Run

# A restore in the last moment of the undo time comes before the teardown.
MARGIN = timedelta(seconds=1)
# So many rows a transaction: nobody else should wait for a purge.
PURGED_AT_ONCE = 1000
# The receipt of a stop that nobody but the deletion asked for.
DELETION = "deletion"


def rename_conversation(conversation: Conversation, title: str) -> Conversation:
    conversation.title = title
    with writing():
        conversation.save(update_fields=["title"])
        transaction.on_commit(lambda: events.publish_conversation(conversation))
    return conversation


def reset_conversation(conversation: Conversation) -> Conversation:
    """A fresh start: what was said is kept, and no longer shown to the model. Files and notes stay."""
    with writing():
        row = Conversation.objects.select_for_update().filter(pk=conversation.pk, deleted_at__isnull=True).first()
        if row is None:
            raise _not_found(conversation)
        if _active_runs().filter(conversation=row).exists():
            raise Refused(409, "run_active", "A run of this conversation is active: stop it, or wait for its end.")
        conversation.context_from = last_positions([row.pk]).get(row.pk, 0)
        Conversation.objects.filter(pk=row.pk).update(context_from=conversation.context_from)
        # Only a hint: a live agent with another context loads its history anew in any case.
        ring = {"type": "reset", "conversation": conversation.public_id}
        transaction.on_commit(lambda: bell.ring(bell.WORKERS, ring))
    return conversation


def delete_conversation(conversation: Conversation, *, by: str, via: str) -> Conversation:
    """Make it disappear and stop its runs. `restore_conversation` takes it back, but not the stops.

    Two transactions: an ending run locks itself and then its conversation, and this would be the other way round. What
    a crash in between leaves running, the caretaker stops."""
    with writing():
        now = timezone.now()
        if not Conversation.objects.filter(pk=conversation.pk, deleted_at__isnull=True).update(deleted_at=now):
            raise _not_found(conversation)
        transaction.on_commit(lambda: events.publish_conversation(conversation))
    conversation.deleted_at = now
    _stop_runs(list(_active_runs().filter(conversation=conversation).values_list("pk", flat=True)), by, via)
    return conversation


def restore_conversation(conversation: Conversation) -> Conversation:
    """Take a deletion back, while that is possible."""
    with writing():
        restorable = Conversation.objects.filter(
            pk=conversation.pk, deleted_at__gt=_ago(_undo_time()), task_ended_at__isnull=True
        )
        if not restorable.update(deleted_at=None):
            raise _not_found(conversation)
        transaction.on_commit(lambda: events.publish_conversation(conversation))
    conversation.deleted_at = None
    return conversation


def stop_deleted_runs() -> None:
    """Runs that a deletion did not come to stop."""
    runs = _active_runs().filter(conversation__deleted_at__isnull=False, stop_requested_at__isnull=True)
    _stop_runs(list(runs.values_list("pk", flat=True)), "", DELETION)


def conversations_to_end(after: int, limit: int) -> list[Conversation]:
    """Deleted, past the undo time, with a task that was not ended yet, and with nothing under way in them: the next
    ones behind this primary key."""
    deleted = Conversation.objects.filter(
        pk__gt=after, deleted_at__lt=_ago(_undo_time() + MARGIN), task_ended_at__isnull=True
    )
    return list(deleted.exclude(Exists(_active_runs().filter(conversation=OuterRef("pk")))).order_by("pk")[:limit])


def ended_conversations(since: datetime | None) -> list[Conversation]:
    """Those in the trash whose task was ended, by whichever worker; all of them, or since then."""
    ended = Conversation.objects.filter(deleted_at__isnull=False, task_ended_at__isnull=False)
    return list(ended if since is None else ended.filter(task_ended_at__gt=since))


def note_task_ended(conversation: Conversation) -> None:
    with writing():
        Conversation.objects.filter(pk=conversation.pk, deleted_at__isnull=False, task_ended_at__isnull=True).update(
            task_ended_at=timezone.now()
        )


def purge_some() -> bool:
    """Remove a part of what has been in the trash for long enough. Whether there may be more."""
    limit = _ago(timedelta(days=settings.AGENTSITE["TRASH_DAYS"]))
    conversation = (
        Conversation.objects.filter(deleted_at__lt=limit, task_ended_at__isnull=False).order_by("deleted_at").first()
    )
    if conversation is None:
        return False
    # The two tables that may hold very much; what is left goes with the conversation.
    for table, rows in ((Event, Q(run__conversation=conversation)), (Message, Q(conversation=conversation))):
        some = list(table.objects.filter(rows).order_by("pk").values_list("pk", flat=True)[:PURGED_AT_ONCE])
        if some:
            with writing():
                table.objects.filter(pk__in=some).delete()
            return True
    with writing():
        conversation.delete()
    return True


def _active_runs() -> QuerySet[Run]:
    return Run.objects.filter(status__in=ACTIVE)


def _stop_runs(run_pks: list[int], by: str, via: str) -> None:
    for pk in run_pks:
        with suppress(Refused):  # it has ended meanwhile
            request_stop(pk, by=by, via=via)


def _undo_time() -> timedelta:
    return timedelta(seconds=settings.AGENTSITE["UNDO_SECONDS"])


def _ago(time: timedelta) -> Combinable:
    """By the database's clock: a process whose own is ahead must not remove what can still be restored."""
    return Now() - time


def _not_found(conversation: Conversation) -> Refused:
    return Refused(
        404, "conversation_not_found", f"There is no conversation {conversation.public_id!r}.", "conversation_id"
    )
