"""What can go wrong with a fleet, each as something that is done and mended."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable

from tests.faults.clocks import FILE
from tests.faults.scale.fleet import Fleet
from tests.faults.scale.proxy import Proxy
from tests.postgres import Postgres
from tests.valkey import Valkey


class Faults:
    def __init__(
        self, fleet: Fleet, postgres: Postgres, valkey: Valkey, proxies: dict[str, Proxy], chance: random.Random
    ) -> None:
        self.fleet = fleet
        self.postgres = postgres
        self.valkey = valkey
        self.proxies = proxies
        self.chance = chance

    async def kill_worker(self) -> None:
        worker = self.chance.choice(self.fleet.workers)
        await asyncio.to_thread(worker.kill)
        await asyncio.to_thread(worker.start)

    async def kill_web(self) -> None:
        web = self.fleet.web[0]
        await asyncio.to_thread(web.kill)
        await asyncio.to_thread(web.start)

    async def freeze_worker(self) -> None:
        process = self.chance.choice(self.fleet.workers).process
        process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(float(self.fleet.environment["AGENTSITE_LEASE_SECONDS"]) + 2)
        finally:
            process.send_signal(signal.SIGCONT)

    async def jump_clock(self) -> None:
        """Of any process: ahead, behind, and right again."""
        clock = self.chance.choice(self.fleet.processes).data / FILE
        try:
            for direction in (1, -1):
                clock.write_text(str(direction * self.chance.choice([5, 60, 3600, 30 * 86400])))
                await asyncio.sleep(self.chance.uniform(0.5, 3))
        finally:
            clock.unlink()

    async def restart_postgres(self) -> None:
        await asyncio.to_thread(self.postgres.stop)
        await asyncio.sleep(self.chance.uniform(0, 3))
        await asyncio.to_thread(self.postgres.start)

    async def restart_redis(self) -> None:
        await asyncio.to_thread(self.valkey.kill)
        await asyncio.sleep(self.chance.uniform(0, 3))
        await asyncio.to_thread(self.valkey.start)

    async def flush_redis(self) -> None:
        await asyncio.to_thread(self.valkey.ask, "FLUSHALL")
        for kind in ("pubsub", "normal"):
            await asyncio.to_thread(self.valkey.ask, "CLIENT", "KILL", "TYPE", kind)

    async def cut(self, name: str) -> None:
        self.proxies[name].cut()
        await asyncio.sleep(self.chance.uniform(0.5, 4))
        self.proxies[name].heal()

    async def hold(self, name: str) -> None:
        self.proxies[name].hold()
        await asyncio.sleep(self.chance.uniform(1, 5))
        self.proxies[name].heal()


FAULTS: dict[str, Callable[[Faults], Awaitable[None]]] = {
    "worker killed": Faults.kill_worker,
    "web server killed": Faults.kill_web,
    "worker frozen past its lease": Faults.freeze_worker,
    "clock jumps": Faults.jump_clock,
    "PostgreSQL restarted": Faults.restart_postgres,
    "Redis restarted": Faults.restart_redis,
    "Redis flushed, its clients thrown out": Faults.flush_redis,
    "network to PostgreSQL cut": lambda faults: faults.cut("postgres"),
    "network to Redis cut": lambda faults: faults.cut("redis"),
    "network to PostgreSQL stands still": lambda faults: faults.hold("postgres"),
    "network to Redis stands still": lambda faults: faults.hold("redis"),
}
