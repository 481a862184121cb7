"""A new API key for a user.

    manage.py create_api_key NAME --user USERNAME [--expires-days N]

The key stands alone on the last line of the output. A key's text cannot be shown again, so the same name for the same
user makes a new key and revokes the old one.
"""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from runs.database import writing
from runs.models import ApiKey
from runs.setup import migrate_site

LONGEST_NAME = 100
LONGEST_DAYS = 36500


class Command(BaseCommand):
    help = "Make an API key and print it. The same name again replaces the user's key of that name."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="what the key is for")
        parser.add_argument("--user", required=True, metavar="USERNAME", help="whose key it is")
        parser.add_argument("--expires-days", type=int, metavar="N", help="default: it does not expire")

    def handle(self, *, name: str, user: str, expires_days: int | None, **options: Any) -> None:
        # A script may well run before the first start of the server.
        migrate_site()
        if not name.strip() or len(name) > LONGEST_NAME:
            raise CommandError(f"The name of a key has 1 to {LONGEST_NAME} characters.")
        if expires_days is not None and not 1 <= expires_days <= LONGEST_DAYS:
            raise CommandError(f"--expires-days must be between 1 and {LONGEST_DAYS}.")
        owner = User.objects.filter(username=user).first()
        if owner is None:
            raise CommandError(f"There is no user {user!r}. The server makes the first one, admin, at its first start.")
        now = timezone.now()
        expires_at = now + timedelta(days=expires_days) if expires_days is not None else None
        with writing():
            replaced = ApiKey.objects.filter(user=owner, name=name, revoked_at=None).update(revoked_at=now)
            _, text = ApiKey.make(name=name, user=owner, expires_at=expires_at)
        if replaced:
            self.stderr.write(f"The earlier key {name!r} of {user} is revoked.")
        self.stdout.write(text)
