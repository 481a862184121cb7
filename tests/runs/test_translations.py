"""Every sentence is there in every language, and what is compiled is what was written."""

import re

import pytest
from babel.messages.catalog import Message

from tests import translations

PLACEHOLDER = re.compile(r"%\(\w+\)s|%s|<[^>]+>")


def strings(message: Message) -> list[str]:
    return translations.strings_of(message.string)


@pytest.mark.parametrize("language", translations.LANGUAGES)
def test_every_sentence_is_translated_and_none_is_left_over(language: str) -> None:
    said = {(message.id, message.context) for message in translations.extracted() if message.id}
    written = {(message.id, message.context) for message in translations.read(language) if all(strings(message))}
    assert said - written == set(), "`make translations` adds them to the catalogue"
    assert {key for key in written if key[0]} - said == set(), "`make translations` removes them"


@pytest.mark.parametrize("language", translations.LANGUAGES)
def test_the_compiled_catalogue_is_the_written_one(language: str) -> None:
    written, compiled = (
        sorted((translations.strings_of(message.id), strings(message)) for message in catalog if message.id)
        for catalog in (translations.read(language), translations.read_compiled(language))
    )
    assert compiled == written, "`make translations` compiles it"


@pytest.mark.parametrize("language", translations.LANGUAGES)
def test_a_translation_keeps_what_is_filled_in_later(language: str) -> None:
    for message in translations.read(language):
        if not message.id:
            continue
        original = translations.strings_of(message.id)
        wanted = sorted(PLACEHOLDER.findall(original[-1]))
        for translated in strings(message):
            assert sorted(PLACEHOLDER.findall(translated)) == wanted, message.id
