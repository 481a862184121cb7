"""Accepting a run: stored with its first event and its place in the queue, or refused."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from runs import access, events
from runs.actions.refusals import Refused
from runs.database import writing
from runs.dispatch import dispatch, worker_for
from runs.models import ACTIVE, Conversation, Run, Status

# How many runs of one conversation may wait.
MAX_WAITING = 100


@dataclass(frozen=True)
class RunOrder:
    """What a caller asks for."""

    messages: list[dict[str, Any]]
    agent_slug: str | None = None
    conversation_id: str | None = None
    has_token_streaming: bool = True
    max_steps: int | None = None
    max_seconds: float | None = None
    max_tokens: int | None = None
    max_cost: Decimal | None = None
    reasoning_effort: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    idempotency_key: str = ""
    body_digest: str = ""


def submit_run(user: User, order: RunOrder) -> Run:
    """Store a run, or find the one that was stored for the same idempotency key."""
    try:
        return _store_run(user, order)
    except IntegrityError:
        if not order.idempotency_key:
            raise
        # The same order, at the same moment, was stored first. This time it is found.
        return _store_run(user, order)


def _store_run(user: User, order: RunOrder) -> Run:
    """The run, its first event and its place in the queue, in one transaction: nothing is accepted and lost."""
    with writing():
        if order.idempotency_key and (earlier := _find_earlier(user, order)):
            return earlier
        conversation = _conversation_for(user, order)
        agent = conversation.agent
        run = Run(
            conversation=conversation,
            agent=agent,
            agent_version=agent.version,
            owner=user,
            input=order.messages,
            input_text=question_in(order.messages),
            has_token_streaming=order.has_token_streaming,
            max_steps=_lower(agent.max_steps, order.max_steps),
            max_seconds=_lower(agent.max_seconds, order.max_seconds),
            max_tokens=_lower(agent.max_tokens, order.max_tokens),
            max_cost=_lower(agent.max_cost, order.max_cost),
            reasoning_effort=order.reasoning_effort or agent.reasoning_effort,
            metadata=order.metadata,
            idempotency_key=order.idempotency_key,
            body_digest=order.body_digest,
            queued_at=timezone.now(),
        )
        run.save(force_insert=True)
        queued = events.write_event(
            run, 1, events.RUN_QUEUED, run.queued_at, {"conversation_id": conversation.public_id, "agent": agent.slug}
        )
        queued.save(force_insert=True)
        dispatch(run.pk, worker_for(conversation) if order.conversation_id else "")
        transaction.on_commit(lambda: events.publish(run, [queued]))
    return run


def _find_earlier(user: User, order: RunOrder) -> Run | None:
    earlier = (
        Run.objects.select_related("conversation", "agent")
        .filter(owner=user, idempotency_key=order.idempotency_key)
        .first()
    )
    if earlier and earlier.body_digest != order.body_digest:
        raise Refused(
            422, "idempotency_key_reused", "This Idempotency-Key was used with another body.", "Idempotency-Key"
        )
    return earlier


def _conversation_for(user: User, order: RunOrder) -> Conversation:
    agent = None
    if order.agent_slug is not None:
        agent = access.usable_agents(user).filter(slug=order.agent_slug).first()
        if agent is None:
            raise Refused(404, "agent_not_found", f"There is no agent {order.agent_slug!r}.", "agent")
    if order.conversation_id is None:
        agent = agent or access.usable_agents(user).filter(is_default=True).first()
        if agent is None:
            raise Refused(404, "agent_not_found", "There is no default agent: name one.", "agent")
        return Conversation.objects.create(agent=agent, owner=user, title=question_in(order.messages).strip()[:80])
    conversation = (
        access.writable_conversations(user)
        .select_for_update(of=("self",))
        .filter(public_id=order.conversation_id)
        .first()
    )
    if conversation is None:
        raise Refused(
            404, "conversation_not_found", f"There is no conversation {order.conversation_id!r}.", "conversation"
        )
    if agent is not None and agent != conversation.agent:
        raise Refused(400, "agent_mismatch", "The conversation belongs to another agent.", "agent")
    if not conversation.agent.is_active:
        raise Refused(404, "agent_not_found", "The conversation's agent is switched off.", "agent")
    waiting = Run.objects.filter(conversation=conversation, status__in=ACTIVE)
    if waiting.filter(status=Status.REQUIRES_APPROVAL).exists():
        raise Refused(409, "pending_approval", "A run of this conversation waits for an approval.", "conversation")
    if waiting.count() >= MAX_WAITING:
        raise Refused(429, "queue_full", f"{MAX_WAITING} runs of this conversation wait already.", "conversation")
    Conversation.objects.filter(pk=conversation.pk).update(updated_at=timezone.now())
    return conversation


def question_in(messages: Sequence[dict[str, Any]]) -> str:
    """The words of what is asked, for titles, search and display: the user's, after the last answer. A caller may send
    a whole conversation and its instructions along."""
    texts: list[str] = []
    for message in messages:
        if message["role"] == "assistant":
            texts = []
        if message["role"] != "user":
            continue
        content = message["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        texts += [part["text"] for part in parts if part.get("text")]
    return "\n".join(texts)


def _lower(limit: Any, wish: Any) -> Any:
    """A caller lowers a limit of the agent and never raises it."""
    return min((value for value in (limit, wish) if value is not None), default=None)
