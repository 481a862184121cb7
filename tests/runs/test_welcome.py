"""What `serve` prints."""

import pytest

from runs.welcome import describe_site


def test_printed_commands_find_the_data_that_the_server_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTSITE_DATA", "/srv/my site")
    assert "AGENTSITE_DATA='/srv/my site' .venv/bin/python manage.py changepassword" in describe_site("", True)
    monkeypatch.delenv("AGENTSITE_DATA")
    assert "AGENTSITE_DATA" not in describe_site("", True)
