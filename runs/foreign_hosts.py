"""Requests for a host that this site does not answer to: bots send them all day, and so does everybody while an admin
has forgotten a name. One line in the log, which names the variable to set, and no traceback."""

import logging


class OneLine(logging.Filter):
    """For Django's logger of such requests."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = record.getMessage().replace("ALLOWED_HOSTS", "AGENTSITE_HOSTS")
        record.args = ()
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True
