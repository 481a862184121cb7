"""What tests build their worlds from, without a worker: people, agents, keys, and runs at any point of their life.

Plain synchronous functions. In an async test call them through `runs.database.in_writer`.
"""

import json
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from gateway.tools.send_email import send_email
from runs import actions, events
from runs.actions import Ending, RunOrder, Usage
from runs.database import writing
from runs.models import Agent, ApiKey, Approval, Conversation, Event, Message, Provider, Run, Status, StopReason

WORKER = "factory"


def make_agent(slug: str = "agent", **fields: Any) -> Agent:
    provider, _ = Provider.objects.get_or_create(name="Factory", defaults={"base_url": "http://factory.invalid/v1"})
    fields = {"name": slug.title(), "model": "scripted", "is_default": slug == "agent", **fields}
    return actions.save_agent(Agent(slug=slug, provider=provider, **fields))


def make_key(user: User, **fields: Any) -> str:
    """The text of a new key."""
    key, text = ApiKey.make(name="test", user=user)
    if fields:
        ApiKey.objects.filter(pk=key.pk).update(**fields)
    return text


def make_run(user: User, text: str = "hello", **order: Any) -> Run:
    return actions.submit_run(user, RunOrder(**{"messages": [{"role": "user", "content": text}], **order}))


def start_run(run: Run) -> Run:
    """As a worker does that takes it, and with it all others whose turn has come."""
    return next(claim.run for claim in actions.claim_runs(WORKER, 1000) if claim.run == run)


def add_event(run: Run, type: str = events.MESSAGE_DELTA, **payload: Any) -> Event:
    """The next event of a run, stored and announced."""
    event = store_event(run, type, **payload)
    events.publish(run, [event])
    return event


def store_event(run: Run, type: str = events.MESSAGE_DELTA, **payload: Any) -> Event:
    """The same, but the ring is lost."""
    with writing():
        event = events.write_event(run, run.events.count() + 1, type, timezone.now(), payload)
        event.save(force_insert=True)
    return event


def end_run(run: Run, output: str = "done", usage: Usage | None = None, **ending: Any) -> Run:
    """The end of a run that was started. The same object is returned, changed."""
    ending = {"status": Status.COMPLETED, "stop_reason": StopReason.END_TURN, "output": output, **ending}
    with writing():
        event = actions.end_run(run, Ending(**ending), usage or Usage(), run.events.count() + 1, timezone.now())
        event.save(force_insert=True)
    events.publish(run, [event])
    return run


def waiting_run(user: User, *call_ids: str, arguments: dict[str, Any] | None = None, **order: Any) -> Run:
    """A run that waits for approval of these calls of `send_email`."""
    run = start_run(make_run(user, **order))
    asked = arguments or {"to": "ada@example.com", "subject": "Hello", "body": "Dear Ada"}
    function = {"name": "send_email", "arguments": json.dumps(asked)}
    calls = [{"id": call_id, "type": "function", "function": function} for call_id in call_ids]
    place = {"conversation_id": run.conversation_id, "run": run}
    position = Message.objects.filter(conversation_id=run.conversation_id).count() + 1
    Message.objects.create(**place, position=position, role="assistant", content="May I?", tool_calls=calls)
    tool = {"name": "send_email", "description": "Send an e-mail.", "schema": dict(send_email.parameters)}
    approvals = [
        Approval(run=run, tool_call_id=call_id, position=position + number, arguments=asked, why="May I?", **tool)
        for number, call_id in enumerate(call_ids, start=1)
    ]
    with writing():
        written = actions.ask_for_approvals(run, approvals, Usage(1), run.events.count() + 1, timezone.now())
        Event.objects.bulk_create(written)
    return run


def finished_run(user: User, text: str = "hello", *, words: int = 3, **order: Any) -> Run:
    """A run from its beginning to its end, with so many deltas: `words` + 3 events."""
    run = start_run(make_run(user, text, **order))
    for number in range(words):
        store_event(run, text=f"word{number} ")
    return end_run(run)


def answered_turns(user: User, count: int, agent: Agent | None = None) -> Conversation:
    """A conversation of so many questions and answers, written straight into the tables: through the actions ten
    thousand messages would take minutes."""
    agent = agent or Agent.objects.get(is_default=True)
    conversation = Conversation.objects.create(
        agent=agent, owner=user, title="A long conversation", last_stop_reason=StopReason.END_TURN
    )
    now = timezone.now()
    runs = Run.objects.bulk_create(
        Run(
            conversation=conversation,
            agent=agent,
            agent_version=agent.version,
            owner=user,
            max_steps=agent.max_steps,
            max_seconds=agent.max_seconds,
            input=[{"role": "user", "content": f"question {number}"}],
            input_text=f"question {number}",
            status=Status.COMPLETED,
            stop_reason=StopReason.END_TURN,
            is_input_placed=True,
            queued_at=now,
            started_at=now,
            ended_at=now,
        )
        for number in range(count)
    )
    messages, log = [], []
    for number, run in enumerate(runs):
        texts = {"user": f"question {number}", "assistant": f"answer {number}."}
        for place, (role, text) in enumerate(texts.items(), start=1):
            position = 2 * number + place
            messages.append(Message(conversation=conversation, run=run, position=position, role=role, content=text))
        told: list[tuple[str, dict[str, Any]]] = [
            (events.RUN_QUEUED, {}),
            (events.RUN_STARTED, {"model": agent.model}),
            (events.MESSAGE_COMPLETED, {"text": texts["assistant"]}),
            (events.RUN_COMPLETED, {"stop_reason": "end_turn", "output": texts["assistant"], "usage": {}}),
        ]
        log += [events.write_event(run, seq, kind, now, payload) for seq, (kind, payload) in enumerate(told, start=1)]
    with writing():
        Message.objects.bulk_create(messages, batch_size=2000)
        Event.objects.bulk_create(log, batch_size=2000)
    return conversation
