"""Stop reaches the model: whoever leaves a stream, at whatever moment and by whatever way, has closed it."""

import asyncio
import datetime
import ipaddress
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway.errors import ProviderError
from gateway.messages import Message
from gateway.providers.base import Chunk, ModelRequest, TextDelta
from gateway.providers.openai import OpenAIProvider
from tests.gateway.fake_model import Call, FakeModel, chunk, serve_fake_model, sse

HELLO = ModelRequest(model="fake", system_prompt="", messages=[Message("user", "Hello")])
PROMPTLY = 0.1  # seconds: the contract's limit; what is measured is under 2 ms


@pytest.fixture
async def provider(model: FakeModel) -> AsyncIterator[OpenAIProvider]:
    async with closing(OpenAIProvider(base_url=model.url, api_key="sk-secret", read_timeout=30)) as provider:
        yield provider


@asynccontextmanager
async def closing(provider: OpenAIProvider) -> AsyncIterator[OpenAIProvider]:
    try:
        yield provider
    finally:
        await provider.close()


class Reader:
    """A task that reads a stream to its end, and tells when something came."""

    def __init__(self, provider: OpenAIProvider) -> None:
        self.chunks: list[Chunk] = []
        self.came = asyncio.Event()
        self.task = asyncio.create_task(self._read(provider))

    async def _read(self, provider: OpenAIProvider) -> None:
        async with provider.stream(HELLO) as batches:
            async for batch in batches:
                self.chunks += batch
                self.came.set()

    async def cancel(self) -> float:
        """Returns when that was. A cancellation that gets lost is a time-out here."""
        cancelled_at = time.perf_counter()
        self.task.cancel()
        async with asyncio.timeout(5):
            await asyncio.wait([self.task])
        assert self.task.cancelled()
        return cancelled_at


async def wait_until_closed(call: Call) -> None:
    async with asyncio.timeout(5):
        await call.ended.wait()
    assert call.how == "client closed"


async def send_nothing(call: Call) -> None:
    await call.hang()


async def send_headers_only(call: Call) -> None:
    await call.begin()
    await call.hang()


async def send_a_word_and_hang(call: Call) -> None:
    await call.text("Well")
    await call.hang()


async def send_words_without_end(call: Call) -> None:
    while True:
        await call.text("word ")
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("script", "speaks"),
    [(send_nothing, False), (send_headers_only, False), (send_a_word_and_hang, True), (send_words_without_end, True)],
)
async def test_a_cancellation_closes_the_connection_to_the_model_at_once(
    model: FakeModel, provider: OpenAIProvider, script: Callable[[Call], Awaitable[None]], speaks: bool
) -> None:
    """C1: before the first byte, after the headers, in a pause and in full flow."""
    model.script = script
    reader = Reader(provider)
    call = await model.next_call()
    if speaks:
        await reader.came.wait()
    cancelled_at = await reader.cancel()
    await wait_until_closed(call)
    assert call.ended_at - cancelled_at < PROMPTLY
    assert bool(reader.chunks) == speaks


async def test_sixty_cancellations_twenty_at_a_time_close_sixty_connections(
    model: FakeModel, provider: OpenAIProvider
) -> None:
    """C1: none is swallowed and none forgotten, whatever each stream is doing at that moment."""
    scripts = [send_nothing, send_headers_only, send_a_word_and_hang, send_words_without_end]

    async def script(call: Call) -> None:
        await scripts[len(model.calls) % 4](call)

    model.script = script
    for _ in range(3):
        readers = [Reader(provider) for _ in range(20)]
        calls = [await model.next_call() for _ in readers]
        cancelled_at = await asyncio.gather(*(reader.cancel() for reader in readers))
        for call in calls:
            await wait_until_closed(call)
        assert max(call.ended_at for call in calls) - min(cancelled_at) < 5 * PROMPTLY
    assert [call.how for call in model.calls] == ["client closed"] * 60


async def test_a_cancellation_in_the_very_tick_in_which_data_arrives_is_not_swallowed(
    model: FakeModel, provider: OpenAIProvider
) -> None:
    """C1: 200 streams in full flow, each cancelled a few ticks further on than the one before."""
    model.script = send_words_without_end
    for ticks in range(200):
        reader = Reader(provider)
        await reader.came.wait()
        for _ in range(ticks % 23):
            await asyncio.sleep(0)
        await reader.cancel()
    for call in model.calls:
        await wait_until_closed(call)


