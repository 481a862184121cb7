"""The whole site in one process: Daphne and the worker on one event loop.

    manage.py serve [--host HOST] [--port PORT] [--web-only]

Migrates, sets a new site up, serves, and ends cleanly on SIGTERM and Ctrl-C: calls that are under way are answered, the
worker hands its runs back to the queue and they go on at the next start. Where the runs go on elsewhere, completions
are answered, too, for AGENTSITE_DRAIN_SECONDS at most. A second signal does not wait.
"""

import asyncio
import fcntl
import logging
import os
import signal
import socket
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import closing
from typing import IO, Any

from channels.routing import get_default_application
from daphne.endpoints import build_endpoint_description_strings
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from runs import actions, bell, welcome
from runs.collector import put_imports_aside
from runs.database import close_threads
from runs.leaving import leave
from runs.server import PatientServer, before_shutdown, close_event_loop, event_loop
from runs.setup import check_worker_settings, migrate_site, set_up_site
from runs.worker import Worker

logger = logging.getLogger(__name__)

# A group signal comes twice, once from the terminal or `kill` and once from make. Whoever repeats it later means it.
IMPATIENCE_SECONDS = 1.0
# What was asked of a server that ends is answered within this time, or not at all.
ANSWER_SECONDS = 5.0
# Connections that may wait to be accepted. Of 200 that came in the same moment, Twisted's own 50 left some to be reset.
BACKLOG = 1024


class Command(BaseCommand):
    help = "Serve the site, web and worker in one process."
    requires_migrations_checks = False
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=os.environ.get("HOST") or "127.0.0.1", help="default: $HOST or 127.0.0.1")
        parser.add_argument("--port", type=int, default=os.environ.get("PORT") or 8000, help="default: $PORT or 8000")
        parser.add_argument("--web-only", action="store_true", help="no worker in this process")

    def handle(self, *, host: str, port: int, web_only: bool, **options: Any) -> None:
        # Until the event loop runs and ends in good order, a signal may simply end the process.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: sys.exit(0))
        check_configuration()
        check_address(host, port)
        # Held open, and with it the lock, until the process ends.
        lock = None if web_only or connection.vendor != "sqlite" else take_data_directory()
        migrate_site()
        account = set_up_site()
        if lock is not None:
            actions.release_orphans()
        connection.close()
        url = welcome.address_of(host, port)
        if account is not None:
            self.stdout.write(welcome.describe_first_account(url, account))
        self.stdout.flush()

        site = Site(host, port, has_worker=not web_only)
        try:
            exit_code = site.serve(lambda: self.welcome(url, has_worker=not web_only))
        finally:
            if lock is not None:
                lock.close()
        if site.server.listen_failure:
            raise CommandError(site.server.listen_failure)
        if exit_code:
            sys.exit(exit_code)

    def welcome(self, url: str, has_worker: bool) -> None:
        self.stdout.write(welcome.describe_site(url, has_worker))
        self.stdout.flush()


class Site:
    """The server and, in the embedded deployment, the worker beside it."""

    def __init__(self, host: str, port: int, has_worker: bool) -> None:
        self.has_worker = has_worker
        self.exit_code = 0
        self.stopped_at: float | None = None
        self.leaving: asyncio.Task[None] | None = None
        self.server = PatientServer(
            application=get_default_application(),
            endpoints=[f"{end}:backlog={BACKLOG}" for end in build_endpoint_description_strings(host=host, port=port)],
            signal_handlers=False,
            verbosity=0,
            server_name="",
        )

    def serve(self, when_ready: Callable[[], None]) -> int:
        """Until a signal comes or the worker fails; then the exit code."""

        def ready() -> None:
            loop = event_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self.hear_signal)
            bell.live_at(loop)
            if self.has_worker:
                self.start_worker(loop)
            put_imports_aside()
            loop.call_soon(when_ready)

        self.server.ready_callable = ready
        self.server.run()
        # The loop gives the signals back when it closes, and from here on there is nothing left to interrupt.
        for number in (signal.SIGINT, signal.SIGTERM):
            event_loop().remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
        close_event_loop()
        close_threads()
        return self.exit_code

    def hear_signal(self) -> None:
        if self.stopped_at is None:
            self.stop()
        elif time.monotonic() - self.stopped_at > IMPATIENCE_SECONDS:
            if self.leaving is None or self.leaving.done():
                os._exit(1)
            self.leaving.cancel()
            self.stopped_at = time.monotonic()

    def stop(self) -> None:
        if self.stopped_at is None:
            self.stopped_at = time.monotonic()
            # A worker in this process hands its runs back: nobody could wait for their answers here.
            patience = ANSWER_SECONDS if self.has_worker else max(ANSWER_SECONDS, settings.AGENTSITE["DRAIN_SECONDS"])
            work = leave(self.server, patience, waits_for_runs=not self.has_worker)
            self.leaving = event_loop().create_task(work, name="leave")
            self.leaving.add_done_callback(self.left)

    def left(self, leaving: "asyncio.Task[None]") -> None:
        if not leaving.cancelled() and (error := leaving.exception()) is not None:
            logger.error("Not everything could be answered before the end.", exc_info=error)
        self.server.stop()

    def start_worker(self, loop: asyncio.AbstractEventLoop) -> None:
        worker = Worker()
        work = loop.create_task(worker.run(), name="worker")
        work.add_done_callback(self.worker_ended)

        async def shut_down() -> None:
            # A worker that has failed answers no shutdown any more.
            leaving = asyncio.create_task(worker.shutdown())
            await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await asyncio.wait({work})
            leaving.cancel()

        before_shutdown(shut_down)

    def worker_ended(self, work: "asyncio.Task[None]") -> None:
        error = None if work.cancelled() else work.exception()
        if self.stopped_at is not None and error is None:
            return
        # A site without its worker would take runs that nobody executes.
        logger.critical("The worker failed, and the server ends with it.", exc_info=error)
        self.exit_code = 1
        self.stop()


def check_configuration() -> None:
    check_worker_settings()
    if settings.STATIC_ROOT and not (settings.STATIC_ROOT / "staticfiles.json").exists():
        raise CommandError("The static files are not collected. Run: manage.py collectstatic --noinput")


def check_address(host: str, port: int) -> None:
    """Say what is wrong with the address before anything is made or printed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = str(getattr(error, "strerror", None) or error).removesuffix(".")
            raise CommandError(
                f"Cannot listen on {host}:{port}: {reason}. HOST and PORT choose another address."
            ) from None


def take_data_directory() -> IO[str]:
    """SQLite and the in-memory doorbell belong to one process: a second one would not hear the first."""
    path = settings.DATA_DIR / "lock"
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise CommandError(
            f"Another server already uses the data in {settings.DATA_DIR}. End it first, or give this one a directory "
            "of its own with AGENTSITE_DATA."
        ) from None
    return file
