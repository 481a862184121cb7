"""What `serve` prints."""

from pathlib import Path
from typing import Any

import pytest

from runs.welcome import address_of, describe_site


def test_printed_commands_find_the_data_that_the_server_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTSITE_DATA", "/srv/my site")
    assert "AGENTSITE_DATA='/srv/my site' .venv/bin/python manage.py changepassword" in describe_site("", True)
    monkeypatch.delenv("AGENTSITE_DATA")
    assert "AGENTSITE_DATA" not in describe_site("", True)


def test_a_public_site_is_shown_by_its_name_and_not_by_where_a_process_listens(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["agents.example.org", "other.example.org"]
    assert address_of("0.0.0.0", 8000) == "http://0.0.0.0:8000"
    assert address_of("::1", 8000) == "http://[::1]:8000"
    settings.IS_PRODUCTION = True
    assert address_of("0.0.0.0", 8000) == "https://agents.example.org"
    settings.ALLOWED_HOSTS = [".example.org"]
    assert address_of("127.0.0.1", 8000) == "http://127.0.0.1:8000"


def test_where_there_is_no_environment_of_the_projects_own_none_is_named(settings: Any, tmp_path: Path) -> None:
    settings.BASE_DIR = tmp_path
    assert " python manage.py create_api_key" in describe_site("", True)


def test_whoever_has_a_database_elsewhere_is_told_that_commands_need_it(settings: Any) -> None:
    settings.DATABASE_URL = ""
    assert "DATABASE_URL" not in describe_site("", True)
    settings.DATABASE_URL = "postgresql://somewhere/site"
    assert "DATABASE_URL" in describe_site("", True)