class TimesOutWhenCancelled(httpx2.AsyncBaseTransport):
    """Stands for the moment in which a read times out and the task is cancelled, and of the two only the time-out is
    passed on by what lies between."""

    def __init__(self, after_the_end: bool = False, before_headers: bool = False) -> None:
        self.after_the_end = after_the_end
        self.before_headers = before_headers

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.before_headers:
            await self.fail()
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=self.body())

    async def body(self) -> AsyncIterator[bytes]:
        yield sse(chunk({"content": "Well"}, "stop" if self.after_the_end else None))
        await self.fail()

    async def fail(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            raise httpx2.ReadTimeout("Nothing came.") from None


@pytest.mark.parametrize("moment", [{"before_headers": True}, {}, {"after_the_end": True}], ids=str)
async def test_a_cancellation_together_with_a_time_out_is_a_cancellation(moment: dict[str, bool]) -> None:
    """C1: otherwise the loop would take it for a time-out and try again, and the stop would be lost."""
    async with closing(OpenAIProvider(base_url="http://x/v1", transport=TimesOutWhenCancelled(**moment))) as provider:
        task = asyncio.create_task(read_all(provider))
        await asyncio.wait([task])
        assert task.cancelled()


async def read_all(provider: OpenAIProvider) -> list[Chunk]:
    async with provider.stream(HELLO) as batches:
        return [item async for batch in batches for item in batch]


async def test_a_time_limit_around_the_stream_closes_the_connection(model: FakeModel, provider: OpenAIProvider) -> None:
    """C1: `asyncio.timeout` works through the provider, as the run's time limit needs."""
    model.script = send_nothing
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await read_all(provider)
    await wait_until_closed(model.calls[0])


async def test_a_break_closes_the_connection(model: FakeModel, provider: OpenAIProvider) -> None:
    model.script = send_words_without_end
    async with provider.stream(HELLO) as batches:
        async for batch in batches:
            assert batch[0] == TextDelta("word ")
            break
    await wait_until_closed(model.calls[0])


async def test_an_exception_of_the_reader_closes_the_connection_and_is_passed_on_unchanged(
    model: FakeModel, provider: OpenAIProvider
) -> None:
    model.script = send_words_without_end
    mine = OSError("not the provider's")
    with pytest.raises(OSError, match="not the provider's") as caught:
        async with provider.stream(HELLO) as batches:
            await anext(batches)
            raise mine
    assert caught.value is mine
    await wait_until_closed(model.calls[0])


async def test_a_stream_that_nobody_reads_is_closed_too(model: FakeModel, provider: OpenAIProvider) -> None:
    model.script = send_headers_only
    async with provider.stream(HELLO):
        pass
    await wait_until_closed(model.calls[0])


async def test_after_a_stop_the_provider_goes_on_working(model: FakeModel, provider: OpenAIProvider) -> None:
    """C8."""
    model.script = send_a_word_and_hang
    reader = Reader(provider)
    await reader.came.wait()
    await reader.cancel()
    model.script = lambda call: call.say("Hello again.")
    assert (await read_all(provider))[0] == TextDelta("Hello again.")


async def test_closing_the_provider_closes_its_idle_connections(model: FakeModel) -> None:
    """C11: an idle connection that is left open would be a ResourceWarning, which fails a test here."""
    provider = OpenAIProvider(base_url=model.url)
    await read_all(provider)
    await provider.close()
    with pytest.raises(RuntimeError, match="closed"):
        await read_all(provider)


# TLS


def make_tls_contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For a server that calls itself localhost, and for a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "localhost.pem"
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(certificate.public_bytes(pem) + secret)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(path)
    return server, ssl.create_default_context(cafile=path)


async def test_over_tls_a_cancellation_closes_the_connection_just_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1."""
    server, client = make_tls_contexts(tmp_path)
    monkeypatch.setattr("gateway.providers.connections.shared_tls_context", lambda: client)
    async with serve_fake_model(server) as model, closing(OpenAIProvider(base_url=model.url)) as provider:
        model.script = send_a_word_and_hang
        reader = Reader(provider)
        await reader.came.wait()
        cancelled_at = await reader.cancel()
        await wait_until_closed(model.calls[0])
        assert model.calls[0].ended_at - cancelled_at < PROMPTLY


async def test_a_cancellation_in_the_middle_of_the_tls_handshake_closes_the_socket() -> None:
    """C1: a socket left open there would stay so for as long as the server likes."""
    arrived, left = asyncio.Event(), asyncio.Event()

    async def say_nothing(stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stream.read(1)
        arrived.set()
        try:
            while await stream.read(4096):
                pass
        except ConnectionResetError:
            pass
        left.set()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with closing(OpenAIProvider(base_url=f"https://127.0.0.1:{port}/v1")) as provider:
        reader = Reader(provider)
        await arrived.wait()
        await reader.cancel()
        async with asyncio.timeout(5):
            await left.wait()
    server.close()
    await server.wait_closed()


async def test_a_certificate_that_nobody_vouches_for_is_refused_and_not_tried_again(tmp_path: Path) -> None:
    """E1."""
    server, _ = make_tls_contexts(tmp_path)
    async with serve_fake_model(server) as model, closing(OpenAIProvider(base_url=model.url)) as provider:
        with pytest.raises(ProviderError) as caught:
            await read_all(provider)
    assert (caught.value.error_type, caught.value.transient) == ("llm_error", False)
    assert "certificate" in caught.value.message
