"""The commands for people and scripts: what they make, that they can be repeated, and what they refuse."""

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from runs import access
from runs.models import Agent, AgentVersion, ApiKey, Provider
from runs.setup import make_demo_agent

pytestmark = pytest.mark.django_db

URL = "http://localhost:11434/v1"


def run(*arguments: str) -> tuple[str, str]:
    """What a command printed, on both channels."""
    out, err = StringIO(), StringIO()
    call_command(*arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def create_agent(slug: str = "helper", *arguments: str, url: str = URL) -> Agent:
    run("create_agent", slug, "--base-url", url, "--model", "small", *arguments)
    return Agent.objects.select_related("provider").get(slug=slug)


class TestCreateAgent:
    def test_makes_an_agent_and_its_provider(self) -> None:
        agent = create_agent(
            *("helper", "--api-key", "secret", "--tool", "wait", "--tool", "calculator", "--max-steps", "7"),
            *("--requires-approval", "wait", "--instructions", "Be brief.", "--name", "Helper", "--parallel-tools"),
        )
        provider = agent.provider
        assert (provider.name, provider.kind) == ("localhost:11434/v1", Provider.Kind.OPENAI)
        assert (provider.base_url, provider.api_key) == (URL, "secret")
        assert (agent.name, agent.model, agent.instructions) == ("Helper", "small", "Be brief.")
        assert (agent.tools, agent.approvals) == (["wait", "calculator"], {"wait": "always"})
        assert (agent.max_steps, agent.has_parallel_tools, agent.is_default) == (7, True, False)

    def test_the_same_command_again_changes_nothing(self) -> None:
        arguments = ("helper", "--tool", "wait", "--api-key", "secret", "--default")
        first = create_agent(*arguments)
        assert create_agent(*arguments) == first
        assert (Agent.objects.count(), Provider.objects.count(), AgentVersion.objects.count()) == (1, 1, 1)

    def test_whoever_takes_the_place_of_the_demo_agent_is_told(self) -> None:
        make_demo_agent()
        order = ("create_agent", "demo", "--base-url", URL, "--model", "small")
        assert "Until now this was the demo agent" in run(*order)[0]
        assert "Until now" not in run(*order)[0]

    def test_an_update_makes_a_new_version_and_keeps_what_it_does_not_name(self) -> None:
        create_agent("helper", "--instructions", "Be brief.", "--max-steps", "7", "--name", "Helper")
        agent = create_agent("helper", "--tool", "recall")
        assert (agent.version, agent.tools) == (2, ["recall"])
        assert (agent.instructions, agent.max_steps, agent.name) == ("Be brief.", 7, "Helper")

    def test_tools_are_exactly_those_that_are_named(self) -> None:
        create_agent("helper", "--tool", "wait", "--requires-approval", "wait", "--parallel-tools")
        agent = create_agent("helper")
        assert (agent.tools, agent.approvals, agent.has_parallel_tools) == ([], {}, False)

    def test_a_rule_can_be_given_for_each_tool(self) -> None:
        rule = {"properties": {"seconds": {"minimum": 60}}}
        agent = create_agent(
            *("helper", "--tool", "wait", "--tool", "recall", "--tool", "send_email", "--requires-approval", "recall"),
            *("--requires-approval", f"wait={json.dumps(rule)}", "--requires-approval", "send_email=never"),
        )
        assert agent.approvals == {"recall": "always", "wait": rule, "send_email": "never"}

    def test_there_is_one_default_agent(self) -> None:
        create_agent("first", "--default")
        create_agent("second", "--default")
        create_agent("second")  # stays what it is
        assert Agent.objects.get(is_default=True).slug == "second"

    def test_agents_of_one_endpoint_share_its_provider(self) -> None:
        assert create_agent("a", "--api-key", "k").provider == create_agent("b").provider

    def test_another_credential_does_not_touch_the_other_agents(self) -> None:
        first = create_agent("a", "--api-key", "key of a")
        second = create_agent("b", "--api-key", "key of b")
        first.provider.refresh_from_db()
        assert (first.provider.api_key, second.provider.api_key) == ("key of a", "key of b")

    def test_an_agents_own_credential_can_be_changed(self) -> None:
        first = create_agent("a", "--api-key", "old")
        second = create_agent("a", "--api-key-env", "MODEL_KEY")
        assert second.provider == first.provider
        assert (second.provider.api_key, second.provider.api_key_env) == ("", "MODEL_KEY")

    def test_a_credential_in_the_address_does_not_become_a_name(self) -> None:
        assert create_agent(url="http://user:password@models.example/v1").provider.name == "models.example/v1"

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--tool", "fly"], "Unknown tools: fly. There are: calculator, check_process"),
            (["--requires-approval", "wait"], "does not have: wait"),
            (["--tool", "wait", "--requires-approval", "wait={"], "The rule for wait is no JSON"),
            (["--tool", "wait", "--requires-approval", "wait=7"], "The rule for wait must be"),
            (["--tool", "wait", "--requires-approval", 'wait={"required": ["hours"]}'], "names the argument 'hours'"),
            (["--max-steps", "0"], "max_steps"),
            (["--base-url", "localhost:11434"], "http or https address"),
            (["--base-url", "http://"], "http or https address"),
            (["--base-url", "http://host:99999/"], "http or https address"),
            (["--model", ""], "model"),
            (["--api-key", "a", "--api-key-env", "B"], "not allowed with"),
        ],
    )
    def test_refuses_what_cannot_be_and_makes_nothing(self, arguments: list[str], words: str) -> None:
        with pytest.raises(CommandError, match=words):
            create_agent("helper", *arguments)
        assert (Agent.objects.count(), Provider.objects.count()) == (0, 0)

    def test_refuses_a_slug_that_no_address_could_hold(self) -> None:
        with pytest.raises(CommandError, match="slug"):
            create_agent("Not A Slug")


