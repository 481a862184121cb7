"""The API through the real server, over real connections: what a server does to it that no test client shows."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from tests.serving import Served
from tests.sites import making_sites

LOCAL = aiohttp.ClientTimeout(total=20)


@pytest.fixture(scope="module")
def site(first_site: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Without a worker: runs wait until they are stopped."""
    with making_sites(tmp_path_factory.mktemp("served"), expected=["DisallowedHost"]) as sites:
        site = sites.copy(first_site, "--web-only", AGENTSITE_MAX_BODY_BYTES="100000")
        site.start()
        yield site


def client(site: Served, **headers: str) -> aiohttp.ClientSession:
    sent = {"Authorization": f"Bearer {site.key}", **headers}
    return aiohttp.ClientSession(site.url, headers=sent, timeout=LOCAL)


async def start(http: aiohttp.ClientSession) -> str:
    async with http.post("/v1/runs", json={"input": "hello"}) as answer:
        assert answer.status == 202
        run_id: str = (await answer.json())["run_id"]
        return run_id


async def test_a_run_is_started_watched_and_stopped(site: Served) -> None:
    """R1, R4, R7: by stream and by socket, which see the same."""
    async with client(site) as http:
        run_id = await start(http)
        async with http.get(f"/v1/runs/{run_id}/events") as stream, http.ws_connect(f"/ws/runs/{run_id}/") as socket:
            assert stream.headers["Content-Type"] == "text/event-stream"
            assert (await stream.content.readuntil(b"\n\n")).startswith(b"id: 1\nevent: run.queued\n")
            assert (await socket.receive_json())["type"] == "run.queued"
            async with http.post(f"/v1/runs/{run_id}/stop") as answer:
                assert (answer.status, await answer.json()) == (200, {"run_id": run_id, "status": "stopping"})
            rest = (await stream.content.read()).decode().split("\n\n")
            told = [json.loads(frame.split("data: ")[1]) for frame in rest if "data: " in frame]
            assert [(event["seq"], event["type"]) for event in told] == [(2, "run.cancelled")]
            assert [await socket.receive_json()] == told
            assert (await socket.receive()).type == aiohttp.WSMsgType.CLOSE
            assert socket.close_code == 1000


async def test_a_body_in_chunks_is_held_to_the_limit(site: Served) -> None:
    """R2"""

    async def chunks(size: int) -> Any:
        for _ in range(size // 1000):
            yield b" " * 1000
        yield b'{"input": "x"}'

    async with client(site, **{"Content-Type": "application/json"}) as http:
        for size, status in ((50_000, 202), (200_000, 413)):
            async with http.post("/v1/runs", data=chunks(size)) as answer:
                assert answer.status == status
        async with http.post("/v1/runs", data=b" " * 200_000) as answer:
            assert (await answer.json())["error"]["code"] == "body_too_large"


async def test_a_head_is_answered_without_a_body(site: Served) -> None:
    """However long the body would be: on a kept connection the next answer follows at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    lines = f"Host: 127.0.0.1\r\nAuthorization: Bearer {site.key}\r\n\r\n"
    async with asyncio.timeout(20):
        for path in ("/v1/schema", "/v1/runs", "/static/css/base.css", "/accounts/login/", "/healthz"):
            writer.write(f"HEAD {path} HTTP/1.1\r\n{lines}".encode())
            answer = (await reader.readuntil(b"\r\n\r\n")).decode()
            assert answer.startswith("HTTP/1.1 200 "), path
    writer.close()
    await writer.wait_closed()


async def test_a_gigabyte_is_refused_before_it_is_sent(site: Served) -> None:
    """R2: in the envelope, and without being read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    async with asyncio.timeout(20):
        writer.write(b"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000\r\n\r\n")
        answer = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert answer.startswith("HTTP/1.1 413 ")
        assert "application/json" in answer
        writer.write_eof()
        error = json.loads(await reader.read())["error"]
    writer.close()
    assert (error["code"], error["message"]) == ("body_too_large", "The body is larger than 100000 bytes.")


async def test_sockets_are_refused_and_closed_with_their_codes(site: Served) -> None:
    """R3, R6"""
    async with client(site) as http, client(site, Authorization="Bearer nonsense") as stranger:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await stranger.ws_connect("/ws/runs/run_1/")
        assert refused.value.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect("/ws/nothing/")
        for path, code in (("/ws/runs/run_1/", 4404), ("/ws/runs/run_1/?starting_after=x", 4400)):
            async with http.ws_connect(path) as socket:
                assert (await socket.receive()).type == aiohttp.WSMsgType.CLOSE
                assert socket.close_code == code


async def test_a_stranger_is_told_so(site: Served) -> None:
    """R3"""
    async with aiohttp.ClientSession(site.url, timeout=LOCAL) as http:
        for path in ("/v1/runs", "/v1/runs/run_1/events", "/v1/nothing"):
            async with http.get(path) as answer:
                assert (answer.status, answer.headers["WWW-Authenticate"][:6]) == (401, "Bearer")


async def test_watchers_that_leave_do_not_disturb_the_server(site: Served) -> None:
    """R4: its log stays clean, which the fixture checks, and it goes on."""
    async with client(site) as http:
        run_id = await start(http)
        for _ in range(5):
            async with http.get(f"/v1/runs/{run_id}/events") as stream:
                await stream.content.readuntil(b"\n\n")
                stream.close()
            async with http.ws_connect(f"/ws/runs/{run_id}/") as socket:
                await socket.receive_json()
        async with http.get(f"/v1/runs/{run_id}") as answer:
            assert (await answer.json())["status"] == "queued"


async def test_a_call_by_a_foreign_name_is_told_in_one_line(site: Served) -> None:
    """R2: with the variable that an admin would have to set, and no traceback."""
    async with client(site, Host="agents.example") as http:
        before = len(site.log)
        async with http.get("/v1/runs") as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (400, "unknown_host")
        async with http.get("/") as answer:
            assert (answer.status, "AGENTSITE_HOSTS" in await answer.text()) == (400, True)
    lines = site.log[before:].splitlines()
    assert len(lines) == 2
    for line in lines:
        assert " WARNING " in line
        assert line.endswith("You may need to add 'agents.example' to AGENTSITE_HOSTS.")
