"""From stored configuration to a signature: whatever changes what an agent is made of changes it (contract P2)."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from gateway.tools.registry import Tool, load_registry
from runs.assembly import key_fault_of, signature_of
from runs.models import Agent, Provider

TOOLS = [tool for name in ("wait", "recall") if (tool := load_registry([]).get(name)) is not None]


def make_row() -> Agent:
    """Not stored: a signature needs no database."""
    provider = Provider(name="P", base_url="http://one.invalid/v1", api_key="sk-same-beginning-1")
    second = Provider(name="Q", base_url="http://two.invalid/v1", api_key="sk-second")
    return Agent(slug="a", name="A", provider=provider, model="m", fallback_model="n", fallback_provider=second)


def set_to(path: str, value: object) -> Callable[[Agent], None]:
    *way, name = path.split(".")

    def change(row: Agent) -> None:
        target: object = row
        for step in way:
            target = getattr(target, step)
        setattr(target, name, value)

    return change


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model", "other"),
        ("instructions", "Be brief."),
        ("sampling", {"temperature": 0}),
        ("has_parallel_tools", True),
        ("prompt_price", Decimal(1)),
        ("completion_price", Decimal(1)),
        ("provider.kind", Provider.Kind.DEMO),
        ("provider.base_url", "http://elsewhere.invalid/v1"),
        ("provider.api_key", "sk-same-beginning-2"),
        ("provider.api_key_env", "AGENTSITE_TEST_KEY"),
        ("provider.connect_seconds", 1.5),
        ("provider.silence_seconds", 1.5),
        ("provider.max_retries", 9),
        ("fallback_model", "other"),
        ("fallback_model", ""),
        ("fallback_prompt_price", Decimal(1)),
        ("fallback_provider.base_url", "http://elsewhere.invalid/v1"),
        ("fallback_provider.api_key", "sk-other"),
    ],
)
def test_what_an_agent_is_made_of_is_in_its_signature(path: str, value: object) -> None:
    """P2, P3"""
    row = make_row()
    set_to(path, value)(row)
    assert signature_of(row, TOOLS) != signature_of(make_row(), TOOLS)


def test_a_key_from_the_environment_is_in_the_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """P2: the key itself, not only where it is found."""
    row = make_row()
    row.provider.api_key_env = "AGENTSITE_TEST_KEY"
    signatures = set()
    for key in ("sk-same-beginning-1", "sk-same-beginning-2"):
        monkeypatch.setenv("AGENTSITE_TEST_KEY", key)
        signatures.add(signature_of(row, TOOLS))
    assert len(signatures) == 2


@pytest.mark.parametrize("tools", [[], TOOLS[:1], [TOOLS[0], replace(TOOLS[1], version="other")]])
def test_tools_and_their_versions_are_in_the_signature(tools: list[Tool]) -> None:
    """P2"""
    assert len(TOOLS) == 2
    assert signature_of(make_row(), tools) != signature_of(make_row(), TOOLS)


@pytest.mark.parametrize(
    ("path", "value"),
    [("reasoning_effort", "high"), ("approvals", {"wait": "always"}), ("max_steps", 3), ("name", "B")],
)
def test_what_a_message_may_change_is_not_in_the_signature(path: str, value: object) -> None:
    """P2: it is set on the live agent in place."""
    row = make_row()
    set_to(path, value)(row)
    assert signature_of(row, TOOLS) == signature_of(make_row(), TOOLS)
    assert signature_of(row, TOOLS[::-1]) == signature_of(make_row(), TOOLS), "nor the order of its tools"


def test_a_key_that_is_missing_in_the_environment_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """E1, P3: and an agent that was made with it is not kept when the fault is mended."""
    row = make_row()
    assert key_fault_of(row.provider) == ""
    row.provider.api_key_env = "AGENTSITE_TEST_KEY"
    monkeypatch.delenv("AGENTSITE_TEST_KEY", raising=False)
    assert "AGENTSITE_TEST_KEY" in key_fault_of(row.provider)
    without = signature_of(row, TOOLS)
    row.provider.api_key_env = row.provider.api_key = ""
    assert key_fault_of(row.provider) == ""
    assert signature_of(row, TOOLS) != without


@pytest.mark.django_db
def test_a_key_that_was_stored_with_another_secret_is_a_fault_and_is_kept(settings: Any) -> None:
    """E1: whoever gives the old secret back can read it again, whatever was changed meanwhile."""
    old = settings.SECRET_KEY
    made = Provider.objects.create(name="P", base_url="http://one.invalid/v1", api_key="sk-secret")
    settings.SECRET_KEY = "another one"
    provider = Provider.objects.get(pk=made.pk)
    assert provider.api_key == ""
    assert "AGENTSITE_SECRET_KEY" in key_fault_of(provider)
    provider.max_retries = 1
    provider.save()
    settings.SECRET_KEY = old
    provider = Provider.objects.get(pk=made.pk)
    assert (provider.api_key, provider.max_retries, key_fault_of(provider)) == ("sk-secret", 1, "")
