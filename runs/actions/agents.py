"""Storing an agent, with its versions."""

from typing import Any

from django.contrib.auth.models import User

from runs import toolbox
from runs.actions.refusals import Refused
from runs.database import writing
from runs.models import Agent, AgentVersion

VERSIONED = (
    "name",
    "instructions",
    "model",
    "fallback_model",
    "sampling",
    "reasoning_effort",
    "tools",
    "approvals",
    "approval_hours",
    "on_expiry",
    "has_parallel_tools",
    "max_steps",
    "max_seconds",
    "max_tokens",
    "max_cost",
)


def save_agent(agent: Agent, by: User | None = None) -> Agent:
    """Store an agent; what changed of its behaviour makes a new version. Nobody in `by` is the site's operator."""
    check_approvals(agent, by)
    configuration: dict[str, Any] = {name: getattr(agent, name) for name in VERSIONED}
    configuration["max_cost"] = str(agent.max_cost) if agent.max_cost is not None else None
    configuration["provider"] = agent.provider.name
    configuration["fallback_provider"] = agent.fallback_provider.name if agent.fallback_provider else None
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


def check_approvals(agent: Agent, by: User | None = None) -> None:
    """Refuses rules that cannot be meant, and those that ask less than the tool does, unless staff want it so."""
    if not isinstance(agent.approvals, dict):
        raise _refuse('Give an object with a rule for each tool, for example {"wait": "always"}.')
    known = Agent.objects.filter(pk=agent.pk).values_list("approvals", flat=True).first() or {}
    for name, rule in agent.approvals.items():
        if name not in agent.tools:
            raise _refuse(f"The agent does not have the tool {name!r}.")
        if (fault := toolbox.find_rule_fault(name, rule)) is not None:
            raise _refuse(f"The rule for {name} {fault}")
        if by is not None and not by.is_staff and rule != known.get(name) and toolbox.is_looser(name, rule):
            words = f"Only staff may have {name} ask for less approval than the tool itself does."
            raise Refused(403, "not_allowed", words, "approvals")


def _refuse(words: str) -> Refused:
    return Refused(400, "invalid_field", words, "approvals")
