"""`manage.py serve`, as the real process: how it starts, what it prints, how it ends."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.cookiejar import CookieJar
from typing import Any

import pytest

from tests.serving import Served
from tests.sites import Sites

DYING_WORKER = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "agentsite.settings"
import django
django.setup()
from runs.worker import Worker

async def die(self):
    raise RuntimeError("the worker's own trouble")

Worker.run = die
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", *sys.argv[1:]])
"""


def call(site: Served, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        site.url + path,
        method=method,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Authorization": f"Bearer {site.key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


@contextmanager
def following(site: Served, run_id: str, until: str) -> Iterator[None]:
    """A client that follows a run's events, from the moment it has seen this type of event."""
    with closing(http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)) as client:
        client.request("GET", f"/v1/runs/{run_id}/events", headers={"Authorization": f"Bearer {site.key}"})
        with client.getresponse() as response:
            while until not in response.readline().decode():
                pass
            yield


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def sign_in(site: Served, password: str) -> str:
    """The page after signing in, in a browser's way."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    with browser.open(f"{site.url}/accounts/login/?next=/admin/") as page:
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.read().decode())
    assert token is not None
    form = f"csrfmiddlewaretoken={token[1]}&username=admin&password={password}&next=/admin/"
    with browser.open(f"{site.url}/accounts/login/", form.encode()) as page:
        return str(page.read().decode())


def test_a_new_site_lets_its_owner_in_with_what_it_printed(serve_site: Callable[..., Served]) -> None:
    site = serve_site()
    site.start()
    assert site.log.count(site.password) == 1
    assert "Administration" in sign_in(site, site.password)
    assert "do not match" in sign_in(site, "admin")
    assert call(site, "GET", "/v1/runs")["data"] == []


def test_a_start_on_existing_data_prints_no_secret(served: Served) -> None:
    assert served.url in served.log
    assert "create_api_key" in served.log
    assert "changepassword admin" in served.log
    assert "Password  " not in served.log
    assert "ask_" not in served.log
    assert "Administration" in sign_in(served, served.password)
    assert call(served, "GET", "/v1/runs")["data"] == []


def test_the_site_is_ready_while_its_worker_lives(served: Served) -> None:
    wait_for(lambda: served.answers("/readyz"))


def test_the_printed_lines_start_follow_and_stop_a_run(serve_site: Callable[..., Served]) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    site = serve_site()
    site.start()
    lines = re.search(r"^  KEY=.*?\n\n", site.log, re.DOTALL | re.MULTILINE)
    assert lines is not None
    shell = subprocess.run(["bash", "-c", lines[0] + "\nwait"], capture_output=True, text=True, timeout=60)
    assert (shell.returncode, shell.stderr) == (0, "")
    assert "event: tool.started" in shell.stdout
    assert "event: run.cancelled" in shell.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_while_a_run_is_followed(served: Served, number: signal.Signals) -> None:
    run_id = call(served, "POST", "/v1/runs", {"input": "Wait 20 seconds"})["run_id"]
    with following(served, run_id, until="tool.started"):
        assert served.stop(number) == 0
    served.start()
    # It was handed back and not ended: the next start goes on with it.
    assert call(served, "GET", f"/v1/runs/{run_id}")["status"] in ("queued", "running", "completed")
    call(served, "POST", f"/v1/runs/{run_id}/stop")


def test_a_signal_that_comes_twice_at_once_ends_it_cleanly_as_well(served: Served) -> None:
    """As make does: it passes on what the whole group has got already."""
    served.process.send_signal(signal.SIGTERM)
    assert served.stop() == 0


def test_many_connections_in_one_moment_all_find_a_place(served: Served) -> None:
    """Even while the server is busy with something else for so long that it accepts none of them."""
    with ExitStack() as clients:
        served.process.send_signal(signal.SIGSTOP)
        try:
            connections = [
                clients.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=10))
                for _ in range(300)
            ]
        finally:
            served.process.send_signal(signal.SIGCONT)
        for connection in connections:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert {connection.recv(15) for connection in connections} == {b"HTTP/1.1 200 OK"}


def test_a_half_sent_request_does_not_disturb_the_end(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as client:
        client.sendall(b"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        assert served.answers()
        assert served.stop() == 0


@pytest.mark.skipif("DATABASE_URL" in os.environ, reason="the lock is for SQLite")
def test_a_second_server_on_the_same_data_is_refused_in_one_line(served: Served) -> None:
    second = served.manage("serve", "--port", "0")
    assert second.returncode == 1
    assert second.stdout == ""
    assert re.fullmatch(r"CommandError: Another server already uses the data in .*AGENTSITE_DATA\.\n", second.stderr)
    assert served.answers()


def test_a_port_that_is_taken_is_reported_in_one_line_and_nothing_is_made(serve_site: Callable[..., Served]) -> None:
    site = serve_site()
    with socket.socket() as other:
        other.bind(("127.0.0.1", site.port))
        other.listen()
        assert site.launch().wait(30) == 1
    assert re.fullmatch(r"CommandError: Cannot listen on 127\.0\.0\.1:\d+: Address already in use\. .*\n", site.log)
    assert not (site.data / "agentsite.sqlite3").exists()


def test_without_a_worker_runs_wait(sites: Sites, first_site: Served) -> None:
    site = sites.copy(first_site, "--web-only")
    site.start()
    run_id = call(site, "POST", "/v1/runs", {"input": "hello"})["run_id"]
    with pytest.raises(urllib.error.HTTPError) as not_ready:
        urllib.request.urlopen(f"{site.url}/readyz")
    assert not_ready.value.code == 503
    assert "No worker was seen" in json.load(not_ready.value)["problems"][0]
    not_ready.value.close()
    assert call(site, "GET", f"/v1/runs/{run_id}")["status"] == "queued"


@pytest.mark.expects_log("The worker failed", "Traceback")
def test_a_worker_that_fails_takes_the_server_with_it(serve_site: Callable[..., Served]) -> None:
    site = serve_site()
    site.program = ("-c", DYING_WORKER)
    assert site.launch().wait(30) == 1
    assert "The worker failed, and the server ends with it." in site.log
    assert "RuntimeError: the worker's own trouble" in site.log


def test_a_tool_module_that_is_missing_is_reported_in_one_line(serve_site: Callable[..., Served]) -> None:
    site = serve_site(AGENTSITE_TOOL_MODULES="no.such.module")
    assert site.launch().wait(30) == 1
    assert re.fullmatch(r"CommandError: AGENTSITE_TOOL_MODULES: .*no\.such\.module.*\n", site.log)


@pytest.mark.expects_log("Traceback")
def test_a_lease_that_a_living_worker_could_not_keep_is_refused(serve_site: Callable[..., Served]) -> None:
    site = serve_site(AGENTSITE_LEASE_SECONDS="1.9")
    assert site.launch().wait(30) == 1
    assert "AGENTSITE_LEASE_SECONDS must be at least 2, not '1.9'." in site.log
    site.environment["AGENTSITE_LEASE_SECONDS"] = "2"
    assert site.manage("check").returncode == 0


def test_production_insists_on_a_secret_hosts_and_collected_files(sites: Sites, first_site: Served) -> None:
    site = sites.copy(first_site, AGENTSITE_ENV="production")
    (site.data / "secret_key").unlink()
    refused = site.manage("check")
    assert "AGENTSITE_SECRET_KEY and AGENTSITE_HOSTS" in refused.stderr
    assert not (site.data / "secret_key").exists()

    site.environment.update(AGENTSITE_SECRET_KEY="s" * 60, AGENTSITE_HOSTS="127.0.0.1")
    assert "collectstatic" in site.manage("serve", "--port", str(site.port)).stderr
    assert site.manage("collectstatic", "--noinput").returncode == 0
    (module,) = (site.data / "static" / "console").glob("main.*.js")
    assert re.search(r'import *"\./theme\.[0-9a-f]+\.js"', module.read_text()), "what a module imports is hashed, too"
    site.start()
    with closing(http.client.HTTPConnection("127.0.0.1", site.port, timeout=10)) as client:
        client.request("GET", "/", headers={"X-Forwarded-Proto": "https"})
        with client.getresponse() as page:
            stylesheet = re.search(r'href="(/static/css/base\.[0-9a-f]+\.css)"', page.read().decode())
        assert stylesheet is not None
        client.request("GET", stylesheet[1], headers={"X-Forwarded-Proto": "https"})
        with client.getresponse() as file:
            assert (file.status, file.headers["Cache-Control"]) == (200, "max-age=315360000, public, immutable")
            file.read()
        client.request("GET", "/")
        with client.getresponse() as plain:
            assert (plain.status, plain.headers["Location"]) == (301, f"https://127.0.0.1:{site.port}/")


def test_the_secret_key_is_the_owners_alone_and_lasts(served: Served) -> None:
    path = served.data / "secret_key"
    secret = path.read_text()
    assert len(secret) > 50
    assert path.stat().st_mode & 0o077 == 0
    served.restart()
    assert path.read_text() == secret


def test_the_commands_work_before_the_first_start_and_beside_the_server(serve_site: Callable[..., Served]) -> None:
    site = serve_site()
    created = ("create_agent", "helper", "--base-url", "http://localhost:1/v1", "--model", "m")
    early = site.manage(*created)
    assert (early.returncode, early.stderr) == (0, "")
    site.start()
    assert {agent["slug"] for agent in call(site, "GET", "/v1/agents")["data"]} == {"demo", "helper"}
    made = site.manage("create_api_key", "laptop", "--user", "admin")
    site.key = made.stdout.splitlines()[-1]
    assert call(site, "GET", "/v1/runs")["data"] == []
