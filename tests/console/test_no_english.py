"""Every page and refusal with data, in a language of wide letters: what stands in our letters was not translated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from gettext import NullTranslations
from html import unescape

import pytest
from flask import Flask
from werkzeug.routing import MapAdapter

from tests.console.conftest import ConsoleVisitor, Operators
from tests.documents import texts
from ussd_server import languages
from ussd_server.bootstrap import Services
from ussd_server.demonstration.client import prepare_demonstration

pytestmark = pytest.mark.slow

# Pages of each kind that are read, with other objects.
_MOST = 3
_FILLED_IN = re.compile(r"(%\(\w+\)s|\{\w*\}|</?\w+[^>]*>|&\w+;)")
# What clients write, and what `ussd-server doctor` prints, which is looked for in documents and in its own words.
_IN_OTHER_WORDS = re.compile(r"/(?:menus|messages|sessions|phone)\b|/system/check")
_ENGLISH = re.compile(r"\b(?:the|is|are|was|were|not|this|every|of|has|by|with|must|no)\b", re.IGNORECASE)
# Names of languages, and data that is called as we call things.
_DATA = {
    "English",
    "Luganda",
    "Deposit",
    "Withdrawal",
    "main",
    "review",
    "messages",
    "payouts",
    "transactions",
    "statements",
    "collection",
    "submitted",
    "succeeded",
    "failed",
    "approval",
}


def wide(text: str) -> str:
    """A text in wide letters, but for the names of values and its tags."""
    parts = _FILLED_IN.split(text)
    return "".join(
        part if number % 2 else re.sub("[A-Za-z]", lambda letter: chr(ord(letter[0]) + 0xFEE0), part)
        for number, part in enumerate(parts)
    )


class Wide(NullTranslations):
    """Every text of the program in wide letters."""

    def __init__(self, ids: set[str]) -> None:
        super().__init__()
        self.ids = ids

    def gettext(self, message: str) -> str:
        return wide(message) if message in self.ids else message

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)


@pytest.fixture
def ids(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The texts of the program, which stand in wide letters instead of in Luganda."""
    catalog, real = texts.template(), languages._catalog
    ids = {text for each in catalog for text in ((each.id,) if isinstance(each.id, str) else each.id) if text}
    monkeypatch.setattr(languages, "_texts_of", lambda _: catalog)
    monkeypatch.setattr(languages, "_catalog", lambda code: real(code) if code == languages.ENGLISH else Wide(ids))
    languages._with_values.cache_clear()
    yield ids
    languages._with_values.cache_clear()


def pages(visitor: ConsoleVisitor, start: str, urls: MapAdapter) -> Iterator[tuple[str, str]]:
    """The pages that links lead to from `start`, then those of their forms, sent empty: the address and the page."""
    seen, counts, waiting, forms = {start}, Counter[str](), [start], list[str]()
    while waiting:
        address = waiting.pop(0)
        rule = urls.match(address.partition("?")[0], return_rule=True)[0].rule
        counts[rule] += 1
        if counts[rule] > _MOST or "/static/" in address or "format=" in address:
            continue
        page = visitor.web.get(address).text
        yield address, page
        forms += re.findall(r'<form method="post" action="(/console[^"]+)"', page)
        for link in map(unescape, re.findall(r'href="(/console[^"#]*)', page)):
            if link not in seen:
                seen.add(link)
                waiting.append(link)
    for address in sorted(set(map(unescape, forms)), key=lambda each: "delete" in each or "disable" in each):
        rule = urls.match(address, method="POST", return_rule=True)[0].rule
        counts[rule] += 1
        if counts[rule] == 1 and not re.search("language|sign-out", address):
            yield address, visitor.post(address.removeprefix("/console")).text


def read(page: str) -> Iterator[str]:
    """The texts and titles of a page in which stand three of our letters."""
    shown = re.sub(r"<(script|style|pre|code|svg)\b.*?</\1>", " ", page[page.index("<body") :], flags=re.DOTALL)
    titles = re.findall(r' (?:aria-label|placeholder|title)="([^"]*)"', shown)
    yield from (text for text in map(unescape, re.findall(r">([^<]+)", shown) + titles) if re.search("[a-z]{2}", text))


def test_no_page_and_no_refusal_has_a_sentence_or_a_word_of_ours_in_english(
    app: Flask, services: Services, operator: Operators, ids: set[str]
) -> None:
    made = prepare_demonstration(services, "http://localhost")
    owner, ann = ConsoleVisitor(app.test_client()), operator("ann")
    owner.sign_in(made.email, made.password)
    urls, count, found = app.url_map.bind("localhost"), 0, set()
    for visitor, start in ((owner, "/console"), (ann, "/console/operator")):
        assert visitor.post("/language", language="lg").status_code == 303
        for address, page in pages(visitor, start, urls):
            if "</html>" in page and not _IN_OTHER_WORDS.search(address):
                count += 1
                found |= {
                    (address.partition("?")[0], " ".join(text.split()))
                    for text in read(page)
                    if (_ENGLISH.search(text) and "DEMOFEES" not in text) or (text.strip() in ids - _DATA)
                }
    assert count > 150
    assert {text: min(a for a, t in found if t == text) for _, text in found} == {}
