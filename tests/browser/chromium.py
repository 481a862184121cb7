"""A Chromium for the tests: the machine's own. Root on Debian gets it installed; elsewhere somebody must."""

import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# As root there is no sandbox, and containers have little shared memory.
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]


def find_chromium() -> str:
    """The path of the browser."""
    given = os.environ.get("TEST_CHROMIUM")
    found = given or find_installed()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install()
        found = find_installed()
    if found is None:
        raise RuntimeError(
            f"The browser tests need Chromium, and none of {', '.join(NAMES)} is here. "
            "Install it (Debian: apt-get install chromium), or name one with TEST_CHROMIUM."
        )
    return found


def find_installed() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        subprocess.run(["apt-get", "--quiet=2", *arguments], check=True, env=environment, stdout=subprocess.DEVNULL)
