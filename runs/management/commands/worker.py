"""A worker in a process of its own: executes runs and serves nothing. Any number of them, on any number of machines.

    manage.py worker

Needs PostgreSQL and Redis. SIGTERM and Ctrl-C end it in good order: it takes no new runs, goes on with those under way
for AGENTSITE_DRAIN_SECONDS, and hands the rest to the others. A second signal does not wait.
"""

import asyncio
import logging
import signal
import sys
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from runs import bell
from runs.collector import put_imports_aside
from runs.database import close_threads
from runs.setup import check_worker_settings, migrate_site
from runs.worker import Worker
from runs.worker_health import answering

logger = logging.getLogger(__name__)

# A group signal comes twice, once from the terminal or `kill` and once from make. Whoever repeats it later means it.
IMPATIENCE_SECONDS = 1.0


class Command(BaseCommand):
    help = "Execute runs, in a deployment of many processes."
    requires_migrations_checks = False
    requires_system_checks: list[str] = []

    def handle(self, **options: Any) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: sys.exit(0))
        if not settings.IS_SCALE_OUT:
            raise CommandError(
                "Workers of their own need DATABASE_URL=postgresql://… and REDIS_URL=redis://…, by which they hear of "
                "runs and stops. Without them `manage.py serve` is web server and worker in one."
            )
        check_worker_settings()
        migrate_site()
        connection.close()
        asyncio.run(self.work())
        close_threads()

    async def work(self) -> None:
        loop = asyncio.get_running_loop()
        bell.live_at(loop)
        worker = Worker()
        working = asyncio.create_task(worker.run(), name="worker")
        leaving = Leaving(worker)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, leaving.hear_signal)
        put_imports_aside()
        known = asyncio.create_task(worker.checked_in.wait())
        try:
            async with answering(worker):
                await asyncio.wait({working, known}, return_when=asyncio.FIRST_COMPLETED)
                if known.done():
                    self.stdout.write(f"Worker {worker.name} takes runs (Ctrl-C ends it)")
                    self.stdout.flush()
                await working  # which ends after a signal, or with the error that it could not live with
        finally:
            known.cancel()
            # The loop gives the signals back when it closes, and from here on there is nothing left to interrupt.
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_IGN)


class Leaving:
    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.begun_at: float | None = None
        self.task: asyncio.Task[None] | None = None

    def hear_signal(self) -> None:
        if self.begun_at is None:
            self.begun_at = time.monotonic()
            self.task = asyncio.create_task(self.worker.shutdown(settings.AGENTSITE["DRAIN_SECONDS"]))
        elif time.monotonic() - self.begun_at > IMPATIENCE_SECONDS:
            self.worker.hurry()
