"""What tests build their worlds from, without a worker: people, agents, keys, and runs at any point of their life.

Plain synchronous functions. In an async test call them through `runs.database.in_writer`.
"""

from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from runs import actions, events
from runs.actions import Ending, RunOrder, Usage
from runs.database import writing
from runs.models import Agent, ApiKey, Event, Provider, Run, Status, StopReason

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


def finished_run(user: User, text: str = "hello", *, words: int = 3, **order: Any) -> Run:
    """A run from its beginning to its end, with so many deltas: `words` + 3 events."""
    run = start_run(make_run(user, text, **order))
    for number in range(words):
        store_event(run, text=f"word{number} ")
    return end_run(run)
