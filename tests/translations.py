"""The catalogues of translations: what the sources say, what `locale/` holds, and how the two are brought together.

    python -m tests.translations        puts new sentences into each catalogue and compiles them

Babel does the work, so that nobody needs GNU gettext: neither here nor on the site, where the compiled catalogues
come with the sources.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

PROJECT = Path(__file__).resolve().parent.parent
LANGUAGES = ("de",)
KEYWORDS = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "npgettext": ((1, "c"), 2, 3),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
}
HEADER = """\
# What Agentsite says, in another language: {language}.
msgid ""
msgstr ""
"Language: {language}\\n"
"Plural-Forms: {plural}\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"

"""


def sources() -> Iterator[tuple[Path, str]]:
    for path in sorted([*PROJECT.glob("runs/**/*.py"), *PROJECT.glob("agentsite/**/*.py")]):
        yield path, path.read_text()
    for path in sorted(PROJECT.glob("templates/**/*.html")):
        # What Django makes of a template looks like Python but for its indentation.
        made = templatize(path.read_text(), origin=str(path))
        yield path, "\n".join(line.strip() for line in made.splitlines())


def extracted() -> Catalog:
    """Everything that pages and messages say to people."""
    catalog = Catalog(project="Agentsite", version="1", copyright_holder="Agentsite", charset="utf-8")
    for path, text in sources():
        found = extract("python", BytesIO(text.encode()), keywords=KEYWORDS, comment_tags=["Translators:"])
        for _line, message, comments, context in found:
            place = (path.relative_to(PROJECT).as_posix(), 0)
            catalog.add(message, locations=[place], auto_comments=comments, context=context)
    return catalog


def path_of(language: str, ending: str) -> Path:
    return PROJECT / "locale" / language / "LC_MESSAGES" / f"django.{ending}"


def read(language: str) -> Catalog:
    path = path_of(language, "po")
    if not path.exists():
        return Catalog(locale=language)
    with path.open("rb") as file:
        return read_po(file, locale=language)


def read_compiled(language: str) -> Catalog:
    with path_of(language, "mo").open("rb") as file:
        return read_mo(file)


def update(language: str) -> int:
    """How many sentences have no translation yet."""
    catalog = read(language)
    catalog.update(extracted(), no_fuzzy_matching=True)
    catalog.obsolete.clear()
    with path_of(language, "po").open("wb") as file:
        file.write(HEADER.format(language=language, plural=catalog.plural_forms).encode())
        # Without Babel's own header: version control knows dates and names, and the file changes with its sentences.
        # Without line numbers, which change with every edit of a template and say little.
        write_po(file, catalog, width=110, sort_output=True, omit_header=True, include_lineno=False)
    # The same sentences give the same bytes.
    catalog.creation_date = catalog.revision_date = datetime(2000, 1, 1, tzinfo=UTC)
    with path_of(language, "mo").open("wb") as file:
        write_mo(file, catalog)
    return sum(not any(strings_of(message.string)) for message in catalog if message.id)


def strings_of(translated: object) -> list[str]:
    return list(translated) if isinstance(translated, tuple | list) else [str(translated or "")]


if __name__ == "__main__":
    for language in LANGUAGES:
        print(f"{language}: {update(language)} sentences without a translation")
