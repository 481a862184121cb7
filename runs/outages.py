"""A server that is away for a while is no mystery: one line in the log, and no traceback from all who ask."""

import logging

from redis import exceptions as redis

from runs import database
from runs.database import find_outage

OUTAGES = (*database.OUTAGES, redis.ConnectionError, redis.TimeoutError)


class OneLine(logging.Filter):
    """For the handler: shortens what is due to a lost connection, whoever logs it."""

    def filter(self, record: logging.LogRecord) -> bool:
        outage = find_outage(record.exc_info[1], OUTAGES) if record.exc_info else None
        if outage is None:
            if isinstance(record.args, tuple):
                # PostgreSQL's own words are three lines long.
                record.args = tuple(_as_line(str(one)) if isinstance(one, OUTAGES) else one for one in record.args)
            return True
        record.msg = f"{_as_line(record.getMessage())} ({_as_line(str(outage)) or type(outage).__name__})"
        record.args = ()
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        # asyncio tells of tasks that nobody waited for. Whoever started them has told it already.
        return record.name != "asyncio"


def _as_line(text: str) -> str:
    return " ".join(text.split())
