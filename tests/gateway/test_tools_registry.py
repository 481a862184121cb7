"""Which tools there are, and what a person is told who configures them wrongly."""

import sys
from types import ModuleType

import pytest

from gateway.tools.registry import Registry, RegistryError, load_registry, tool


def make_tool(name: str):
    def function() -> None:
        """Do nothing."""

    function.__name__ = name
    return tool()(function)


def add_module(monkeypatch, name: str, **content: object) -> None:
    module = ModuleType(name)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)


def test_the_built_in_tools_are_there_and_all_but_two_may_be_repeated():
    """T4: none of the others has an effect that would come twice; the e-mail needs approval."""
    registry = load_registry()
    assert registry.names() == [
        "calculator",
        "check_process",
        "current_time",
        "end_process",
        "list_files",
        "read_file",
        "recall",
        "remember",
        "send_email",
        "start_process",
        "wait",
        "write_file",
    ]
    tools = registry.select(registry.names()).values()
    assert [tool.name for tool in tools if not tool.is_repeatable] == ["send_email", "start_process"]
    assert [tool.name for tool in tools if tool.approval != "never"] == ["send_email"]
    assert not make_tool("something").is_repeatable, "but not unless a tool says so"


def test_every_module_in_the_folder_that_has_a_tool_is_loaded():
    import importlib
    import pkgutil

    import gateway.tools
    from gateway.tools.base import Tool

    found = set()
    for module in pkgutil.iter_modules(gateway.tools.__path__):
        content = vars(importlib.import_module(f"gateway.tools.{module.name}"))
        found |= {value.name for value in content.values() if isinstance(value, Tool)}
    assert found == set(load_registry().names())


def test_two_tools_of_one_name_are_refused():
    registry = Registry()
    registry.register(make_tool("ping"))
    with pytest.raises(RegistryError, match="two tools named 'ping'"):
        registry.register(make_tool("ping"))


def test_a_selection_keeps_its_order_and_names_all_that_is_unknown():
    registry = load_registry()
    assert list(registry.select(["wait", "calculator"])) == ["wait", "calculator"]
    assert registry.get("nothing") is None
    with pytest.raises(RegistryError, match=r"Unknown tools: ping, pong\. There are: calculator, check_process"):
        registry.select(["wait", "ping", "pong"])


def test_an_extra_module_brings_its_tools_and_may_import_those_of_others(monkeypatch):
    ping = make_tool("ping")
    add_module(monkeypatch, "site_tools", ping=ping, word="no tool")
    add_module(monkeypatch, "more_tools", ping=ping, pong=make_tool("pong"))
    assert load_registry(["site_tools", "more_tools"]).select(["ping", "pong", "wait"])["ping"] is ping


def test_an_extra_module_cannot_replace_a_built_in_tool(monkeypatch):
    add_module(monkeypatch, "site_tools", wait=make_tool("wait"))
    with pytest.raises(RegistryError, match="two tools named 'wait'"):
        load_registry(["site_tools"])


def test_a_module_that_cannot_be_used_is_named(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_tools.py").write_text("1 / 0")
    add_module(monkeypatch, "empty_tools")
    for name, words in [
        ("no_such_module", r"'no_such_module' cannot be imported: ModuleNotFoundError: No module named"),
        ("broken_tools", r"'broken_tools' cannot be imported: ZeroDivisionError"),
        ("", "'' cannot be imported"),
        ("empty_tools", "'empty_tools' has no tools"),
    ]:
        with pytest.raises(RegistryError, match=words):
            load_registry([name])
