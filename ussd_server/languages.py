"""The languages of the console, of sentences about payments and of mails.

The source holds English. `translations/<code>/LC_MESSAGES/messages.po` holds the same texts in another language; a text
that is missing there is shown in English. `scripts/translate` writes new texts into these files.

Babel is imported when a page needs it: it takes a twentieth of a second, and commands and the API speak English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from babel.messages import Catalog

ENGLISH = "en"
FOLDER = Path(__file__).parent / "translations"
_Texts = TypeVar("_Texts")
_VALUE = re.compile(r"%\((\w+)\)s")
_FEWEST_LETTERS = 6
_language = ContextVar("language", default=ENGLISH)


@cache
def languages() -> dict[str, str]:
    """The codes of all languages, each with the language's own name."""
    from babel import Locale

    codes = [ENGLISH, *sorted(path.parts[-3] for path in FOLDER.glob("*/LC_MESSAGES/messages.po"))]
    return {code: Locale.parse(code).get_display_name(code) or code for code in codes}


def current_language() -> str:
    return _language.get()


def use_language(code: str | None) -> None:
    """Give texts in this language from now on, in this thread or greenlet; in English without one that is known."""
    _language.set(code if code in languages() else ENGLISH)


@contextmanager
def language_of(code: str | None) -> Iterator[None]:
    """Give texts in this language inside the `with` block."""
    before = _language.get()
    use_language(code)
    try:
        yield
    finally:
        _language.set(before)


def gettext(text: str, /, **values: object) -> str:
    """A text in the present language. `%(name)s` stands for the value of this name."""
    translation = _catalog(_language.get()).gettext(text) if text else ""
    return translation % values if values else translation


def ngettext(one: str, many: str, count: int) -> str:
    """The form of a text for `count`, in the present language."""
    return _catalog(_language.get()).ngettext(one, many, count)


def retold(text: str) -> str:
    """A finished text of ours, such as the reason of a refusal, in the present language; others stay as they are.

    It is found in the catalog as it is, or by the words around what was filled in, which is translated, too.
    """
    if (language := _language.get()) == ENGLISH or not text:
        return text
    if (translation := gettext(text)) != text:
        return translation
    for words, names, source in _with_values(language):
        if (values := _between(words, text)) is not None:
            return gettext(source, **{name: retold(value) for name, value in zip(names, values, strict=True)})
    return text


def marked(texts: _Texts) -> _Texts:
    """Mark texts that are translated later, where they are shown."""
    return texts


@cache
def _catalog(code: str) -> NullTranslations:
    if code == ENGLISH:
        return NullTranslations()
    from babel.messages.mofile import write_mo

    compiled = BytesIO()
    write_mo(compiled, _texts_of(code))
    compiled.seek(0)
    return GNUTranslations(compiled)


@cache
def _with_values(code: str) -> list[tuple[list[str], list[str], str]]:
    """The texts with values of a catalog: the words around the values, their names, the text; most words first."""
    texts = [str(message.id) for message in _texts_of(code) if isinstance(message.id, str)]
    parts = [(_VALUE.split(text.replace("%%", "%")), text) for text in texts]
    found = [(words[::2], words[1::2], text) for words, text in parts if len("".join(words[::2])) >= _FEWEST_LETTERS]
    return sorted((each for each in found if each[1]), key=lambda each: -len("".join(each[0])))


def _between(words: list[str], text: str) -> list[str] | None:
    """What stands between these words in a text, which begins with the first and ends with the last of them."""
    begin, end = len(words[0]), len(text) - len(words[-1])
    if not (text.startswith(words[0]) and text.endswith(words[-1])):
        return None
    values = []
    for word in words[1:-1]:
        if (at := text.find(word, begin, end)) < 0:
            return None
        values.append(text[begin:at])
        begin = at + len(word)
    return [*values, text[begin:end]] if begin <= end else None


@cache
def _texts_of(code: str) -> Catalog:
    from babel.messages.pofile import read_po

    with (FOLDER / code / "LC_MESSAGES" / "messages.po").open("rb") as file:
        return read_po(file, locale=code)
