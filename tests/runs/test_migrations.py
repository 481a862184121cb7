"""What a migration does to the data of a site that is in use."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from runs import actions, setup
from runs.models import Agent, AgentVersion, Provider

approvals: Any = import_module("runs.migrations.0002_approvals")
pool: Any = import_module("runs.migrations.0003_pool")
words: Any = import_module("runs.migrations.0007_words")


@pytest.fixture
def old_demo(db: None) -> Agent:
    """The demo agent as earlier releases made it."""
    provider = Provider.objects.create(name="Demo", kind=Provider.Kind.DEMO)
    agent = Agent(slug="demo", name="Demo", provider=provider, model="demo", has_parallel_tools=True, **approvals.DEMO)
    return actions.save_agent(agent)


def test_a_demo_agent_that_nobody_changed_learns_to_send_e_mails(old_demo: Agent) -> None:
    approvals.renew_demo_agent(apps, None)
    old_demo.refresh_from_db()
    assert (old_demo.tools, old_demo.examples) == (pool.DEMO_TOOLS, approvals.NEW_DEMO["examples"])
    assert (old_demo.instructions, old_demo.version) == (setup.DEMO_INSTRUCTIONS, 2)
    actions.save_agent(old_demo)
    assert old_demo.version == 2, "the stored version is the one that a save would make"


@pytest.mark.parametrize(
    "change", [{"instructions": "Mine."}, {"tools": ["wait"]}, {"examples": []}, {"approvals": {"wait": "always"}}]
)
def test_a_demo_agent_that_somebody_changed_is_left_alone(old_demo: Agent, change: dict[str, Any]) -> None:
    for name, value in change.items():
        setattr(old_demo, name, value)
    old_demo.save()
    approvals.renew_demo_agent(apps, None)
    kept = Agent.objects.get(slug="demo")
    assert {name: getattr(kept, name) for name in change} == change
    assert kept.version == 1


def test_a_demo_agent_with_a_history_is_left_alone(old_demo: Agent) -> None:
    old_demo.max_steps = 7
    actions.save_agent(old_demo)
    old_demo.max_steps = 20
    actions.save_agent(old_demo)
    approvals.renew_demo_agent(apps, None)
    assert "send_email" not in Agent.objects.get(slug="demo").tools


def test_old_versions_say_what_was_not_asked_then(old_demo: Agent) -> None:
    version = AgentVersion.objects.get(agent=old_demo)
    del version.configuration["approval_hours"], version.configuration["on_expiry"]
    version.save()
    approvals.complete_versions(apps, None)
    actions.save_agent(old_demo)
    assert old_demo.version == 1


def test_a_demo_agent_that_nobody_changed_learns_to_use_files_and_processes(old_demo: Agent) -> None:
    approvals.renew_demo_agent(apps, None)
    pool.renew_demo_agent(apps, None)
    old_demo.refresh_from_db()
    assert (old_demo.tools, old_demo.version) == (setup.DEMO_TOOLS, 3)
    actions.save_agent(old_demo)
    assert old_demo.version == 3, "the stored version is the one that a save would make"


@pytest.mark.parametrize("change", [{"tools": ["wait"]}, {"approvals": {"wait": "always"}}, {"max_steps": 7}])
def test_a_demo_agent_that_somebody_changed_learns_nothing(old_demo: Agent, change: dict[str, Any]) -> None:
    approvals.renew_demo_agent(apps, None)
    old_demo.refresh_from_db()
    for name, value in change.items():
        setattr(old_demo, name, value)
    actions.save_agent(old_demo)
    pool.renew_demo_agent(apps, None)
    assert "write_file" not in Agent.objects.get(slug="demo").tools


def test_old_versions_say_that_there_was_no_second_model(old_demo: Agent) -> None:
    version = AgentVersion.objects.get(agent=old_demo)
    del version.configuration["fallback_model"], version.configuration["fallback_provider"]
    version.save()
    pool.complete_versions(apps, None)
    actions.save_agent(old_demo)
    assert old_demo.version == 1


def test_a_demo_agent_with_our_four_questions_gets_the_three_that_show_more(old_demo: Agent) -> None:
    approvals.renew_demo_agent(apps, None)
    words.renew_demo_questions(apps, None)
    old_demo.refresh_from_db()
    assert (old_demo.examples, old_demo.version) == (setup.DEMO_EXAMPLES, 2)


@pytest.mark.parametrize("examples", [[], ["Mine?"], [*approvals.NEW_DEMO["examples"], "Mine?"]])
def test_a_demo_agent_with_questions_of_its_own_keeps_them(old_demo: Agent, examples: list[str]) -> None:
    old_demo.examples = examples
    old_demo.save()
    words.renew_demo_questions(apps, None)
    old_demo.refresh_from_db()
    assert old_demo.examples == examples


@pytest.mark.django_db(transaction=True)
def test_a_site_in_use_can_be_migrated() -> None:
    """In one transaction, with rows in every table that it touches."""
    executor = MigrationExecutor(connection)
    newest = executor.loader.graph.leaf_nodes("runs")
    executor.migrate([("runs", "0001_initial")])
    try:
        old = executor.loader.project_state([("runs", "0001_initial")]).apps
        provider = old.get_model("runs", "Provider").objects.create(name="Demo", kind="demo")
        agent = old.get_model("runs", "Agent").objects.create(
            slug="demo", name="Demo", provider=provider, model="demo", **approvals.DEMO
        )
        configuration = {"tools": agent.tools, "instructions": agent.instructions}
        old.get_model("runs", "AgentVersion").objects.create(agent=agent, number=1, configuration=configuration)
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(newest)
    found = Agent.objects.get(slug="demo")
    assert (found.tools, found.approval_hours, found.on_expiry) == (setup.DEMO_TOOLS, 168, "deny")
    assert found.examples == setup.DEMO_EXAMPLES
    newest_version = AgentVersion.objects.get(agent=found, number=3)
    assert newest_version.configuration["tools"] == setup.DEMO_TOOLS
