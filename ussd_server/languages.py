"""The languages of the console, of sentences about payments and of mails.

The source holds English. `translations/<code>/LC_MESSAGES/messages.po` holds the same texts in another language; a text
that is missing there is shown in English. `scripts/translate` writes new texts into these files.

Babel is imported when a page needs it: it takes a twentieth of a second, and commands and the API speak English.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path
from typing import TypeVar

ENGLISH = "en"
FOLDER = Path(__file__).parent / "translations"
_Texts = TypeVar("_Texts")
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


def marked(texts: _Texts) -> _Texts:
    """Mark texts that are translated later, where they are shown."""
    return texts


@cache
def _catalog(code: str) -> NullTranslations:
    if code == ENGLISH:
        return NullTranslations()
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    compiled = BytesIO()
    with (FOLDER / code / "LC_MESSAGES" / "messages.po").open("rb") as file:
        write_mo(compiled, read_po(file, locale=code))
    compiled.seek(0)
    return GNUTranslations(compiled)
