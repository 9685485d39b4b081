"""Invitations by mail, forgotten passwords, and what people choose to receive."""

from __future__ import annotations

import re
from html import unescape

import pytest
from flask import Flask

from tests.console.conftest import ConsoleVisitor, Operators, Visit
from tests.support.example_client import PASSWORD, ExampleClient
from tests.support.mail_server import PUBLIC_URL, MailServer, mailing
from ussd_server.bootstrap import Services
from ussd_server.models.sending import Mail, UnwantedMail
from ussd_server.services.mail.messages import MailKind
from ussd_server.settings import Settings

ANN = "ann@acme.example"
ON_ITS_WAY = "If the address is known, a link is on its way."


@pytest.fixture
def settings(settings: Settings, mail_server: MailServer) -> Settings:
    return mailing(settings, mail_server.url)


@pytest.fixture
def stranger(app: Flask) -> ConsoleVisitor:
    return ConsoleVisitor(app.test_client())


def send_mails(services: Services) -> None:
    for mail_id in services.mail_sender.claim(10):
        services.mail_sender.send(mail_id)


def link_to(server: MailServer, recipient: str) -> str:
    text = server.of(recipient)[-1].get_content()
    (path,) = re.findall(rf"{re.escape(PUBLIC_URL)}/console(/welcome/\S+)", text)
    return str(path)


def test_an_invited_person_gets_the_link_and_the_inviter_does_not(
    visit: Visit, stranger: ConsoleVisitor, services: Services, mail_server: MailServer
) -> None:
    owner = visit()
    assert "The person gets a link by mail" in owner.get("/people/invite").text
    reply = owner.post("/people/invite", email=ANN, role="viewer")
    assert reply.status_code == 303
    person = reply.location.removeprefix("/console")
    shown = owner.get(person).text
    assert f"A link is on its way to {ANN}" in shown
    assert "The mail with the link is on its way." in shown
    assert "/welcome/" not in shown
    send_mails(services)
    assert "The mail with the link" not in owner.get(person).text
    path = link_to(mail_server, ANN)
    stranger.get(path)
    assert stranger.post(path, password=PASSWORD, password_again=PASSWORD).location == "/console/sign-in"
    assert stranger.sign_in(ANN).status_code == 303


def test_an_inviter_who_wants_to_see_the_link_is_warned_and_sees_it(visit: Visit) -> None:
    owner = visit()
    page = owner.post("/people/invite", email=ANN, role="viewer", shows_link="1").text
    assert f'data-copy="{PUBLIC_URL}/console/welcome/' in page
    assert "count as one person" in page
    assert Mail.select().count() == 0


def test_a_link_that_is_shown_never_takes_its_host_from_the_request(
    visit: Visit, example_client: ExampleClient
) -> None:
    owner = visit()
    owner.web.environ_base["HTTP_HOST"] = "evil.example"
    owner.sign_in(example_client.email())
    page = owner.post("/people/invite", email=ANN, role="viewer", shows_link="1").text
    assert f"{PUBLIC_URL}/console/welcome/" in page
    assert "evil.example" not in page


def test_an_inviter_sees_that_a_mail_could_not_be_sent(
    visit: Visit, services: Services, mail_server: MailServer, operator: Operators
) -> None:
    mail_server.refusals[ANN] = "550 <b>No such user</b> at /etc/passwd"
    owner = visit()
    person = owner.post("/people/invite", email=ANN, role="viewer").location.removeprefix("/console")
    send_mails(services)
    assert "could not be sent: the mail server refused the recipient (550)" in owner.get(person).text
    ops = operator("ann")
    listed = ops.get("/operator/mails?status=failed").text
    assert ANN in listed
    assert "the mail server refused the recipient (550)" in listed
    assert "No such user" not in listed
    assert ops.get("/operator/mails?status=sent&format=json").json["items"] == []
    assert owner.get("/operator/mails").status_code == 404


def test_a_forgotten_password_has_the_same_reply_for_every_address(
    stranger: ConsoleVisitor, services: Services, example_client: ExampleClient, mail_server: MailServer
) -> None:
    email = example_client.email()
    assert "Forgot your password?" in stranger.get("/sign-in").text
    replies = []
    for given in (email, "nobody@acme.example"):
        stranger.get("/forgotten-password")
        reply = stranger.post("/forgotten-password", email=given)
        replies.append((reply.status_code, reply.location, ON_ITS_WAY in stranger.get("/sign-in").text))
    assert replies == [(303, "/console/sign-in", True)] * 2
    assert Mail.select().count() == 2
    send_mails(services)
    assert [recipient for recipient, _ in mail_server.received] == [email]
    path = link_to(mail_server, email)
    stranger.get(path)
    stranger.post(path, password="another password", password_again="another password")
    assert stranger.sign_in(email, "another password").status_code == 303
    stranger.get("/forgotten-password")
    malformed = stranger.post("/forgotten-password", email="<script>")
    assert malformed.status_code == 400
    assert "<script>" not in malformed.text
    stale = stranger.web.post("/console/forgotten-password", data={"email": email})
    assert (stale.status_code, "too old" in unescape(stale.text)) == (400, True)


def test_a_person_chooses_what_to_receive(visit: Visit, operator: Operators) -> None:
    owner = visit()
    page = owner.get("/notifications").text
    assert page.count(" checked") == 8
    assert "The float at a provider is low" not in page
    kept = [MailKind.NEEDS_APPROVAL.value, MailKind.PAYOUT_COMPLETED.value]
    assert owner.post("/notifications", wanted=[*kept, "person.invited", "nonsense"]).status_code == 303
    assert owner.get("/notifications").text.count(" checked") == 2
    assert visit("admin").get("/notifications").text.count(" checked") == 8
    assert {row.kind for row in UnwantedMail.select()} <= {kind.value for kind in MailKind}
    assert "no mails that can be switched off" in visit("viewer").get("/notifications").text
    ops = operator("ben")
    assert ops.get("/operator/notifications").text.count(" checked") == 3
    assert ops.post("/operator/notifications").status_code == 303
    assert ops.get("/operator/notifications").text.count(" checked") == 0
    assert ops.get("/notifications").status_code == 404


def test_without_a_mail_server_the_pages_say_what_that_means(
    visit: Visit, stranger: ConsoleVisitor, operator: Operators, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services.runtime.mail_outbox, "is_on", False)
    owner = visit()
    assert "counts as the same person" in owner.get("/people/invite").text
    assert 'data-copy="' in owner.post("/people/invite", email=ANN, role="viewer").text
    assert "This server sends no mail." in owner.get("/notifications").text
    assert "makes a link for you" in stranger.get("/sign-in").text
    assert stranger.get("/forgotten-password").status_code == 404
    assert stranger.post("/forgotten-password", email=ANN).status_code == 404
    assert "USSD_SMTP_URL is not set" in operator("ann").get("/operator/mails").text
