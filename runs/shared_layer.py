"""The channel layer of a deployment of many processes: channels-redis (PubSub), made to live through a Redis that comes
and goes.

A layer rings; it does not remember. So while Redis is away nobody waits for it, and the log says so once and not at
every ring. Who listens is told when it goes and when it comes back, by a message `missed`, and looks for itself
meanwhile. A slow listener's letter-box is bounded: the oldest go, and a follower finds the hole and reads the log.

A connection can also die without a word, and one that only listens would never know. So whoever has heard nothing for
some seconds gives a sign of life that all processes of the site hear, and should hear it, too.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from channels_redis.pubsub import RedisPubSubChannelLayer, RedisPubSubLoopLayer, RedisSingleShardConnection
from channels_redis.utils import _wrap_close, decode_hosts
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

LETTER_BOX = 100
PUBLISH_SECONDS = 2.0
RECEIVE_SECONDS = 1.0
# After so long a silence a sign of life is given, and when it is not heard for as long the connection is dead.
SILENCE_SECONDS = 3.0
TRY_AGAIN_SECONDS = 0.5
MISSED = {"type": "missed"}

# How a server that is away looks from here; a `RuntimeError` comes from a connection that is just being lost.
Away = (RedisError, OSError, TimeoutError, RuntimeError)


@contextmanager
def talking() -> Iterator[None]:
    """A connection of redis-py that another task has closed in this moment has no stream left to write to, and says so
    in the words of a programming error."""
    try:
        yield
    except AttributeError as error:
        raise ConnectionError(f"closed in the middle of a call: {error}") from error


class SharedLayer(RedisPubSubChannelLayer):
    def _get_layer(self) -> "SharedLoopLayer":
        loop = asyncio.get_running_loop()
        if loop not in self._layers:
            self._layers[loop] = SharedLoopLayer(*self._args, **self._kwargs, channel_layer=self)
            _wrap_close(self, loop)
        layer: SharedLoopLayer = self._layers[loop]
        return layer


class LetterBox(asyncio.Queue[dict[str, Any]]):
    def put_nowait(self, item: dict[str, Any]) -> None:
        if self.full():
            self.get_nowait()
        super().put_nowait(item)


class SharedLoopLayer(RedisPubSubLoopLayer):
    """The layer of one event loop."""

    # Redis is asked for a place in a group, and nobody waits for its answer.
    joins_at_once = False

    def __init__(self, hosts: list[dict[str, Any]], **options: Any) -> None:
        super().__init__(hosts=hosts, **options)
        self._shards = [Shard(host, self) for host in decode_hosts(hosts)]

    @property
    def is_away(self) -> bool:
        return any(shard.is_away for shard in self._shards)

    async def new_channel(self, prefix: str = "specific.") -> str:
        # Nobody sends to one channel here, so that Redis need not know of it: it is a letter-box for groups.
        channel = f"{self.prefix}{prefix}{uuid.uuid4().hex}"
        self.channels[channel] = LetterBox(LETTER_BOX)
        return channel

    async def receive(self, channel: str) -> dict[str, Any]:
        # The original takes a receive that is cancelled for the end of its listener. Ours wait with a time-out.
        message: dict[str, Any] = await self.channels[channel].get()
        return message

    async def group_discard(self, group: str, channel: str) -> None:
        self.channels.pop(channel, None)
        await super().group_discard(group, channel)

    def tell_all(self, message: dict[str, Any]) -> None:
        for letter_box in self.channels.values():
            letter_box.put_nowait(message)


class Shard(RedisSingleShardConnection):
    """One Redis server. It is away from the first failure until it has answered on a new connection."""

    _redis: Any
    _pubsub: Any

    def __init__(self, host: dict[str, Any], channel_layer: SharedLoopLayer) -> None:
        super().__init__(host, channel_layer)
        # Never without a subscription: redis-py cannot wait for messages without one. Here signs of life are heard.
        self._signs: str = channel_layer.prefix
        self._wanted = {self._signs}
        self._subscribing = asyncio.Lock()
        self.is_away = False
        self._retry_at = 0.0
        self._heard_at = 0.0
        self._asked_at: float | None = None

    async def publish(self, channel: str, message: bytes) -> None:
        if self.is_away and (self._receive_task is not None or time.monotonic() < self._retry_at):
            return  # nobody could hear it; they look for themselves
        try:
            async with asyncio.timeout(PUBLISH_SECONDS):
                self._ensure_redis()
                await self._redis.publish(channel, message)
        except Away as error:
            self._lose(error)
        else:
            if self._receive_task is None:
                self._find()

    async def subscribe(self, channel: str) -> None:
        self._wanted.add(channel)
        self._ensure_redis()
        self._ensure_receiver()
        if not self.is_away:
            try:
                await self._subscribe({channel})
            except Away as error:
                self._lose(error)

    async def unsubscribe(self, channel: str) -> None:
        self._wanted.discard(channel)
        if channel in self._subscribed_to and not self.is_away:
            self._subscribed_to.discard(channel)
            try:
                with talking():
                    await self._pubsub.unsubscribe(channel)
            except Away as error:
                self._lose(error)

    async def _subscribe(self, channels: set[str]) -> None:
        # One at a time: two that come first would each open a connection, and only one of those is listened to.
        async with self._subscribing:
            connection = self._pubsub
            with talking():
                await connection.subscribe(*channels)
                if gone := channels - self._wanted:  # whoever wanted them has left meanwhile
                    await connection.unsubscribe(*gone)
            if connection is self._pubsub:  # and not one that was given up meanwhile
                self._subscribed_to |= channels & self._wanted

    async def _do_receiving(self) -> None:
        while True:
            try:
                if self.is_away:
                    await self._begin_again()
                if missing := self._wanted - self._subscribed_to:
                    await self._subscribe(missing)
                    self._hear()
                self._find()
                message = await self._pubsub.get_message(ignore_subscribe_messages=True, timeout=RECEIVE_SECONDS)
                if message is None:
                    await self._feel_pulse()
            except Away as error:
                self._lose(error)
                await asyncio.sleep(TRY_AGAIN_SECONDS)
            else:
                self._receive_message(message)

    async def _begin_again(self) -> None:
        """With new connections, if the server answers: after a restart those at hand are dead, and a network that
        stands still says nothing at all."""
        old, self._redis, self._pubsub = self._redis, None, None
        self._subscribed_to.clear()
        self._ensure_redis()
        if old is not None:
            try:
                await old.aclose(close_connection_pool=True)
            except Away:
                logger.debug("A connection to Redis that was lost could not be closed.", exc_info=True)
        async with asyncio.timeout(PUBLISH_SECONDS):
            await self._redis.ping()

    def _hear(self) -> None:
        self._heard_at, self._asked_at = time.monotonic(), None

    async def _feel_pulse(self) -> None:
        now = time.monotonic()
        if self._asked_at is not None and now - self._asked_at > SILENCE_SECONDS:
            raise TimeoutError("its connection has fallen silent")
        if self._asked_at is None and now - self._heard_at > SILENCE_SECONDS:
            self._asked_at = now
            async with asyncio.timeout(PUBLISH_SECONDS):
                await self._redis.publish(self._signs, b"")

    def _receive_message(self, message: dict[str, Any] | None) -> None:
        if message is None:
            return
        self._hear()
        if message["channel"].decode() == self._signs:
            return
        layer = self.channel_layer
        content: dict[str, Any] = layer.channel_layer.deserialize(message["data"])
        for channel in layer.groups.get(message["channel"].decode(), ()):
            if (letter_box := layer.channels.get(channel)) is not None:
                letter_box.put_nowait(content)

    def _lose(self, error: BaseException) -> None:
        self._retry_at = time.monotonic() + TRY_AGAIN_SECONDS
        if not self.is_away:
            self.is_away = True
            logger.warning(
                "Redis does not answer (%s). Until it does, everybody looks at the database once a second.",
                str(error) or type(error).__name__,
            )
            self.channel_layer.tell_all(MISSED)

    def _find(self) -> None:
        if self.is_away:
            self.is_away = False
            logger.warning("Redis answers again.")
            self.channel_layer.tell_all(MISSED)
