"""A database server that is away for a while is no mystery: one line in the log, and no traceback from all who ask."""

import logging

import psycopg

from runs.database import Unavailable

OUTAGES = (*Unavailable, psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)


class OneLine(logging.Filter):
    """For the handler: shortens what is due to a lost connection, whoever logs it."""

    def filter(self, record: logging.LogRecord) -> bool:
        outage = _find(record.exc_info[1]) if record.exc_info else None
        if outage is None:
            return True
        words = " ".join(record.getMessage().split())
        record.msg, record.args = f"{words} ({' '.join(str(outage).split()) or type(outage).__name__})", ()
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        # asyncio tells of tasks that nobody waited for. Whoever started them has told it already.
        return record.name != "asyncio"


def _find(error: BaseException | None) -> BaseException | None:
    """What an error comes from, where that is an outage."""
    while error is not None and not isinstance(error, OUTAGES):
        error = error.__cause__
    return error
