"""A second model, from the stored agent to the event, the price and the next run."""

from decimal import Decimal

import pytest
from django.core.management import call_command

from gateway.errors import ProviderError
from runs import actions
from runs.database import in_writer
from runs.models import Agent, AgentVersion, Provider


def overloaded() -> ProviderError:
    return ProviderError("llm_rate_limit", "Too many.", transient=True, retry_after=0.0)


async def name_second(stage, **fields) -> None:
    def change() -> None:
        for name, value in {"fallback_model": "second", **fields}.items():
            setattr(stage.agent, name, value)
        actions.save_agent(stage.agent)

    await in_writer(change)


async def test_a_run_goes_on_with_the_second_model_and_the_next_one_begins_with_the_first(working) -> None:
    """P3: the event says so, and the pool entry is gone after the run, and not before."""
    await name_second(working)
    provider = working.script([overloaded()], [overloaded()], [overloaded()], "From the second.")
    run = await working.ended(await working.submit())
    assert (run.status, run.output) == ("completed", "From the second.")
    changed = [event for event in await working.events(run) if event["type"] == "model.changed"]
    assert [(event["from"], event["to"], event["reason"]) for event in changed] == [("scripted", "second", "Too many.")]
    await working.until(lambda: run.conversation.public_id not in working.worker.pool)
    assert working.worker.pool.stats().evictions == {"fallback": 1}
    await working.check(run)

    again = await working.ended(await working.submit(conversation=run.conversation))
    assert again.output == "done"
    assert [request.model for request in provider.requests] == ["scripted"] * 3 + ["second", "scripted"]
    assert [message.text for message in provider.requests[-1].messages] == ["hello", "From the second.", "hello"]
    await working.check(again)


async def test_a_neighbour_keeps_its_agent_when_another_falls_back(working) -> None:
    """P3: eviction touches no other conversation."""
    await name_second(working)
    neighbour = await working.ended(await working.submit(user=working.bob))
    agent = await working.live_agent(neighbour)
    working.script([overloaded()], [overloaded()], [overloaded()], "From the second.")
    await working.ended(await working.submit())
    assert await working.live_agent(neighbour) is agent


async def test_a_run_fails_with_the_error_of_the_second_where_that_fails_too(working) -> None:
    """E1"""
    await name_second(working)
    working.script(*([overloaded()] for _ in range(5)), [ProviderError("llm_timeout", "Too slow.", transient=False)])
    run = await working.ended(await working.submit())
    assert (run.status, run.error["error_type"]) == ("failed", "llm_timeout")
    await working.check(run)


async def test_the_price_of_the_second_model_counts(working) -> None:
    from tests.scripted import used

    await name_second(working, prompt_price=1, completion_price=1, fallback_prompt_price=3, fallback_completion_price=3)
    working.script(*([overloaded()] for _ in range(3)), ["Hi", used(600_000, 400_000)])
    run = await working.ended(await working.submit())
    assert (run.cost, run.is_usage_estimated) == (Decimal(3), False)


@pytest.mark.django_db
def test_the_second_model_is_part_of_a_version_and_of_the_command() -> None:
    arguments = ["helper", "--base-url", "http://localhost:1/v1", "--model", "first"]
    call_command("create_agent", *arguments, "--fallback-model", "second")
    agent = Agent.objects.get(slug="helper")
    assert (agent.fallback_model, agent.fallback_provider) == ("second", None)
    call_command("create_agent", *arguments)
    agent.refresh_from_db()
    assert (agent.fallback_model, agent.version) == ("second", 1), "what is left out stays as it is"
    agent.fallback_provider = Provider.objects.create(name="Other", base_url="http://localhost:2/v1")
    actions.save_agent(agent)
    assert AgentVersion.objects.get(agent=agent, number=2).configuration["fallback_provider"] == "Other"
