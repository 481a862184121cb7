"""Imports point one way: agentsite → runs → gateway. Read from the source, so that a lazy import counts as well."""

import ast
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ROOMS = ("agentsite", "runs", "gateway")
# The worker, what it is made of, and who asks which tools there are.
MAY_IMPORT_GATEWAY = {
    f"runs/{name}.py"
    for name in (
        "assembly",
        "caretaker",
        "execution",
        "journal",
        "tasks",
        "toolbox",
        "tracing",
        "window",
        "worker",
    )
}


def sources(*rooms: str) -> list[Path]:
    return [path for room in rooms for path in sorted((PROJECT / room).rglob("*.py"))]


def name_of(path: Path) -> str:
    return str(path.relative_to(PROJECT))


def imports(path: Path) -> Iterator[str]:
    """The dotted names of everything that a file imports."""
    package = path.relative_to(PROJECT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) + "." if node.level else ""
            yield from (f"{base}{node.module or ''}.{alias.name}" for alias in node.names)


def who_imports(packages: set[str], *rooms: str) -> set[str]:
    """The files in these rooms that import one of these packages."""
    return {
        name_of(path)
        for path in sources(*rooms)
        for name in imports(path)
        if any(name == package or name.startswith(f"{package}.") for package in packages)
    }


def test_the_gateway_knows_neither_django_nor_the_rooms_above_it() -> None:
    forbidden = {"django", "channels", "daphne", "rest_framework", "runs", "agentsite"}
    assert who_imports(forbidden, "gateway") == set()


def test_runs_does_not_know_the_wiring() -> None:
    assert who_imports({"agentsite"}, "runs") == set()


def test_only_the_worker_and_its_parts_import_the_gateway() -> None:
    assert who_imports({"gateway"}, "agentsite", "runs") <= MAY_IMPORT_GATEWAY


def test_only_the_providers_import_openai() -> None:
    assert {name for name in who_imports({"openai"}, *ROOMS) if not name.startswith("gateway/providers/")} == set()


def test_nobody_waits_with_wait_for() -> None:
    """On Python 3.11 it swallows a cancellation that arrives in the tick in which the inner await completes."""
    called = {
        name_of(path)
        for path in sources(*ROOMS, "tests")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "asyncio.wait_for"
    }
    assert called | who_imports({"asyncio.wait_for"}, *ROOMS, "tests") == set()


def test_the_rooms_are_found() -> None:
    """The tests above would pass on nothing."""
    assert {"gateway/loop.py", "runs/journal.py", "agentsite/settings.py"} <= {
        name_of(path) for path in sources(*ROOMS)
    }
    assert who_imports({"gateway"}, "runs") != set()
    assert who_imports({"openai"}, "gateway") != set()
