"""The product speaks every language it offers: no message is left in English, and no placeholder is lost."""

import ast
import gettext
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from django.conf import settings
from django.utils.translation import to_locale

LANGUAGES = [code for code, _name in settings.LANGUAGES if code != "en"]
PLACEHOLDER = re.compile(r"%\(\w+\)[0-9.]*[a-z]|\{\w*\}")


class Entry(NamedTuple):
    """One message of a catalogue; `plural` is "" for most, and a translation has one form here."""

    context: str
    message: str
    plural: str
    translation: str


def place(language: str) -> Path:
    return Path(settings.LOCALE_PATHS[0]) / to_locale(language) / "LC_MESSAGES"


def entries(language: str) -> list[Entry]:
    """All messages of a catalogue, its header left out."""
    text = re.sub(r'"\n"', "", (place(language) / "django.po").read_text())
    blocks = [block for block in text.split("\n\n")[1:] if not block.startswith("#~")]
    names = ("msgctxt", "msgid", "msgid_plural", r"msgstr(?:\[0\])?")
    return [Entry(*(_value(block, name) for name in names)) for block in blocks]


def _value(block: str, name: str) -> str:
    found = re.search(rf'^{name} (".*")$', block, re.MULTILINE)
    return ast.literal_eval(found[1]) if found else ""


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_message_is_translated(language: str) -> None:
    found = entries(language)
    assert len(found) > 500
    assert [entry.message for entry in found if not entry.translation] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_placeholder_is_lost_or_invented(language: str) -> None:
    for entry in entries(language):
        wanted = set(PLACEHOLDER.findall(entry.plural or entry.message))
        assert set(PLACEHOLDER.findall(entry.translation)) == wanted, entry.message


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_compiled_catalogue_is_not_stale(language: str) -> None:
    with (place(language) / "django.mo").open("rb") as compiled:
        catalogue = gettext.GNUTranslations(compiled)
    for entry in entries(language):
        if entry.plural:
            assert catalogue.ngettext(entry.message, entry.plural, 2) == entry.translation
        elif entry.context:
            assert catalogue.pgettext(entry.context, entry.message) == entry.translation
        else:
            assert catalogue.gettext(entry.message) == entry.translation
