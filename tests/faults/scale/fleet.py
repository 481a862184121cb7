"""A site of many processes: web servers and workers, each a real one, on one PostgreSQL and one Redis."""

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.faults.calling import until
from tests.serving import Served, Working


@dataclass
class Fleet:
    folder: Path
    environment: dict[str, str]
    key: str
    database: str = ""
    """Where it is asked directly, if not the way that the processes take."""
    web: list[Served] = field(default_factory=list)
    workers: list[Working] = field(default_factory=list)

    async def start(self, *, web: int = 1, workers: int = 2) -> None:
        """So many new ones, and with them those that were made before and not started yet."""
        for _ in range(web):
            self.make_web()
        for _ in range(workers):
            self.make_worker()
        waiting = [process for process in self.processes if not hasattr(process, "process")]
        await asyncio.gather(*(asyncio.to_thread(process.start) for process in waiting))

    def make_web(self) -> Served:
        self.web.append(Served(self._room("web", self.web), self.environment, ("--web-only",), key=self.key))
        return self.web[-1]

    def make_worker(self) -> Working:
        self.workers.append(Working(self._room("worker", self.workers), self.environment, key=self.key))
        return self.workers[-1]

    def _room(self, role: str, others: Sequence[Served]) -> Path:
        room = self.folder / f"{role}{len(others)}"
        room.mkdir()
        return room

    @property
    def processes(self) -> list[Served]:
        return [*self.web, *self.workers]

    def end(self) -> None:
        """Whatever has been started, however it is."""
        for process in self.processes:
            if hasattr(process, "process") and process.process.poll() is None:
                process.process.send_signal(signal.SIGCONT)
                process.kill()

    async def stop(self, *processes: Served) -> list[int]:
        """End them in good order, or all of them; the exit codes."""
        ended = processes or [one for one in self.processes if one.process.poll() is None]
        return await asyncio.gather(*(asyncio.to_thread(process.stop) for process in ended))

    def troubles(self, expected: tuple[str, ...] = ()) -> list[str]:
        """Lines of all logs that should not be there."""
        return [f"{one.log_path.stem}: {line}" for one in self.processes for line in one.troubles(expected)]

    # -- what the database knows

    def ask(self, question: str, *values: object) -> list[tuple]:
        with psycopg.connect(self.database or self.environment["DATABASE_URL"], autocommit=True) as connection:
            cursor = connection.execute(question, values)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def worker_of(self, run_id: str) -> Working:
        """Who took the run last."""
        [(name,)] = self.ask("SELECT last_worker FROM runs_run WHERE public_id = %s", run_id)
        return next(worker for worker in self.workers if worker.name == name)

    def statuses(self) -> dict[str, str]:
        return dict(self.ask("SELECT public_id, status FROM runs_run"))

    async def all_ended(self) -> None:
        await until(lambda: not {"queued", "running"} & set(self.statuses().values()))
