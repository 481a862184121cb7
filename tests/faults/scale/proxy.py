"""A network that can be cut: a TCP port in front of a server, through which everything goes."""

import asyncio
from collections.abc import Awaitable, Callable

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Proxy:
    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._open = asyncio.Event()
        self._open.set()
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        self.cut()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    def cut(self) -> None:
        """Every connection breaks, and there are no new ones."""
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def hold(self) -> None:
        """Nothing gets through, and nobody is told."""
        self._open.clear()

    def leave_behind(self) -> None:
        """Nothing gets through on the connections of this moment, and nobody is told; new ones are as usual."""
        self._open.clear()
        self._open = asyncio.Event()
        self._open.set()

    def heal(self) -> None:
        self._is_cut = False
        self._open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            there, here = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        for source, target in ((reader, here), (there, writer)):
            self._writers.add(target)
            pump = asyncio.create_task(self._pump(source, target, self._open))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, is_open: asyncio.Event) -> None:
        try:
            while data := await source.read(65536):
                await is_open.wait()
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            self._writers.discard(target)
            target.transport.abort() if self._is_cut else target.close()
