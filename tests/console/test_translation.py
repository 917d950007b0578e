"""The product speaks every language it offers: no message is left in English, and no placeholder is lost."""

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from django.conf import settings
from django.utils.translation import to_locale
from django.utils.translation.template import templatize

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


MARKERS = {"_": 0, "gettext": 0, "gettext_lazy": 0, "gettext_noop": 0, "ngettext": 0, "ngettext_lazy": 0, "pgettext": 1}
"""Functions that mark a message, and which argument it is."""

TEMPLATED = re.compile(r"""\bn?(?:gettext|_)\(\s*u?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")


def spoken() -> Iterator[tuple[str, str]]:
    """(file, message) of everything that the product's code and templates mark for translation."""
    root = Path(settings.BASE_DIR)
    for path in sorted((root / "recovery").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MARKERS:
                place = MARKERS[node.func.id]
                argument = node.args[place] if len(node.args) > place else None
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield str(path.relative_to(root)), argument.value
    for path in sorted((root / "templates").rglob("*.html")):
        for found in TEMPLATED.finditer(templatize(path.read_text())):
            yield str(path.relative_to(root)), ast.literal_eval(found[1])


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_message_of_the_code_is_missing_from_the_catalogue(language: str) -> None:
    known = {entry.message for entry in entries(language)}
    found = list(spoken())
    assert len(found) > 1000
    assert [each for each in found if each[1] not in known] == []


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
