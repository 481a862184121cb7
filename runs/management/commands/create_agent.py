"""An agent on any OpenAI-compatible endpoint, made or updated.

    manage.py create_agent SLUG --base-url URL --model NAME [--api-key KEY | --api-key-env VAR] [--tool NAME]…
        [--requires-approval TOOL[=RULE]]… [--parallel-tools] [--max-steps N] [--instructions TEXT] [--name NAME]
        [--default] [--fallback-model NAME]

Tools, approvals and --parallel-tools become exactly what is given; of the other options, what is left out stays as it
is. The provider is named after the endpoint and shared by its agents, as long as they use the same credential.
"""

import json
from argparse import ArgumentParser
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.management.base import BaseCommand, CommandError

from runs import actions
from runs.database import writing
from runs.models import Agent, Provider
from runs.models.agents import check_base_url
from runs.setup import migrate_site
from runs.toolbox import known_tools


class Command(BaseCommand):
    help = "Make or update an agent and its provider."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug", help="how programs name the agent")
        parser.add_argument("--base-url", required=True, help="for example http://localhost:11434/v1")
        parser.add_argument("--model", required=True)
        credential = parser.add_mutually_exclusive_group()
        credential.add_argument("--api-key", default="", help="stored encrypted")
        credential.add_argument("--api-key-env", default="", metavar="VAR", help="environment variable with the key")
        parser.add_argument("--tool", action="append", default=[], dest="tools", metavar="NAME")
        parser.add_argument(
            "--requires-approval",
            action="append",
            default=[],
            dest="approvals",
            metavar="TOOL[=RULE]",
            help="a person decides before it runs; RULE is a JSON schema of the arguments for which, default: always",
        )
        parser.add_argument("--parallel-tools", action="store_true", help="run calls asked for together together")
        parser.add_argument("--max-steps", type=int, metavar="N")
        parser.add_argument("--instructions", metavar="TEXT", help="the system prompt")
        parser.add_argument("--fallback-model", metavar="NAME", help="a second model at the same endpoint")
        parser.add_argument("--name", help="how people name it; default: the slug")
        parser.add_argument("--default", action="store_true", help="it answers where no agent is named")

    def handle(self, *, slug: str, base_url: str, model: str, api_key: str, api_key_env: str, **options: Any) -> None:
        # A script may well run before the first start of the server.
        migrate_site()
        tools, approvals = unique(options["tools"]), read_rules(options["approvals"])
        check_tools(tools, list(approvals))
        with writing():
            agent = Agent.objects.filter(slug=slug).first() or Agent(slug=slug, name=slug)
            is_new = agent.pk is None
            was_demo = not is_new and agent.provider.kind == Provider.Kind.DEMO
            try:
                check_base_url(base_url)
                agent.provider = find_provider(slug, base_url, api_key, api_key_env)
                agent.model = model
                agent.tools = tools
                agent.approvals = approvals
                agent.has_parallel_tools = options["parallel_tools"]
                for field in ("max_steps", "instructions", "name", "fallback_model"):
                    if options[field] is not None:
                        setattr(agent, field, options[field])
                agent.is_default = agent.is_default or options["default"]
                # There may be a default agent now; saving this one takes its place.
                agent.full_clean(validate_constraints=False)
                actions.save_agent(agent)
            except ValidationError as error:
                raise CommandError(describe(error)) from None
            except actions.Refused as refused:
                raise CommandError(str(refused)) from None
        done = "made" if is_new else "updated"
        self.stdout.write(f"Agent {slug} {done}: version {agent.version}, {model} at {agent.provider}.")
        if was_demo:
            self.stdout.write("Until now this was the demo agent that needs no key. It does not come back by itself.")


def unique(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))


def read_rules(given: list[str]) -> dict[str, Any]:
    """TOOL or TOOL=RULE, each as a rule by the name of its tool."""
    rules: dict[str, Any] = {}
    for text in given:
        name, has_rule, rule = text.partition("=")
        try:
            rules[name] = json.loads(rule) if has_rule and rule not in ("always", "never") else rule or "always"
        except ValueError as error:
            raise CommandError(f"The rule for {name} is no JSON: {error}.") from None
    return rules


def check_tools(tools: list[str], approvals: list[str]) -> None:
    try:
        known = known_tools()
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from error
    unknown = [name for name in tools if name not in known]
    if unknown:
        raise CommandError(f"Unknown tools: {', '.join(unknown)}. There are: {', '.join(known)}.")
    not_used = [name for name in approvals if name not in tools]
    if not_used:
        raise CommandError(f"--requires-approval names tools that the agent does not have: {', '.join(not_used)}.")


def find_provider(slug: str, base_url: str, api_key: str, api_key_env: str) -> Provider:
    """The provider of this endpoint, brought up to date. Where other agents use it with another credential, theirs is
    left alone and this agent gets one of its own."""
    parts = urlsplit(base_url)
    endpoint = (parts.netloc.rpartition("@")[2] + parts.path.rstrip("/"))[:60]
    for name in (endpoint, f"{endpoint} ({slug})"[:100]):
        provider = Provider.objects.filter(name=name).first() or Provider(name=name)
        is_shared = provider.pk is not None and provider.agents.exclude(slug=slug).exists()
        is_given = bool(api_key or api_key_env)
        is_same = not is_given or (provider.api_key, provider.api_key_env) == (api_key, api_key_env)
        if is_shared and not (is_same and provider.base_url == base_url):
            continue
        provider.kind = Provider.Kind.OPENAI
        provider.base_url = base_url
        if is_given:
            provider.api_key, provider.api_key_env = api_key, api_key_env
        provider.full_clean()
        provider.save()
        return provider
    raise CommandError(f"The providers of {endpoint} are used by other agents with other credentials.")


def describe(error: ValidationError) -> str:
    if not hasattr(error, "error_dict"):
        return " ".join(error.messages)
    return " ".join(f"{name}: {' '.join(messages)}" for name, messages in error.message_dict.items())
