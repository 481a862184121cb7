"""A subscription that has died without a word: whoever listens finds out, is told, and hears again."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis.asyncio as redis

from agentsite.settings import redis_host
from runs import shared_layer
from runs.shared_layer import MISSED, SharedLayer
from tests.faults.scale.proxy import Proxy
from tests.valkey import Valkey

GROUP = "workers"
PREFIX = "agentsite.test."


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RECEIVE_SECONDS", "SILENCE_SECONDS", "PUBLISH_SECONDS", "TRY_AGAIN_SECONDS"):
        monkeypatch.setattr(shared_layer, name, 0.1)


@asynccontextmanager
async def proxied(valkey: Valkey) -> AsyncIterator[Proxy]:
    proxy = Proxy(lambda: asyncio.open_connection("127.0.0.1", valkey.port))
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()


def make_layer(port: int) -> SharedLayer:
    return SharedLayer(hosts=[redis_host(f"redis://127.0.0.1:{port}/0")], prefix=PREFIX)


async def hear(listener: SharedLayer, channel: str, speaker: SharedLayer, number: int) -> list[dict[str, object]]:
    """Say it until it is heard; everything that came before it."""
    heard: list[dict[str, object]] = []
    async with asyncio.timeout(20):
        while not heard or heard[-1] != {"type": "stop", "run": number}:
            await speaker.group_send(GROUP, {"type": "stop", "run": number})
            try:
                async with asyncio.timeout(0.1):
                    heard.append(await listener.receive(channel))
            except TimeoutError:
                continue
    return heard


@pytest.mark.parametrize("fault", ["leave_behind", "hold"])
async def test_a_subscription_that_died_silently_is_noticed_and_made_anew(
    valkey: Valkey, impatient: None, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C1: by somebody who only listens and says nothing, whose publishing could not tell."""
    async with proxied(valkey) as proxy:
        listener, speaker = make_layer(proxy.port), make_layer(valkey.port)
        channel = await listener.new_channel()
        await listener.group_add(GROUP, channel)
        await hear(listener, channel, speaker, 1)
        getattr(proxy, fault)()
        async with asyncio.timeout(20):
            while await listener.receive(channel) != MISSED:
                pass
        proxy.heal()
        await hear(listener, channel, speaker, 2)
        assert not listener.is_away
        await listener.flush()
        await speaker.flush()
    assert "Redis answers again" in caplog.text


@pytest.mark.parametrize(("change", "call"), [("group_add", "subscribe"), ("group_discard", "unsubscribe")])
async def test_a_connection_that_is_closed_in_the_middle_of_a_call_is_an_outage(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch, change: str, call: str
) -> None:
    """R4: and no error to whoever wants to listen, or not any more."""

    async def write_to_nothing(*channels: str) -> None:
        raise AttributeError("'NoneType' object has no attribute 'writelines'")  # as redis-py does it

    listener = make_layer(valkey.port)
    channel = await listener.new_channel()
    await listener.group_add(GROUP, channel)
    monkeypatch.setattr(listener._get_layer()._shards[0]._pubsub, call, write_to_nothing)
    await getattr(listener, change)("another" if change == "group_add" else GROUP, channel)
    assert listener.is_away
    await listener.flush()


async def test_those_who_come_first_at_once_are_all_heard(valkey: Valkey) -> None:
    """R4: none of them by a connection that nobody listens to."""
    listener = make_layer(valkey.port)
    groups = [f"group{number}" for number in range(5)]
    channel = await listener.new_channel()
    await asyncio.gather(*(listener.group_add(group, channel) for group in groups))
    async with redis.Redis(port=valkey.port) as client:
        asked = [f"{PREFIX}__group__{group}" for group in groups]

        async def listening() -> list[int]:
            return [count for _, count in await client.pubsub_numsub(PREFIX, *asked)]

        async with asyncio.timeout(20):
            while 0 in await listening():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        clients = [one for one in await client.client_list() if int(one["sub"]) > 0]
    assert len(clients) == 1
    await listener.flush()


async def test_whoever_leaves_while_joining_leaves_nothing_behind(valkey: Valkey) -> None:
    """R4, C11: neither a letter box nor a subscription in Redis."""
    listener = make_layer(valkey.port)
    await listener.group_add(GROUP, await listener.new_channel())
    shard = listener._get_layer()._get_shard(GROUP)
    async with redis.Redis(port=valkey.port) as client:

        async def count(group: str) -> int:
            [(_, listening)] = await client.pubsub_numsub(f"{PREFIX}__group__{group}")
            return int(listening)

        async with asyncio.timeout(20):
            while not await count(GROUP):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        channel = await listener.new_channel()
        async with shard._subscribing:
            joining = asyncio.create_task(listener.group_add("left", channel))
            await asyncio.sleep(0)
            await listener.group_discard("left", channel)
        await joining
        await listener.group_add("stayed", await listener.new_channel())
        async with asyncio.timeout(20):
            while not await count("stayed"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await count("left") == 0
    await listener.flush()


async def test_a_quiet_subscription_is_left_as_it_is(
    valkey: Valkey, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Silence is not death: it asks for a sign of life, and nobody who listens is told anything."""
    listener, speaker = make_layer(valkey.port), make_layer(valkey.port)
    channel = await listener.new_channel()
    await listener.group_add(GROUP, channel)
    async with redis.Redis(port=valkey.port) as client, client.pubsub() as signs:
        await signs.subscribe(PREFIX)
        await hear(listener, channel, speaker, 1)
        seen = 0
        async with asyncio.timeout(20):
            async for message in signs.listen():
                seen += message["type"] == "message"
                if seen == 3:
                    break
    assert await hear(listener, channel, speaker, 2) == [{"type": "stop", "run": 2}]
    await listener.flush()
    await speaker.flush()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