class TestCreateApiKey:
    @pytest.fixture(autouse=True)
    def alice(self) -> User:
        return User.objects.create_user("alice")

    def create(self, *arguments: str) -> str:
        out, _ = run("create_api_key", *arguments)
        return out.splitlines()[-1]

    def test_the_last_line_is_the_key_alone(self, alice: User) -> None:
        key = access.find_key(self.create("laptop", "--user", "alice"))
        assert key is not None
        assert (key.name, key.user, key.expires_at) == ("laptop", alice, None)

    def test_the_same_name_again_replaces_the_key(self) -> None:
        first = self.create("laptop", "--user", "alice")
        second = self.create("laptop", "--user", "alice")
        assert access.find_key(first) is None
        assert access.find_key(second) is not None

    def test_other_names_and_other_people_keep_theirs(self) -> None:
        User.objects.create_user("bob")
        keys = [
            self.create("laptop", "--user", "alice"),
            self.create("server", "--user", "alice"),
            self.create("laptop", "--user", "bob"),
        ]
        assert all(access.find_key(key) is not None for key in keys)

    def test_a_key_can_expire(self) -> None:
        self.create("laptop", "--user", "alice", "--expires-days", "30")
        key = ApiKey.objects.get()
        assert key.expires_at is not None
        assert (key.expires_at - key.created_at).days in (29, 30)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["laptop", "--user", "nobody"], "no user 'nobody'"),
            ([" ", "--user", "alice"], "1 to 100 characters"),
            (["x" * 101, "--user", "alice"], "1 to 100 characters"),
            (["laptop", "--user", "alice", "--expires-days", "0"], "between 1 and"),
            (["laptop", "--user", "alice", "--expires-days", "99999999"], "between 1 and"),
        ],
    )
    def test_refuses_what_cannot_be(self, arguments: list[str], words: str) -> None:
        with pytest.raises(CommandError, match=words):
            self.create(*arguments)
        assert not ApiKey.objects.exists()


def test_a_missing_tool_module_is_named(settings: Any) -> None:
    from runs import toolbox

    settings.AGENTSITE = {**settings.AGENTSITE, "TOOL_MODULES": ["no.such.module"]}
    toolbox.registry.cache_clear()
    try:
        with pytest.raises(CommandError, match=r"AGENTSITE_TOOL_MODULES.*no\.such\.module"):
            create_agent()
    finally:
        toolbox.registry.cache_clear()
