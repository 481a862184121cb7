"""Who may see and do what. Pages, API, SSE, websocket and admin all ask here.

Owners see what is theirs, staff see everything. What somebody may not see does not exist for them, and what was deleted
exists for nobody.
"""

import time
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone

from runs.models import Agent, ApiKey, Approval, Conversation, Run
from runs.models.access import digest_of

KEY_SECONDS = 2.0
MAX_SEEN_KEYS = 1000

_seen_keys: dict[str, tuple[float, ApiKey]] = {}


def visible_runs(user: User) -> QuerySet[Run]:
    runs = Run.objects.select_related("agent", "conversation", "owner").filter(conversation__deleted_at__isnull=True)
    return runs if user.is_staff else runs.filter(owner=user)


def followable_runs(user: User) -> QuerySet[Run]:
    """The same, with no more of each than a follower of its events needs."""
    runs = visible_runs(user).select_related(None).select_related("conversation")
    return runs.only("public_id", "conversation__public_id")


def visible_conversations(user: User) -> QuerySet[Conversation]:
    conversations = Conversation.objects.select_related("agent", "owner").filter(deleted_at__isnull=True)
    return conversations if user.is_staff else conversations.filter(owner=user)


def restorable_conversations(user: User) -> QuerySet[Conversation]:
    """Deleted ones of which the owner may still think better."""
    since = timezone.now() - timedelta(seconds=settings.AGENTSITE["UNDO_SECONDS"])
    deleted = Conversation.objects.select_related("agent", "owner").filter(owner=user, deleted_at__gt=since)
    return deleted.filter(task_ended_at__isnull=True)


def usable_agents(user: User) -> QuerySet[Agent]:
    return Agent.objects.filter(is_active=True)


def writable_conversations(user: User) -> QuerySet[Conversation]:
    """Only the owner speaks in a conversation: staff look, and do not put words into somebody's mouth."""
    conversations = Conversation.objects.select_related("agent", "owner")
    return conversations.filter(owner=user, deleted_at__isnull=True)


def decidable_approvals(user: User) -> QuerySet[Approval]:
    """What this person may decide, or could have: of their own conversations, and for staff of all."""
    approvals = Approval.objects.select_related("run__conversation", "run__agent", "run__owner")
    return approvals.filter(run__in=visible_runs(user).select_related(None).values("pk"))


def find_key(text: str) -> ApiKey | None:
    """The usable key with this text, of an active user. One that was seen a moment ago is not looked up again: programs
    call often, and a key that is revoked meanwhile works for `KEY_SECONDS` more at the most."""
    digest = digest_of(text)
    seen_at, key = _seen_keys.get(digest, (0.0, None))
    if key is None or time.monotonic() - seen_at > KEY_SECONDS:
        key = ApiKey.objects.select_related("user").filter(digest=digest).first()
        if key is None or not key.user.is_active:
            return None
        if len(_seen_keys) >= MAX_SEEN_KEYS:
            _seen_keys.clear()
        _seen_keys[digest] = (time.monotonic(), key)
        _note_use(key)
    return key if key.is_usable else None


def forget_keys() -> None:
    """A key was changed in this process: look again at the next call."""
    _seen_keys.clear()


def _note_use(key: ApiKey) -> None:
    now = timezone.now()
    if key.last_used_at is None or (now - key.last_used_at).total_seconds() > 60:
        # Once a minute is exact enough, and keeps a busy key from writing at every call.
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)
