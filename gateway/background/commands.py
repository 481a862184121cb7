"""What may be started in the background: the built-in functions, and the commands that the site's owner allows."""

import re
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gateway.background import functions

NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
TAKES_MORE = "*"
MAX_ARGUMENTS = 50
MAX_ARGUMENT_BYTES = 4096


class CommandProblem(Exception):
    """A command cannot be used as asked; the message says why."""


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    line: tuple[str, ...]
    takes_arguments: bool
    description: str

    def make_line(self, arguments: list[str]) -> list[str]:
        if arguments and not self.takes_arguments:
            raise CommandProblem(f"{self.name} takes no arguments.")
        if len(arguments) > MAX_ARGUMENTS:
            raise CommandProblem(f"{MAX_ARGUMENTS} arguments at most.")
        for argument in arguments:
            try:
                is_good = "\0" not in argument and len(argument.encode()) <= MAX_ARGUMENT_BYTES
            except UnicodeEncodeError:
                is_good = False
            if not is_good:
                raise CommandProblem(f"An argument must be text without NUL of {MAX_ARGUMENT_BYTES} bytes at most.")
        return [*self.line, *arguments]


def built_in_commands() -> dict[str, Command]:
    program = (sys.executable, "-I", "-S", str(Path(functions.__file__).resolve()))
    return {
        name: Command(name, (*program, name), True, (function.__doc__ or "").strip())
        for name, function in functions.FUNCTIONS.items()
    }


def parse_commands(lines: Iterable[str]) -> dict[str, Command]:
    """`name=command line` each, and the built-in ones. A line that ends in `*` takes arguments from the model."""
    commands = built_in_commands()
    for line in lines:
        name, separator, text = (part.strip() for part in line.partition("="))
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise CommandProblem(f"{line!r}: {error}.") from None
        takes_arguments = len(words) > 1 and words[-1] == TAKES_MORE
        words = words[:-1] if takes_arguments else words
        if not separator or not words or not NAME.fullmatch(name):
            raise CommandProblem(f"{line!r} is not of the form name=command line.")
        if name in commands:
            raise CommandProblem(f"There are two commands named {name!r}.")
        commands[name] = Command(name, tuple(words), takes_arguments, f"Runs {words[0]}.")
    return commands
