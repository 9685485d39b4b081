"""The console, mails and sentences about payments in other languages."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from babel.messages import Catalog
from flask import Flask

from tests.console.conftest import ConsoleVisitor, Operators, Visit
from tests.documents import texts
from tests.support.example_client import ExampleClient
from tests.support.mail_server import MailServer, mailing
from tests.support.money import request
from ussd_server.bootstrap import Services
from ussd_server.console.formats import translated
from ussd_server.context import operator_context
from ussd_server.languages import ENGLISH, current_language, gettext, language_of, languages
from ussd_server.models.clients import User
from ussd_server.services.transactions.messages import CreateDeposit
from ussd_server.settings import Settings

OTHERS = sorted(set(languages()) - {ENGLISH})
# Names that are filled in, markup, addresses and commands: a translation has them as the text does.
FIXED = re.compile(r"%\(\w+\)s|\{\w+\}|%(?!\()|</?\w+>|https?://\S+|USSD_\w+|ussd-server [a-z]+")
# English that stands on every page, on most, or above every list.
LANDMARKS = (
    "Sign out", "Overview", "Transactions", "Payouts", "Security", "Skip to the content", "newest first", "Filter",
    "Times are in Kampala", "Save", "Client:", "Reason", "Amount", "Settlements",
)  # fmt: skip


@pytest.fixture
def settings(settings: Settings, mail_server: MailServer) -> Settings:
    return mailing(settings, mail_server.url)


@pytest.fixture(scope="module")
def template() -> Catalog:
    return texts.template()


def shown(page: str) -> str:
    """What a person reads on a page, labels of fields and buttons included."""
    labels = re.findall(r'(?:aria-label|placeholder|data-title|title)="([^"]*)"', page)
    return unescape(re.sub(r"<(script|style|pre|code|bdi)\b.*?</\1>|<[^>]*>", " ", page, flags=re.S)) + " ".join(labels)


@pytest.mark.parametrize("language", OTHERS)
def test_a_catalog_translates_every_text_of_the_program(language: str, template: Catalog) -> None:
    catalog = texts.catalog_of(language)
    translated = {message.id for message in catalog if texts.is_translated(message.string)}
    missing = [message.id for message in template if message.id and message.id not in translated]
    assert missing == [], f"Run scripts/translate, then translate these in {texts.path_of(language)}: {missing}"


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_has_the_names_the_markup_and_the_commands_of_its_text(language: str) -> None:
    def forms(text: str | tuple[str, ...]) -> tuple[str, ...]:
        return (text,) if isinstance(text, str) else text

    differing = [
        (text, translation)
        for message in texts.catalog_of(language)
        for text in forms(message.id)
        for translation in forms(message.string)
        if text and sorted(FIXED.findall(text)) != sorted(FIXED.findall(translation))
    ]
    assert differing == []


def test_every_page_without_variables_is_in_the_language_of_its_person(
    app: Flask, visit: Visit, operator: Operators
) -> None:
    rules = [rule for rule in app.url_map.iter_rules() if rule.endpoint.startswith("console.") and not rule.arguments]
    for visitor, is_operator in ((visit("owner"), False), (operator("ann"), True)):
        assert visitor.post("/language", language="lg").status_code == 303
        pages = [
            rule.rule.removeprefix("/console")
            for rule in rules
            if "GET" in (rule.methods or ()) and ("/operator" in rule.rule) is is_operator
        ]
        replies = {path: visitor.get(path) for path in pages}
        seen = {
            path: reply.text for path, reply in replies.items() if reply.status_code == 200 and "</html>" in reply.text
        }
        assert len(seen) > 15
        for path, page in seen.items():
            assert '<html lang="lg"' in page, path
            assert [word for word in LANDMARKS if re.search(rf"\b{word}", shown(page))] == [], path


def test_a_language_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sw" / "LC_MESSAGES" / "messages.po"
    file.parent.mkdir(parents=True)
    file.write_text('msgid "Save"\nmsgstr "Hifadhi"\n', encoding="utf-8")
    monkeypatch.setattr("ussd_server.languages.FOLDER", tmp_path)
    languages.cache_clear()
    try:
        with language_of("sw"):
            assert languages() == {"en": "English", "sw": "Kiswahili"}
            assert (gettext("Save"), gettext("Sign out"), gettext("")) == ("Hifadhi", "Sign out", "")
    finally:
        languages.cache_clear()


def test_a_persons_choice_is_theirs_in_every_browser(visit: Visit, app: Flask, example_client: ExampleClient) -> None:
    visit("owner").post("/language", language="lg")
    elsewhere = ConsoleVisitor(app.test_client())
    assert "Sign in" in elsewhere.get("/sign-in").text
    elsewhere.sign_in(example_client.email("owner"))
    assert "Fuluma wonna" in elsewhere.get("").text
    assert "Sign out" in visit("viewer").get("").text


def test_before_a_sign_in_the_browser_decides(app: Flask) -> None:
    stranger = ConsoleVisitor(app.test_client())
    assert "Yingira" in stranger.get("/sign-in", headers={"Accept-Language": "lg, en;q=0.5"}).text
    assert "Sign in" in stranger.get("/sign-in", headers={"Accept-Language": "tlh"}).text
    reply = stranger.web.post(
        "/console/language",
        data={"csrf_token": stranger.token, "language": "lg"},
        headers={"Referer": "http://localhost/console/sign-in?next=/console/menus"},
    )
    assert (reply.status_code, reply.location) == (303, "/console/sign-in?next=/console/menus")
    assert "Yingira" in stranger.get("/sign-in").text


@pytest.mark.parametrize("referer", ["", "http://evil.example//evil", "http://localhost/console/people/1/role"])
def test_after_a_choice_follows_a_page_of_the_console(app: Flask, referer: str) -> None:
    stranger = ConsoleVisitor(app.test_client())
    stranger.get("/sign-in")
    data = {"csrf_token": stranger.token, "language": "lg"}
    reply = stranger.web.post("/console/language", data=data, headers={"Referer": referer})
    assert (reply.status_code, reply.location) == (303, "/console")


def test_a_status_that_a_template_names_is_in_the_language_of_each_reader(app: Flask) -> None:
    badge = app.jinja_env.from_string('{{ "low" | status }}, {{ "yes" | translated }}')
    assert ">low</span>, yes" in badge.render()
    with language_of("lg"):
        assert ">ntono</span>, yee" in badge.render()


def test_an_unknown_language_changes_nothing(visit: Visit, example_client: ExampleClient) -> None:
    visitor = visit("owner")
    assert visitor.post("/language", language="tlh").status_code == 400
    assert User.get(User.email == example_client.email("owner")).language is None


def test_a_sentence_about_a_payment_is_in_the_readers_language_on_a_page_and_in_english_in_the_api(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    wanted = CreateDeposit(example_client.id, 500_000, "float-1")
    made = services.deposits.create(wanted, operator_context()).transaction
    visitor = visit("owner")
    visitor.post("/language", language="lg")
    page = visitor.get(f"/transactions/{made.transaction_id}").text
    assert "Omuddukanyi yateeka UGX 5,000 ku akawunti enkulu" in page
    assert current_language() == ENGLISH


def test_the_reason_of_a_failure_in_a_list_and_the_texts_of_scripts_are_in_the_readers_language(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    services.transactions.create(request(number="+256770000002"), operator_context(example_client.id))
    for claimed in services.processing.claim(9):
        services.processing.advance(claimed)
    visitor = visit("owner")
    visitor.post("/language", language="lg")
    page = unescape(visitor.get("/transactions").text)
    with language_of("lg"):
        assert gettext("The payer declined the payment") in page
        assert f'data-copied="{gettext("Copied")}"' in page
        assert gettext("Copied") != "Copied"


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (
            "No row of the payout may be retried: row E-1: not before 2026-11-30T20:21:59.000Z",
            "Tewali lunyiriri lwa lukalala luno luyinza kuddibwamu: "
            "olunyiriri E-1: si nga 30 Nov 2026, 23:21:59 tekunnatuuka",
        ),
        (
            "The provider mtn is switched off: Repairs. Nothing was recorded; retry with the same reference",
            "Kkampuni mtn eggyiddwako: Repairs. Tewali kiwandiikiddwa; ddamu n'ekijuliro kye kimu",
        ),
    ],
)
def test_what_a_refusal_names_is_in_the_readers_language_too(refusal: str, told: str) -> None:
    with language_of("lg"):
        assert translated(refusal) == told


def test_a_mail_is_in_the_language_of_its_reader(
    visit: Visit, services: Services, mail_server: MailServer, example_client: ExampleClient
) -> None:
    reader, owner = example_client.email("viewer"), visit("owner")
    visit("viewer").post("/language", language="lg")
    person = User.get(User.email == reader)
    assert owner.post(f"/people/{person.id}/link").status_code == 303
    for mail_id in services.mail_sender.claim(10):
        services.mail_sender.send(mail_id)
    mail = mail_server.of(reader)[-1]
    assert mail["Subject"] == "Londa ekigambo ky'okuyingira ekipya ekya acme"
    assert "Linki ekola omulundi gumu" in mail.get_content()
