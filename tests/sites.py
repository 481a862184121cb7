"""Sites for tests: made, ended in good order, and looked through for what should not have happened."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.postgres import new_database
from tests.serving import Served


class Sites:
    def __init__(self, folder: Path, databases: ExitStack) -> None:
        self.folder = folder
        self.made: list[Served] = []
        self._databases = databases

    def new(self, *arguments: str, **environment: str) -> Served:
        """Not started yet, and without data: `new("--web-only", AGENTSITE_LEASE_SECONDS="2")`."""
        return self._make(arguments, environment)

    def copy(self, original: Served, *arguments: str, **environment: str) -> Served:
        """Not started yet, with the data of a site that does not run."""
        site = self._make(arguments, environment, template=original.environment.get("DATABASE_URL", ""))
        shutil.copytree(original.data, site.data, dirs_exist_ok=True)
        site.password, site.key = original.password, original.key
        return site

    def _make(self, arguments: tuple[str, ...], environment: dict[str, str], template: str = "") -> Served:
        if "DATABASE_URL" in os.environ and "DATABASE_URL" not in environment:
            database = new_database(os.environ["DATABASE_URL"], template)
            environment["DATABASE_URL"] = self._databases.enter_context(database)
        data = self.folder / f"site{len(self.made)}"
        data.mkdir()
        self.made.append(Served(data=data, environment=environment, arguments=arguments))
        return self.made[-1]


@contextmanager
def making_sites(folder: Path, expected: Sequence[str] = ()) -> Iterator[Sites]:
    """At the end each is ended cleanly, and its log must hold no trouble, except what is expected."""
    with ExitStack() as databases:
        sites = Sites(folder, databases)
        yield sites
        crashes = [site.process.poll() for site in sites.made if site.has_crashed]
        codes = [site.stop() for site in sites.made if hasattr(site, "process") and site.process.poll() is None]
    troubles = [line for site in sites.made for line in site.troubles(tuple(expected))]
    assert not crashes, f"ended by themselves, with {crashes}"
    assert not troubles, "\n".join(site.log for site in sites.made)
    assert not any(codes), f"exit codes: {codes}"
