"""Everything that a storm needs: servers of its own, a network that can be cut, a fleet, and a program that uses it."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.faults.calling import Caller
from tests.faults.conftest import TOOLS, plant_seed
from tests.faults.scale.faults import Faults
from tests.faults.scale.fleet import Fleet
from tests.faults.scale.proxy import Proxy
from tests.faults.scale.storm import Storm
from tests.postgres import own_postgres
from tests.valkey import own_valkey


@asynccontextmanager
async def weather(
    folder: Path, chance: random.Random, expected: tuple[str, ...]
) -> AsyncIterator[tuple[Storm, Faults]]:
    """`expected` are the lines that may stand in a log: no traceback is among them."""
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(own_postgres())
        valkey = stack.enter_context(own_valkey())
        proxies = {
            "postgres": Proxy(lambda: asyncio.open_unix_connection(str(postgres.socket))),
            "redis": Proxy(lambda: asyncio.open_connection("127.0.0.1", valkey.port)),
        }
        for proxy in proxies.values():
            await proxy.start()
            stack.push_async_callback(proxy.close)
        data = folder / "seed"
        data.mkdir()
        key = await asyncio.to_thread(plant_seed, data, postgres.url)
        environment = {
            **TOOLS,
            "DATABASE_URL": f"postgresql://postgres@127.0.0.1:{proxies['postgres'].port}/postgres",
            "REDIS_URL": f"redis://127.0.0.1:{proxies['redis'].port}/0",
            "AGENTSITE_SECRET_KEY": "a secret that all of them share, as long as it should be",
            "AGENTSITE_LEASE_SECONDS": "3",
            "AGENTSITE_MAX_ATTEMPTS": "100",
            "CLOCK_JUMPS": "yes",
            "EFFECTS_FILE": str(folder / "effects"),
        }
        fleet = Fleet(folder, environment, key, database=postgres.url)
        stack.callback(fleet.end)
        await fleet.start(web=1, workers=2)
        caller = await stack.enter_async_context(Caller(fleet.web[0]))
        yield Storm(fleet, caller, chance), Faults(fleet, postgres, valkey, proxies, chance)
        crashed = [process.log_path.stem for process in fleet.processes if process.has_crashed]
        assert not crashed, f"ended by themselves: {crashed}"
        assert not (troubles := fleet.troubles(expected)), "\n".join(troubles)
