"""From stored configuration to a live agent: its client, its tools, its signature."""

import logging
import os
from collections.abc import Sequence

from gateway.agent import Agent, AgentSetup, Fallback, Prices
from gateway.pool import SignatureParts, signature
from gateway.providers.base import Provider
from gateway.providers.demo import DemoTransport
from gateway.providers.openai import OpenAIProvider
from gateway.task import Task
from gateway.tools.registry import Registry, Tool
from runs.models import Agent as AgentRow
from runs.models import Provider as ProviderRow
from runs.models.fields import Unreadable

logger = logging.getLogger(__name__)

DEMO_URL = "http://demo.invalid/v1"


def credential_of(provider: ProviderRow) -> str:
    return os.environ.get(provider.api_key_env, "") if provider.api_key_env else provider.api_key


def key_fault_of(provider: ProviderRow) -> str:
    """Why there is no key where there should be one. Without this the provider would be asked without, and refuse."""
    if provider.api_key_env:
        if os.environ.get(provider.api_key_env):
            return ""
        return f"The provider's key is missing: the worker's environment has no {provider.api_key_env}."
    if isinstance(provider.api_key, Unreadable):
        return "The provider's key was stored with another AGENTSITE_SECRET_KEY and cannot be read: set it again."
    return ""


def tools_of(agent: AgentRow, registry: Registry) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    for name in agent.tools:
        tool = registry.get(name)
        if tool is None:
            logger.warning("Agent %s names the tool %s, which this worker does not have.", agent.slug, name)
        else:
            tools[name] = tool
    return tools


def signature_of(agent: AgentRow, tools: Sequence[Tool]) -> str:
    provider = agent.provider
    prices = (agent.prompt_price, agent.completion_price)
    return signature(
        SignatureParts(
            model=agent.model,
            provider=f"{_client_of(provider)} {prices}",
            base_url=provider.base_url,
            credential=credential_of(provider),
            fallback=_fallback_parts(agent),
            tools={tool.name: tool.version for tool in tools},
            instructions=agent.instructions,
            sampling=agent.sampling,
            has_parallel_tools=agent.has_parallel_tools,
        )
    )


def _client_of(provider: ProviderRow) -> tuple[object, ...]:
    fault = key_fault_of(provider)
    return provider.kind, provider.connect_seconds, provider.silence_seconds, provider.max_retries, fault


def _fallback_parts(agent: AgentRow) -> SignatureParts | None:
    """The second model with its own endpoint and credential: a change there rebuilds the agent, too."""
    if not agent.fallback_model:
        return None
    provider = fallback_provider_of(agent)
    prices = (agent.fallback_prompt_price, agent.fallback_completion_price)
    return SignatureParts(
        model=agent.fallback_model,
        provider=f"{_client_of(provider)} {prices}",
        base_url=provider.base_url,
        credential=credential_of(provider),
        tools={},
        instructions="",
    )


def fallback_provider_of(agent: AgentRow) -> ProviderRow:
    return agent.fallback_provider or agent.provider


def make_provider(provider: ProviderRow) -> Provider:
    return OpenAIProvider(
        base_url=provider.base_url or DEMO_URL,
        api_key=credential_of(provider),
        key_fault=key_fault_of(provider),
        connect_timeout=provider.connect_seconds,
        read_timeout=provider.silence_seconds,
        transport=DemoTransport() if provider.kind == ProviderRow.Kind.DEMO else None,
    )


def make_fallback(agent: AgentRow, first: Provider) -> Fallback | None:
    if not agent.fallback_model:
        return None
    row = fallback_provider_of(agent)
    return Fallback(
        model=agent.fallback_model,
        provider=first if row == agent.provider else make_provider(row),
        max_retries=row.max_retries,
        prices=Prices(agent.fallback_prompt_price, agent.fallback_completion_price),
    )


def make_agent(agent: AgentRow, tools: dict[str, Tool], task: Task) -> Agent:
    setup = AgentSetup(
        model=agent.model,
        instructions=agent.instructions,
        sampling=agent.sampling,
        has_parallel_tools=agent.has_parallel_tools,
        max_retries=agent.provider.max_retries,
        prices=Prices(agent.prompt_price, agent.completion_price),
    )
    provider = make_provider(agent.provider)
    return Agent(setup, provider, tools, task, make_fallback(agent, provider))
