"""Which settings make which deployment, and what is refused in words."""

from collections.abc import Callable

import pytest

from tests.serving import Served

SECRET = "0123456789-abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ"
POSTGRES = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing"}
REDIS = {"REDIS_URL": "redis://127.0.0.1:1/0"}


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({**REDIS, "DATABASE_URL": "sqlite:///file.sqlite3"}, "set DATABASE_URL=postgresql://"),
        ({**REDIS, **POSTGRES}, "set AGENTSITE_SECRET_KEY"),
    ],
)
def test_redis_needs_postgresql_and_a_shared_secret(
    serve_site: Callable[..., Served], environment: dict[str, str], words: str
) -> None:
    refused = serve_site(**environment).manage("worker")
    assert refused.returncode == 1
    [line] = refused.stderr.splitlines()
    assert words in line


def test_a_worker_of_its_own_is_refused_without_redis(serve_site: Callable[..., Served]) -> None:
    refused = serve_site().manage("worker")
    assert refused.returncode == 1
    assert refused.stderr.startswith("CommandError: Workers of their own need DATABASE_URL")


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_database_that_does_not_answer_is_reported_in_one_line(
    serve_site: Callable[..., Served], command: str
) -> None:
    refused = serve_site(**POSTGRES, **REDIS, AGENTSITE_SECRET_KEY=SECRET, PORT="0").manage(command)
    assert refused.returncode == 1
    assert "CommandError: The database does not answer" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_public_site_on_postgresql_is_told_that_it_must_be_one_process(serve_site: Callable[..., Served]) -> None:
    production = {"AGENTSITE_ENV": "production", "AGENTSITE_HOSTS": "a.example", "AGENTSITE_SECRET_KEY": SECRET}
    assert "runs.W001" in serve_site(**production, **POSTGRES).manage("check", "--deploy").stderr
    assert "runs.W001" not in serve_site(**production, **POSTGRES, **REDIS).manage("check", "--deploy").stderr


@pytest.mark.parametrize("command", ["serve", "worker"])
@pytest.mark.parametrize("name", ["AGENTSITE_TOOL_MODULES", "AGENTSITE_BACKGROUND_COMMANDS"])
def test_settings_of_the_worker_that_cannot_be_meant_are_refused_in_one_line(
    serve_site: Callable[..., Served], command: str, name: str
) -> None:
    site = serve_site(**POSTGRES, **REDIS, AGENTSITE_SECRET_KEY=SECRET, PORT="0", **{name: 'no.such="thing'})
    refused = site.manage(command)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"CommandError: {name}: ")
    assert len(refused.stderr.splitlines()) == 1


PRODUCTION = {"AGENTSITE_ENV": "production", "AGENTSITE_HOSTS": "a.example", "AGENTSITE_SECRET_KEY": SECRET}


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"AGENTSITE_ENV": "prod"}, "AGENTSITE_ENV must be one of development, production, not 'prod'."),
        ({**PRODUCTION, "AGENTSITE_SSL_REDIRECT": "maybe"}, "AGENTSITE_SSL_REDIRECT must be 1 or 0"),
        ({**PRODUCTION, "AGENTSITE_HOSTS": "https://a.example/"}, "'https://a.example/' is no host name"),
        ({**PRODUCTION, "AGENTSITE_HOSTS": "a.example, b.example:80"}, "'b.example:80' is no host name"),
        ({**PRODUCTION, "AGENTSITE_SECRET_KEY": "short"}, "too short to be a secret"),
        ({"AGENTSITE_LOG_LEVEL": "loud"}, "AGENTSITE_LOG_LEVEL must be"),
        ({"AGENTSITE_TIME_ZONE": "Mars"}, "AGENTSITE_TIME_ZONE must be like Europe/Berlin"),
        ({"AGENTSITE_DATA": "/proc/nowhere", "DATABASE_URL": ""}, "the directory /proc/nowhere cannot be made"),
        ({"DATABASE_URL": "mysql://x"}, "DATABASE_URL must begin with postgresql://"),
        ({"DATABASE_URL": "rubbish"}, "DATABASE_URL must begin with postgresql://"),
        ({"DATABASE_URL": "postgresql://a:b/c@localhost/d"}, "DATABASE_URL cannot be read"),
    ],
)
def test_settings_that_cannot_be_understood_are_refused_in_one_line(
    serve_site: Callable[..., Served], environment: dict[str, str], words: str
) -> None:
    refused = serve_site(**environment).manage("check")
    assert refused.returncode == 1
    [line] = refused.stderr.splitlines()
    assert words in line


def test_what_can_be_said_in_several_ways_is_understood(serve_site: Callable[..., Served]) -> None:
    said = {"AGENTSITE_SSL_REDIRECT": "true", "AGENTSITE_LOG_LEVEL": "info", "AGENTSITE_TIME_ZONE": "Europe/Berlin"}
    hosts = "agents.example.org, .example.org, *, 127.0.0.1, [::1]"
    shown = serve_site(**{**PRODUCTION, **said, "AGENTSITE_HOSTS": hosts}).manage("diffsettings")
    assert shown.returncode == 0, shown.stderr
    assert "SECURE_SSL_REDIRECT = True" in shown.stdout
    origins = ["agents.example.org", "*.example.org", "127.0.0.1", "[::1]"]
    assert f"CSRF_TRUSTED_ORIGINS = {[f'https://{name}' for name in origins]}" in shown.stdout
