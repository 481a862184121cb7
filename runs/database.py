"""Where database work happens: in threads, because Django's ORM is synchronous; one writer at a time on SQLite.

SQLite lets a second writer sleep and try again, which under load costs far more than the write. So inside one process
writers queue on a lock. Threads of their own, not Django's thread for each request: a watcher that stays for hours
would keep a thread and a connection for as long.
"""

import asyncio
import select
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import psycopg
from django.db import Error, InterfaceError, InternalError, OperationalError, connection, connections, transaction

P = ParamSpec("P")
R = TypeVar("R")

# How a server that is away looks, and a session that it ended; trying again may help.
Unavailable = (OperationalError, InterfaceError, InternalError)
# The same, also in the words of the library below Django.
OUTAGES = (*Unavailable, psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)

_sqlite_writer = threading.RLock()
_threads: dict[str, ThreadPoolExecutor] = {}
_THREADS = {"writer": 1, "reader": 4}


@contextmanager
def writing() -> Iterator[None]:
    """One transaction that writes."""
    if connection.vendor == "sqlite" and not connection.in_atomic_block:
        with _sqlite_writer, transaction.atomic():
            yield
    else:
        with transaction.atomic():
            yield


async def in_writer(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The worker's own writes, one after another in the order in which they were asked for."""
    return await _in_thread("writer", function, *args, **kwargs)


async def in_reader(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    return await _in_thread("reader", function, *args, **kwargs)


async def _in_thread(room: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    threads = _threads.get(room) or _threads.setdefault(room, ThreadPoolExecutor(_THREADS[room], f"database-{room}"))

    def call() -> R:
        _drop_dead_connection()
        try:
            return function(*args, **kwargs)
        except Exception as error:
            outage = find_outage(error)
            if outage is not None or isinstance(error, Error):
                # The connection may be broken (a server restarted): the next call opens a new one.
                connections.close_all()
            if outage is not None and not isinstance(error, Unavailable):
                # Told by somebody else, as a transaction that it broke, or a job that could not be stored.
                raise OperationalError(str(outage)) from error
            raise

    return await asyncio.get_running_loop().run_in_executor(threads, call)


def find_outage(error: BaseException | None, kinds: tuple[type[BaseException], ...] = OUTAGES) -> BaseException | None:
    """What an error comes from, where that is a server that is away."""
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__
    return error


def _drop_dead_connection() -> None:
    """A server that went away said so: between two calls nothing else arrives on a connection. Whoever uses it next
    would get the error for it, in each thread once."""
    if connection.vendor != "postgresql" or connection.connection is None or connection.in_atomic_block:
        return
    waiting = select.poll()
    try:
        waiting.register(connection.connection.fileno(), select.POLLIN)
    except psycopg.Error:  # closed already
        connections.close_all()
        return
    if waiting.poll(0):
        connections.close_all()


def close_threads() -> None:
    """End the threads and their connections. Call it when nothing uses them any more."""
    for room, threads in list(_threads.items()):
        everyone_is_here = threading.Barrier(_THREADS[room])

        def leave(barrier: threading.Barrier = everyone_is_here) -> None:
            connections.close_all()
            barrier.wait(10)

        for leaving in [threads.submit(leave) for _ in range(_THREADS[room])]:
            leaving.result(20)
        threads.shutdown()
        del _threads[room]
