"""The files for containers and for systemd: what would go wrong silently."""

import re
from typing import Any

import pytest
import yaml
from django.conf import settings

from tests.serving import PROJECT

UNITS = PROJECT / "deploy/systemd"
# After the patience of the drain: handing over what is left, and ending background processes.
HANDOVER_SECONDS = 10


def read_unit(name: str) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", (UNITS / name).read_text(), re.MULTILINE))


def read_service(name: str) -> dict[str, Any]:
    service: dict[str, Any] = yaml.safe_load((PROJECT / "compose.yaml").read_text())["services"][name]
    return service


@pytest.mark.parametrize(("unit", "service"), [("agentsite-worker@", "worker"), ("agentsite-web", "web")])
def test_a_process_is_given_the_time_that_it_takes_to_leave(unit: str, service: str) -> None:
    least = settings.AGENTSITE["DRAIN_SECONDS"] + HANDOVER_SECONDS
    assert int(read_unit(f"{unit}.service")["TimeoutStopSec"]) >= least
    assert int(read_service(service)["stop_grace_period"].removesuffix("s")) >= least


def test_a_worker_that_drains_keeps_the_background_processes_of_its_runs() -> None:
    """systemd's default tells every process of the unit to end, at once."""
    assert read_unit("agentsite-worker@.service")["KillMode"] == "mixed"


def test_the_secrets_of_the_compose_file_are_neither_in_the_image_nor_in_git() -> None:
    for name in (".dockerignore", ".gitignore"):
        assert ".env" in (PROJECT / name).read_text().splitlines()


def test_a_database_that_is_being_made_counts_neither_as_healthy_nor_as_lost() -> None:
    """The image starts a server on the socket alone first, and ends it again."""
    check = read_service("postgres")["healthcheck"]
    assert check["test"][:4] == ["CMD", "pg_isready", "-h", "127.0.0.1"]
    assert "start_period" in check
