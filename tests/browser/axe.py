"""axe-core, which looks for what keeps people out: fetched once with npm, kept beside the virtual environment."""

import shutil
import subprocess
import sys
import tarfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

VERSION = "4.10.3"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@lru_cache
def source() -> str:
    folder = Path(sys.prefix) / "axe-core"
    script = folder / f"axe-{VERSION}.min.js"
    if not script.exists():
        fetch(folder, script)
    return script.read_text()


def fetch(folder: Path, script: Path) -> None:
    if shutil.which("npm") is None:
        raise RuntimeError("The accessibility tests fetch axe-core with npm, which is not here. Install Node.js.")
    folder.mkdir(exist_ok=True)
    # npm checks what it gets against the registry's own checksum.
    packed = subprocess.run(
        ["npm", "pack", "--silent", f"axe-core@{VERSION}"], cwd=folder, check=True, capture_output=True, text=True
    )
    archive = folder / packed.stdout.split()[-1]
    with tarfile.open(archive) as package:
        member = package.extractfile("package/axe.min.js")
        assert member is not None
        script.write_bytes(member.read())
    archive.unlink()


def find_violations(page: Page) -> list[str]:
    """Each as a line that says what is wrong and where."""
    # The page's policy forbids foreign scripts, this one included: it comes in through the debugger.
    page.evaluate(source())
    found: list[dict[str, Any]] = page.evaluate(
        "async (tags) => (await axe.run(document, {runOnly: tags})).violations", TAGS
    )
    return [
        f"{violation['id']}: {violation['help']}: {node['html'][:200]} ({node.get('failureSummary', '')})"
        for violation in found
        for node in violation["nodes"]
    ]
