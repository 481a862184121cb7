"""Where the tasks of this site's conversations are, within which limits, and what they may start."""

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from gateway.background.commands import Command, CommandProblem, parse_commands
from gateway.background.processes import BackgroundSetup
from gateway.files import FileLimits
from gateway.task import Tasks


def background_commands() -> dict[str, Command]:
    try:
        return parse_commands(settings.AGENTSITE["BACKGROUND_COMMANDS"])
    except CommandProblem as problem:
        raise ImproperlyConfigured(f"AGENTSITE_BACKGROUND_COMMANDS: {problem}") from problem


def make_tasks() -> Tasks:
    chosen = settings.AGENTSITE
    return Tasks(
        settings.DATA_DIR,
        FileLimits(chosen["FILE_BYTES"], chosen["FILES_BYTES"], chosen["FILES_COUNT"]),
        BackgroundSetup(
            background_commands(),
            most=chosen["BACKGROUND_PROCESSES"],
            seconds=chosen["BACKGROUND_SECONDS"],
            output_bytes=chosen["BACKGROUND_OUTPUT_BYTES"],
            grace_seconds=chosen["BACKGROUND_GRACE_SECONDS"],
        ),
    )
