"""A server that is told to end: what it was asked is answered, whatever else is open."""

import http.client
import signal
import socket
from contextlib import ExitStack, closing

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.runs.flood import CHUNK, CHUNKS
from tests.runs.test_server import Flood, flood, is_listening, read_to_the_end, wait_until

__all__ = ["flood"]


def tell_to_end(flood: Flood) -> None:
    """Returns when it takes no more connections."""
    flood.process.send_signal(signal.SIGTERM)
    wait_until(lambda: not is_listening(flood.port))


def check_end(flood: Flood) -> None:
    printed, _ = flood.process.communicate(timeout=30)
    assert (flood.process.returncode, printed) == (0, "")


def kept_connection(flood: Flood) -> http.client.HTTPConnection:
    """One over which something was asked before."""
    connection = http.client.HTTPConnection("127.0.0.1", flood.port, timeout=20)
    assert ask(connection, "/ended") == b"0"
    return connection


def ask(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    with connection.getresponse() as response:
        return response.read()


def test_an_open_websocket_keeps_no_call_from_being_answered(flood: Flood) -> None:
    """R17: it is told that the service restarts. One that is just being opened is refused."""
    with (
        closing(kept_connection(flood)) as other,
        flood.connect() as held,
        connect(f"ws://127.0.0.1:{flood.port}/quiet") as quiet,
        flood.connect() as opening,
    ):
        held.sendall(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
        upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
        opening.sendall(b"GET /held HTTP/1.1\r\nHost: x\r\n" + upgrade + b"dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        wait_until(lambda: flood.count("waiting") == 2)
        tell_to_end(flood)
        with pytest.raises(ConnectionClosed):
            quiet.recv(20)
        assert quiet.close_code == 1012
        assert read_to_the_end(opening).startswith(b"HTTP/1.1 403 ")
        assert ask(other, "/let-go") == b"done", "what comes over a kept connection is answered, too"
        assert read_to_the_end(held).endswith(b"held\r\n0\r\n\r\n")
    check_end(flood)


@pytest.mark.parametrize("path", ["/pieces", "/whole"])
def test_a_long_answer_reaches_a_slow_reader_to_its_end(flood: Flood, path: str) -> None:
    with flood.connect() as slow:
        slow.sendall(f"GET {path} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
        received = slow.recv(1000)
        tell_to_end(flood)
        received += read_to_the_end(slow)
    assert len(received.partition(b"\r\n\r\n")[2]) == CHUNK * CHUNKS
    check_end(flood)


def test_a_body_that_is_on_its_way_is_waited_for(flood: Flood) -> None:
    with flood.connect() as client:
        client.sendall(b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello")
        assert flood.count("ended") == 0, "the head has been read by now"
        tell_to_end(flood)
        client.sendall(b"hello")
        assert b"\r\n10\r\n" in read_to_the_end(client)
    check_end(flood)


def test_whoever_was_let_in_by_the_kernel_is_answered(flood: Flood) -> None:
    """Nothing else is under way, and the connections wait to be accepted when the server is told to end."""
    flood.process.send_signal(signal.SIGSTOP)
    with ExitStack() as stack:
        clients: list[socket.socket] = [stack.enter_context(flood.connect()) for _ in range(30)]
        for client in clients:
            client.sendall(b"GET /ended HTTP/1.1\r\nHost: x\r\n\r\n")
        flood.process.send_signal(signal.SIGTERM)
        flood.process.send_signal(signal.SIGCONT)
        for client in clients:
            assert read_to_the_end(client).startswith(b"HTTP/1.1 200 ")
    check_end(flood)


def test_a_stream_of_events_is_cut_at_once(flood: Flood) -> None:
    with flood.connect() as slow:
        slow.sendall(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        flood.sent_when_it_waits()
        tell_to_end(flood)
        check_end(flood)
