"""The configuration signature of an agent: what rebuilds it, and what does not."""

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from gateway.pool import SignatureParts, signature

PARTS = SignatureParts(
    model="gpt-5",
    provider="openai",
    base_url="https://models.example/v1",
    credential="sk-proj-0123456789-alice",
    tools={"calculator": "aa11", "wait": "bb22"},
    instructions="Be brief.",
    sampling={"temperature": 0.2, "stop": ["a", "b"]},
    has_parallel_tools=True,
)

CHANGES: dict[str, Any] = {
    "model": "gpt-5-mini",
    "provider": "demo",
    "base_url": "https://models.example/v2",
    "credential": "sk-proj-0123456789-bob",
    "tools": {"calculator": "aa11"},
    "instructions": "Be brief!",
    "sampling": {"temperature": 0.3, "stop": ["a", "b"]},
    "has_parallel_tools": False,
    "fallback": SignatureParts("gpt-5-nano", "openai", "", "sk-second", {}, ""),
}


def test_every_part_has_a_change_to_be_tested():
    assert set(CHANGES) == {part.name for part in fields(SignatureParts)}


@pytest.mark.parametrize("part", CHANGES)
def test_a_change_of_any_part_changes_the_signature(part):
    """P2: covers model, provider, base URL, credential, tools and instructions."""
    assert signature(replace(PARTS, **{part: CHANGES[part]})) != signature(PARTS)


def test_two_keys_with_the_same_beginning_differ_also_when_they_are_very_long():
    """P2: the whole credential counts."""
    one, other = ("sk-" + "x" * 10_000 + end for end in "ab")
    assert signature(replace(PARTS, credential=one)) != signature(replace(PARTS, credential=other))


def test_no_credential_and_an_empty_one_and_one_that_looks_like_a_hash_differ():
    """P2"""
    credentials = [None, "", "None", "null", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"]
    assert len({signature(replace(PARTS, credential=credential)) for credential in credentials}) == 5


@pytest.mark.parametrize("part", ["model", "provider", "base_url", "credential"])
def test_a_change_of_the_second_model_changes_the_signature(part):
    """P2, P3: another second model, endpoint or credential is another configuration."""
    second = CHANGES["fallback"]
    changed = replace(second, **{part: CHANGES[part]})
    assert signature(replace(PARTS, fallback=changed)) != signature(replace(PARTS, fallback=second))
    assert "sk-second" not in repr(replace(PARTS, fallback=second))


def test_the_version_of_one_tool_counts():
    """P2: tools and their versions."""
    assert signature(replace(PARTS, tools={"calculator": "aa12", "wait": "bb22"})) != signature(PARTS)


def test_words_cannot_move_from_one_part_to_the_next():
    """P2: two configurations never share a signature because their texts happen to join up."""
    assert signature(replace(PARTS, model="ab", provider="c")) != signature(replace(PARTS, model="a", provider="bc"))


def test_the_order_of_keys_and_the_kind_of_mapping_do_not_count():
    """P2: stable."""
    turned = replace(
        PARTS,
        tools=MappingProxyType({"wait": "bb22", "calculator": "aa11"}),
        sampling={"stop": ["a", "b"], "temperature": 0.2},
    )
    assert signature(turned) == signature(PARTS)


def test_another_process_with_another_hash_seed_finds_the_same():
    """P2: stable over processes, so that a figure in a log can be compared."""
    code = "from tests.gateway.test_signature import PARTS, signature; print(signature(PARTS))"
    for seed in "12":
        printed = subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[2],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert printed.stdout.strip() == signature(PARTS)


def test_what_may_change_with_each_message_is_no_part_of_it():
    """P2: reasoning effort and callbacks are set on the live agent."""
    names = {part.name for part in fields(SignatureParts)}
    assert not [name for name in names if "reason" in name or "effort" in name or "callback" in name]


def test_the_credential_shows_neither_in_the_signature_nor_in_the_parts():
    """P2: hashed, never logged."""
    assert "alice" not in repr(PARTS)
    assert set(signature(PARTS)) <= set("0123456789abcdef")
    assert len(signature(PARTS)) == 64
