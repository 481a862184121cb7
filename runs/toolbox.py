"""Which tools this site has: the built-in ones and those of the modules that its owner named."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from gateway.tools.approval import find_fault
from gateway.tools.approval import is_looser as is_looser_than
from gateway.tools.arguments import Misfit, make_validator
from gateway.tools.arguments import find_misfit as find_misfit_with
from gateway.tools.base import Rule
from gateway.tools.registry import Registry, RegistryError, load_registry


@cache
def registry() -> Registry:
    try:
        return load_registry(settings.AGENTSITE["TOOL_MODULES"])
    except RegistryError as error:
        raise ImproperlyConfigured(f"AGENTSITE_TOOL_MODULES: {error}") from error


def known_tools() -> list[str]:
    return registry().names()


def find_rule_fault(name: str, rule: object) -> str | None:
    """What is wrong with an approval rule, as the end of a sentence. Of a tool that this site does not have, only the
    rule itself can be judged."""
    tool = registry().get(name)
    return find_fault(rule, tool.parameters if tool is not None else None)


def is_looser(name: str, rule: Rule) -> bool:
    """Whether a rule may ask for less approval than the tool itself does, or would if this site had it."""
    tool = registry().get(name)
    return is_looser_than(rule, tool.approval if tool is not None else "always")


def find_misfit(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> Misfit | None:
    """What is wrong with arguments by a tool's schema; None where they fit."""
    return find_misfit_with(make_validator(schema), arguments)
