"""The server waits for slow readers and refuses huge bodies: what it holds stays bounded, and nobody else notices."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from autobahn.exception import Disconnected
from websockets.sync.client import connect

from runs.server import PatientServer
from tests.runs.flood import CHUNK, CHUNKS, MOST, chunk
from tests.serving import PROJECT, free_port

# The server's own buffer is 64 KiB; the rest is what the two kernels' socket buffers may hold.
MOST_IN_FLIGHT = 8 * 2**20
RECEIVE_BUFFER = 64 * 1024


class Flood:
    def __init__(self) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "tests.runs.flood", str(self.port)]
        self.process = subprocess.Popen(
            command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def end(self) -> None:
        self.process.terminate()
        printed, _ = self.process.communicate(timeout=5)
        assert self.process.returncode == 0, printed

    def read(self, path: str) -> bytes:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request("GET", path)
            with connection.getresponse() as response:
                return response.read()

    def count(self, name: str) -> int:
        return int(self.read(f"/{name}"))

    def connect(self) -> socket.socket:
        """A connection whose other end soon has nowhere to put what is not read."""
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", self.port))
        return connection

    def sent_when_it_waits(self) -> int:
        """How much was sent when it goes no further. Each look is a round trip through the same event loop, in which
        a sender that did not wait would send on."""
        looks = [self.count("sent")]
        while len(looks) < 20 or len(set(looks[-20:])) > 1 or looks[-1] == 0:
            looks.append(self.count("sent"))
        return looks[-1]


@pytest.fixture
def flood() -> Iterator[Flood]:
    flood = Flood()
    try:
        wait_until(lambda: is_listening(flood.port))
        yield flood
    finally:
        if flood.process.poll() is None:
            flood.end()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_reader_that_does_not_read_holds_back_its_own_stream(flood: Flood) -> None:
    with flood.connect() as slow:
        slow.sendall(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        assert flood.sent_when_it_waits() < MOST_IN_FLIGHT

        with http.client.HTTPResponse(slow) as response:
            response.begin()
            for number in range(CHUNKS):
                assert response.read(CHUNK) == chunk(number)
            assert response.read() == b""
        assert flood.count("sent") == CHUNK * CHUNKS


def test_a_websocket_that_does_not_read_holds_back_its_own_stream(flood: Flood) -> None:
    with connect(f"ws://127.0.0.1:{flood.port}/", sock=flood.connect(), compression=None, max_queue=1) as slow:
        assert flood.sent_when_it_waits() < MOST_IN_FLIGHT
        for number in range(CHUNKS):
            assert slow.recv(20) == chunk(number)


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_reader_that_leaves_releases_the_stream_that_waits_for_it(flood: Flood, kind: str) -> None:
    with flood.connect() as slow:
        upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
        headers = b"" if kind == "http" else upgrade + b"dGhlIHNhbXBsZSBub25jZQ==\r\n"
        slow.sendall(b"GET /flood HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n")
        flood.sent_when_it_waits()
        assert flood.count("ended") == 0
    # Before Daphne's own patience ends, which is after ten seconds and with a warning.
    wait_until(lambda: flood.count("ended") == 1, seconds=5)


def test_a_server_can_end_while_a_stream_waits(flood: Flood) -> None:
    with flood.connect() as slow:
        slow.sendall(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        flood.sent_when_it_waits()
        flood.end()


def test_an_answer_that_breaks_half_way_ends_its_connection_and_nothing_else(flood: Flood) -> None:
    for _ in range(2):  # the second shows that the first did not stop the server looking after its connections
        with pytest.raises(http.client.IncompleteRead) as broken:
            flood.read("/broken")
        assert broken.value.partial == b"half"


def test_a_connection_serves_one_stream_after_another(flood: Flood) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", flood.port, timeout=20)) as connection:
        for _ in range(2):
            connection.request("GET", "/flood")
            with connection.getresponse() as response:
                assert len(response.read()) == CHUNK * CHUNKS


def read_to_the_end(connection: socket.socket) -> bytes:
    """All that comes until the other end closes."""
    received = b""
    while data := connection.recv(65536):
        received += data
    return received


def refusal(received: bytes) -> tuple[int, str]:
    """Status and code of the one answer that was received, which is a refusal in the envelope."""
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"Content-Length: %d\r\n" % len(body) in head
    assert b"Content-Type: application/json\r\n" in head
    return int(head.split()[1]), json.loads(body)["error"]["code"]


TOO_LARGE = 413, "body_too_large"


@pytest.mark.parametrize("expect", [b"", b"Expect: 100-continue\r\n"])
def test_a_body_that_declares_too_much_is_refused_before_it_is_sent(flood: Flood, expect: bytes) -> None:
    with flood.connect() as client:
        client.sendall(b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n" + expect + b"\r\n")
        answer = client.recv(65536)
        client.shutdown(socket.SHUT_WR)
        assert refusal(answer + read_to_the_end(client)) == TOO_LARGE
    assert flood.read("/length") == b"0", "the server goes on"


def test_a_body_in_chunks_is_refused_when_it_has_become_too_much(flood: Flood) -> None:
    with flood.connect() as client:
        client.sendall(b"POST /length HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"2710\r\n" + b"x" * 10_000 + b"\r\n"
        for _ in range(MOST // 10_000):
            client.sendall(piece)
        client.sendall(piece)
        answer = client.recv(65536)
        client.sendall(piece * 10)
        client.shutdown(socket.SHUT_WR)
        assert refusal(answer + read_to_the_end(client)) == TOO_LARGE


def test_a_client_that_sends_everything_before_it_reads_gets_the_refusal_too(flood: Flood) -> None:
    """The connection is not reset under it, and is closed when everything has come."""
    with flood.connect() as client:
        size = 50 * MOST
        client.sendall(b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
        client.sendall(b"x" * size)
        assert refusal(read_to_the_end(client)) == TOO_LARGE


def test_a_body_as_large_as_is_allowed_is_taken(flood: Flood) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", flood.port, timeout=20)) as connection:
        for body in (b"x" * MOST, iter([b"x" * (MOST - 1), b"x"])):
            connection.request("POST", "/length", body, encode_chunked=not isinstance(body, bytes))
            with connection.getresponse() as response:
                assert (response.status, response.read()) == (200, str(MOST).encode())


@pytest.mark.parametrize("form", ["multipart/form-data", "multipart/form-data; boundary=x"])
def test_a_form_is_left_to_the_application_to_parse(flood: Flood, form: str) -> None:
    """Twisted would do it on the event loop, and answer by itself to a form that it cannot parse."""
    with closing(http.client.HTTPConnection("127.0.0.1", flood.port, timeout=20)) as connection:
        connection.request("POST", "/length", b"a=1&" * 1000, {"Content-Type": form})
        with connection.getresponse() as response:
            assert (response.status, response.read()) == (200, b"4000")


def test_no_client_tells_where_the_site_has_its_place(flood: Flood) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", flood.port, timeout=20)) as connection:
        for root in (b"/elsewhere", b"\xff"):
            connection.request("GET", "/root", headers={"Daphne-Root-Path": root})
            with connection.getresponse() as response:
                assert (response.status, response.read()) == (200, b"")


@pytest.mark.parametrize(
    ("request_line", "refused"),
    [
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n", (431, "headers_too_large")),
        (b"GET / HTTP/1.1\r\n" + b"X-Much: %s\r\n" % (b"x" * 1000) * 17, (431, "headers_too_large")),
        (b"GET / HTTP/1.1\r\nno header at all\r\n", (400, "invalid_request")),
        (b"G\xffT /v1/runs HTTP/1.1\r\n", (400, "invalid_request")),
        (b"POST /v1/runs HTTP/1.1\r\nContent-Length: -5\r\n", (400, "invalid_request")),
        (b"GET /v1/runs HTTP/1.1\r\nConnection: close\r\na(b: c\r\n", (400, "invalid_request")),
    ],
    ids=["path", "headers", "no header", "method", "length", "header name"],
)
def test_what_the_server_refuses_by_itself_gets_the_envelope(
    flood: Flood, request_line: bytes, refused: tuple[int, str]
) -> None:
    """R2: a connection that closes without a word, or an empty answer, helps nobody."""
    with flood.connect() as client:
        client.sendall(request_line + b"Host: x\r\n\r\n" + b"and more of it" * 1000)
        assert refusal(read_to_the_end(client)) == refused
    assert flood.read("/length") == b"0", "the server goes on"


async def test_a_websocket_that_closes_in_the_moment_of_a_send_is_no_error() -> None:
    """Its protocol knows already, and the server is not told yet."""

    class Closed:
        def handle_reply(self, message: dict[str, Any]) -> None:
            raise Disconnected("Attempt to send on a closed protocol")

    server = PatientServer(application=None, endpoints=["tcp:port=0"])
    protocol = Closed()
    server.connections = {protocol: {}}
    await server.handle_reply(protocol, {"type": "websocket.send", "text": "too late"})
