"""Which tools this site has: the built-in ones and those of the modules that its owner named."""

from functools import cache

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from gateway.tools.registry import Registry, RegistryError, load_registry


@cache
def registry() -> Registry:
    try:
        return load_registry(settings.AGENTSITE["TOOL_MODULES"])
    except RegistryError as error:
        raise ImproperlyConfigured(f"AGENTSITE_TOOL_MODULES: {error}") from error


def known_tools() -> list[str]:
    return registry().names()
