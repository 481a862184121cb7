"""What a new site gets, once."""

import pytest
from django.contrib.auth.models import User

from gateway.providers.demo.question import Question
from gateway.providers.demo.replies import reply_to
from gateway.tools.base import Rule
from runs import access, actions
from runs.models import Agent, ApiKey, Provider
from runs.setup import set_up_site
from runs.toolbox import known_tools, registry

pytestmark = pytest.mark.django_db


def test_a_new_site_has_a_demo_agent_that_needs_no_key() -> None:
    set_up_site()
    agent = Agent.objects.get()
    assert (agent.slug, agent.is_default, agent.has_parallel_tools, agent.version) == ("demo", True, True, 1)
    assert agent.provider.kind == Provider.Kind.DEMO
    assert set(agent.tools) <= set(known_tools())
    agent.full_clean()


def test_the_demo_agents_questions_show_a_tool_an_approval_and_an_answer_that_is_long_enough_to_stop() -> None:
    set_up_site()
    agent = Agent.objects.get()
    tool, approval, long = [reply_to(Question(text, tools=frozenset(agent.tools))) for text in agent.examples]
    assert {rule_of(name) for name, _ in tool.calls} == {"never"}
    assert {rule_of(name) for name, _ in approval.calls} == {"always"}
    assert not long.calls
    assert len(long.text) > 2_000


def rule_of(name: str) -> Rule:
    tool = registry().get(name)
    assert tool is not None
    return tool.approval


def test_the_first_admin_gets_a_random_password_and_a_key_that_work() -> None:
    account = set_up_site()
    assert account is not None
    admin = User.objects.get()
    assert (admin.username, admin.is_superuser, admin.is_staff) == ("admin", True, True)
    assert admin.check_password(account.password)
    assert len(account.password) >= 12
    key = access.find_key(account.api_key)
    assert key is not None
    assert key.user == admin


def test_two_sites_have_different_passwords() -> None:
    first = set_up_site()
    User.objects.all().delete()
    second = set_up_site()
    assert first is not None
    assert second is not None
    assert (first.password, first.api_key) != (second.password, second.api_key)


def test_a_second_start_makes_and_tells_nothing() -> None:
    set_up_site()
    password = User.objects.get().password
    assert set_up_site() is None
    assert User.objects.get().password == password
    assert (Agent.objects.count(), Provider.objects.count(), ApiKey.objects.count()) == (1, 1, 1)


def test_a_demo_agent_that_was_deleted_stays_deleted() -> None:
    set_up_site()
    Agent.objects.all().delete()
    set_up_site()
    assert not Agent.objects.exists()


def test_somebody_elses_agent_stays_the_default_one() -> None:
    provider = Provider.objects.create(name="Mine", base_url="http://localhost/v1")
    mine = actions.save_agent(Agent(slug="mine", name="Mine", provider=provider, model="m", is_default=True))
    set_up_site()
    assert Agent.objects.get(is_default=True) == mine
    assert Agent.objects.filter(slug="demo").exists()


def test_where_there_is_an_admin_no_second_one_is_made() -> None:
    User.objects.create_superuser("charlie")
    assert set_up_site() is None
    assert User.objects.get().username == "charlie"
