"""Finding what a path names. Other people's ids look like ids that do not exist."""

import re

from django.contrib.auth.models import User
from django.db.models import QuerySet

from runs import access
from runs.actions import Refused
from runs.models import Conversation, Run

_ID = re.compile(r"[a-z]+_[0-9a-f]{1,32}")


def named_runs(user: User, run_id: str) -> QuerySet[Run]:
    return access.visible_runs(user).filter(public_id=run_id) if _ID.fullmatch(run_id) else Run.objects.none()


def find_run(user: User, run_id: str) -> Run:
    run = named_runs(user, run_id).first()
    if run is None:
        raise run_not_found(run_id)
    return run


def find_followable_run(user: User, run_id: str) -> Run:
    run = access.followable_runs(user).filter(public_id=run_id).first() if _ID.fullmatch(run_id) else None
    if run is None:
        raise run_not_found(run_id)
    return run


def run_not_found(run_id: str) -> Refused:
    return Refused(404, "run_not_found", f"There is no run {run_id[:50]!a}.", "run_id")


def find_conversation(user: User, conversation_id: str) -> Conversation:
    conversation = None
    if _ID.fullmatch(conversation_id):
        conversation = access.visible_conversations(user).filter(public_id=conversation_id).first()
    if conversation is None:
        raise conversation_not_found(conversation_id)
    return conversation


def find_own_conversation(user: User, conversation_id: str) -> Conversation:
    """For those who want to change it: staff see it, and leave it alone."""
    conversation = find_conversation(user, conversation_id)
    if conversation.owner != user:
        raise Refused(403, "not_yours", "Only its owner changes a conversation.")
    return conversation


def find_restorable_conversation(user: User, conversation_id: str) -> Conversation:
    conversation = None
    if _ID.fullmatch(conversation_id):
        conversation = access.restorable_conversations(user).filter(public_id=conversation_id).first()
    if conversation is None:
        raise conversation_not_found(conversation_id)
    return conversation


def conversation_not_found(conversation_id: str) -> Refused:
    return Refused(
        404, "conversation_not_found", f"There is no conversation {conversation_id[:50]!a}.", "conversation_id"
    )
