"""What comes before a process serves or works: its settings are checked, and the database is brought up to date.

A new site also gets a demo agent that needs no key, a first admin, and an API key for them. Each is made once and never
again: whoever deletes the demo agent or renames the admin has a reason.
"""

import secrets
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from runs import actions
from runs.database import writing
from runs.models import Agent, ApiKey, Provider
from runs.tasks import background_commands
from runs.toolbox import known_tools

ADMIN = "admin"
MIGRATION_LOCK = 4_170_226_611  # any number, as long as nobody else uses it

DEMO_DESCRIPTION = "Shows what an agent does here, without a key and without a network. Ask it about this site."
DEMO_INSTRUCTIONS = (
    "You are the demo agent of Agentsite, a self-hosted web console and agent backend. You introduce the product to "
    "somebody who has just installed it. Answer briefly and in Markdown. When you are asked for the time, a "
    "calculation, a wait, a note or an e-mail, use your tools instead of guessing."
)
# One shows a tool, one an approval, and one is long enough to be stopped.
DEMO_EXAMPLES = [
    "What time is it, and what is 17*23?",
    "Send an email to ada@example.com about lunch",
    "Tell me a long story",
]
DEMO_TOOLS = [
    "current_time",
    "calculator",
    "wait",
    "remember",
    "recall",
    "send_email",
    "write_file",
    "read_file",
    "list_files",
    "start_process",
    "check_process",
    "end_process",
]


@dataclass(frozen=True)
class FirstAccount:
    """What the owner needs to get in. It is stored nowhere in this form, so it is shown once or lost."""

    user_name: str
    password: str
    api_key: str


def check_worker_settings() -> None:
    """Refuse tools and commands that cannot be meant, in words, before anything is made."""
    try:
        known_tools()
        background_commands()
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from error


def migrate_site() -> None:
    """Bring the database up to date. Of all processes that start at this moment one does it, and the others wait."""
    if connection.vendor != "postgresql":
        call_command("migrate", verbosity=0, interactive=False)
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
            try:
                call_command("migrate", verbosity=0, interactive=False)
            finally:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION_LOCK])
    except OperationalError as error:
        raise CommandError(f"The database does not answer: {error}") from error


def set_up_site() -> FirstAccount | None:
    """Make what is missing; the account only where there is no admin yet."""
    with writing():
        if connection.vendor == "postgresql":
            # Of several web servers that start at once on a new site, one makes it.
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
        make_demo_agent()
        return make_first_admin()


def make_demo_agent() -> None:
    if Provider.objects.filter(kind=Provider.Kind.DEMO).exists() or Agent.objects.filter(slug="demo").exists():
        return
    provider, _ = Provider.objects.get_or_create(name="Demo", defaults={"kind": Provider.Kind.DEMO})
    actions.save_agent(
        Agent(
            slug="demo",
            name="Demo",
            description=DEMO_DESCRIPTION,
            instructions=DEMO_INSTRUCTIONS,
            examples=DEMO_EXAMPLES,
            provider=provider,
            model="demo",
            tools=DEMO_TOOLS,
            has_parallel_tools=True,
            is_default=not Agent.objects.filter(is_default=True).exists(),
        )
    )


def make_first_admin() -> FirstAccount | None:
    if User.objects.filter(is_superuser=True).exists() or User.objects.filter(username=ADMIN).exists():
        return None
    password = secrets.token_urlsafe(12)
    admin = User.objects.create_superuser(ADMIN, password=password)
    _, key = ApiKey.make(name="first key", user=admin)
    return FirstAccount(ADMIN, password, key)
