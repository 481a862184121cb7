"""Storing an agent, with its versions."""

from typing import Any

from django.contrib.auth.models import User

from runs.database import writing
from runs.models import Agent, AgentVersion

VERSIONED = (
    "name",
    "instructions",
    "model",
    "sampling",
    "reasoning_effort",
    "tools",
    "approvals",
    "has_parallel_tools",
    "max_steps",
    "max_seconds",
    "max_tokens",
    "max_cost",
)


def save_agent(agent: Agent, by: User | None = None) -> Agent:
    """Store an agent; what changed of its behaviour makes a new version."""
    configuration: dict[str, Any] = {name: getattr(agent, name) for name in VERSIONED}
    configuration["max_cost"] = str(agent.max_cost) if agent.max_cost is not None else None
    configuration["provider"] = agent.provider.name
    with writing():
        if agent.is_default:
            Agent.objects.filter(is_default=True).exclude(pk=agent.pk).update(is_default=False)
        last = AgentVersion.objects.filter(agent=agent).order_by("-number").first() if agent.pk else None
        is_changed = last is None or last.configuration != configuration
        if last is not None:
            agent.version = last.number + (1 if is_changed else 0)
        agent.save()
        if is_changed:
            AgentVersion.objects.create(agent=agent, number=agent.version, configuration=configuration, created_by=by)
    return agent
