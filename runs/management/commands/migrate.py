"""Django's own `migrate`, with all the time it needs.

The server's sessions may not stand still in a transaction (`agentsite.settings`): a frozen worker would keep its locks.
A migration may, on a large table or a busy machine, and must not be ended half-way for it.
"""

from typing import Any

from django.core.management.commands import migrate
from django.db import connections


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        if connection.vendor != "postgresql":
            super().handle(*args, **options)
            return
        with connection.cursor() as cursor:
            cursor.execute("SET idle_in_transaction_session_timeout = 0")
        super().handle(*args, **options)
        with connection.cursor() as cursor:
            cursor.execute("RESET idle_in_transaction_session_timeout")
