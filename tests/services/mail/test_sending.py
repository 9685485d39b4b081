"""Mails: sent once each, tried again for a day, given up and shown; and the links in them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.conftest import MovableClock
from tests.support.example_client import OPERATOR, PASSWORD, ExampleClient
from tests.support.mail_server import PUBLIC_URL, MailServer
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.models.clients import AuditEvent, Client, Login, User
from ussd_server.models.sending import Mail
from ussd_server.services.clients.messages import InvitePerson
from ussd_server.services.mail import outbox
from ussd_server.services.mail.messages import ListMails, MailStatus
from ussd_server.status import Code, ServiceError

Send = Callable[[], None]
ANN = "ann@acme.example"
NOBODY = RequestContext(Caller(CallerKind.NOBODY), address="192.0.2.7")
NEW_PASSWORD = "another good password"


@pytest.fixture
def client(services: Services) -> ExampleClient:
    return ExampleClient(services)


def invite(services: Services, client: ExampleClient, email: str = ANN, *, shows_link: bool = False) -> str | None:
    request = InvitePerson(email, "viewer", shows_link)
    return services.people.invite(request, client.at_console()).token


def link_in(mail_server: MailServer, recipient: str = ANN) -> str:
    (link,) = re.findall(rf"{re.escape(PUBLIC_URL)}/console/welcome/(\S+)", mail_server.of(recipient)[-1].get_content())
    return str(link)


def test_the_outbox_holds_no_link(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send
) -> None:
    invite(services, client)
    stored = str([row.__data__ for row in Mail.select()])
    send_mails()
    token = link_in(mail_server)
    assert token not in stored
    assert token.rpartition(".")[2] not in stored
    assert token not in str([row.__data__ for row in Mail.select()])


def test_a_mailed_link_changes_no_one_and_a_shown_one_adds_who_saw_it(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send
) -> None:
    choose = services.password_links.choose_password
    shown = invite(services, client, shows_link=True)
    ann = User.get(User.email == ANN)
    inviter = User.get(User.email == client.email()).id
    assert ann.link_seen_by == {inviter}
    services.password_links.request(ANN, NOBODY)
    send_mails()
    mailed = link_in(mail_server)
    assert services.password_links.email_of(str(shown)) == ANN
    choose(mailed, NEW_PASSWORD, NOBODY)
    assert User.get_by_id(ann.id).password_seen_by is None
    shown = services.people.new_link(ann.id, client.at_console(), shows_link=True).token
    choose(str(shown), NEW_PASSWORD, NOBODY)
    assert User.get_by_id(ann.id).password_seen_by == {inviter}
    services.people.new_link(ann.id, client.at_console())
    send_mails()
    choose(link_in(mail_server), NEW_PASSWORD, NOBODY)
    assert User.get_by_id(ann.id).password_seen_by == {inviter}, "a link by mail takes no one away"


def test_a_refused_invitation_leaves_no_mail(services: Services, client: ExampleClient) -> None:
    invite(services, client)
    with pytest.raises(ServiceError):
        invite(services, client)
    assert Mail.select().count() == 1


def test_a_link_that_was_replaced_is_not_mailed(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send
) -> None:
    invite(services, client)
    ann = User.get(User.email == ANN)
    services.people.new_link(ann.id, client.at_console())
    send_mails()
    (mail,) = mail_server.of(ANN)
    assert mail["Subject"] == "Choose a new password for acme"
    shown = services.mails.last_of_person(ann.id, client.at_console())
    assert shown is not None
    assert shown.status is MailStatus.SENT
    assert [row.trouble for row in Mail.select().order_by(Mail.id)] == ["ended", None]


def test_a_recipient_who_is_refused_for_good_is_not_tried_again_and_shown(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send, clock: MovableClock
) -> None:
    mail_server.refusals[ANN] = "550 No such user"
    invite(services, client)
    send_mails()
    clock.advance(7200)
    send_mails()
    (shown,) = services.mails.list(ListMails(MailStatus.FAILED), OPERATOR).items
    assert (shown.attempts, shown.trouble) == (1, "the mail server refused the recipient (550)")
    of_person = services.mails.last_of_person(User.get(User.email == ANN).id, client.at_console())
    assert of_person == shown


def test_a_server_that_is_away_is_tried_for_a_day(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send, clock: MovableClock
) -> None:
    mail_server.refusals[ANN] = "451 Busy"
    invite(services, client)
    for _ in range(23):
        send_mails()
        clock.advance(3601)
    mail_server.refusals.clear()
    send_mails()
    assert len(mail_server.of(ANN)) == 1
    invite(services, client, "ben@acme.example")
    mail_server.refusals["ben@acme.example"] = "451 Busy"
    for _ in range(26):
        send_mails()
        clock.advance(3601)
    row = Mail.get(Mail.recipient == "ben@acme.example")
    assert (row.status, row.due_at, row.trouble) == (MailStatus.FAILED, None, "later")


def test_a_mail_that_no_worker_could_send_within_a_day_is_given_up(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send, clock: MovableClock
) -> None:
    invite(services, client)
    clock.advance(86_401)
    send_mails()
    row = Mail.get()
    assert (mail_server.received, row.status, row.trouble) == ([], MailStatus.FAILED, "late")


def test_a_mail_whose_worker_died_before_it_recorded_is_sent_again_under_the_same_id(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send, clock: MovableClock
) -> None:
    def die(point: str) -> None:
        raise KeyboardInterrupt(point)

    invite(services, client)
    sender = services.mail_sender
    (mail_id,) = sender.claim(10)
    sender._at_kill_point = die
    with pytest.raises(KeyboardInterrupt):
        sender.send(mail_id)
    del sender._at_kill_point
    sender._at_kill_point = lambda _: None
    assert sender.claim(10) == []
    clock.advance(91)
    send_mails()
    first, second = mail_server.of(ANN)
    assert first["Message-ID"] == second["Message-ID"] == f"<{mail_id}@example.com>"
    assert Mail.get_by_id(mail_id).status == MailStatus.SENT


def test_a_forgotten_password_is_chosen_anew_by_mail_and_ends_other_logins(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send
) -> None:
    client.call("viewer")
    email = client.email("viewer")
    services.password_links.request(email.upper(), NOBODY)
    send_mails()
    assert "192.0.2.7" in mail_server.of(email)[0].get_content()
    token = link_in(mail_server, email)
    services.password_links.choose_password(token, NEW_PASSWORD, NOBODY)
    person = User.get(User.email == email)
    assert not Login.select().where(Login.user_id == person.id, Login.ended_at.is_null()).exists()
    assert (
        AuditEvent.select().where(AuditEvent.action == "user.link_mailed", AuditEvent.object_id == person.id).exists()
    )
    with pytest.raises(ServiceError):
        services.password_links.choose_password(token, PASSWORD, NOBODY)


def test_a_link_for_a_forgotten_password_works_for_an_hour(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send, clock: MovableClock
) -> None:
    services.password_links.request(client.email(), NOBODY)
    send_mails()
    clock.advance(3601)
    with pytest.raises(ServiceError) as refused:
        services.password_links.choose_password(link_in(mail_server, client.email()), NEW_PASSWORD, NOBODY)
    assert refused.value.code is Code.NOT_FOUND


def test_a_link_for_a_forgotten_password_that_has_ended_is_not_mailed(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send, clock: MovableClock
) -> None:
    for email in (client.email(), "nobody@acme.example"):
        services.password_links.request(email, NOBODY)
    clock.advance(3601)
    send_mails()
    assert mail_server.received == []
    assert [(row.recipient, row.status, row.trouble) for row in Mail.select()] == [
        (client.email(), MailStatus.FAILED, "late")
    ]


def test_a_forgotten_password_of_an_unknown_or_disabled_person_sends_and_leaves_nothing(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send
) -> None:
    User.update(is_active=False).where(User.email == client.email("viewer")).execute()
    for email in ("nobody@acme.example", client.email("viewer")):
        services.password_links.request(email, NOBODY)
    assert Mail.select().count() == 2
    send_mails()
    Client.update(is_active=False).execute()
    services.password_links.request(client.email(), NOBODY)
    send_mails()
    assert (mail_server.received, Mail.select().count()) == ([], 0)


def test_forgotten_passwords_are_limited_by_person_and_by_network(services: Services, client: ExampleClient) -> None:
    for number in range(5):
        services.password_links.request(client.email(), RequestContext(NOBODY.caller, address=f"192.0.{number}.1"))
    assert Mail.select().count() == 3
    for number in range(20):
        services.password_links.request(f"p{number}@acme.example", NOBODY)
    with pytest.raises(ServiceError) as refused:
        services.password_links.request("other@acme.example", NOBODY)
    assert refused.value.code is Code.RATE_LIMIT_EXCEEDED


def test_a_client_sends_a_bounded_number_of_links_in_an_hour(
    services: Services, client: ExampleClient, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_MOST_LINKS_OF_CLIENT_AN_HOUR", 2)
    invite(services, client, "one@acme.example")
    invite(services, client, "two@acme.example")
    with pytest.raises(ServiceError) as refused:
        invite(services, client, "three@acme.example")
    assert refused.value.code is Code.RATE_LIMIT_EXCEEDED
    assert User.get_or_none(User.email == "three@acme.example") is None
    clock.advance(3601)
    invite(services, client, "three@acme.example")


def test_one_person_is_sent_five_links_in_an_hour(
    services: Services, client: ExampleClient, clock: MovableClock
) -> None:
    invite(services, client)
    ann = User.get(User.email == ANN).id
    for _ in range(4):
        services.people.new_link(ann, client.at_console())
    changed_at = User.get_by_id(ann).updated_at
    with pytest.raises(ServiceError) as refused:
        services.people.new_link(ann, client.at_console())
    assert refused.value.code is Code.RATE_LIMIT_EXCEEDED
    assert (Mail.select().count(), User.get_by_id(ann).updated_at) == (5, changed_at)
    assert services.people.new_link(ann, client.at_console(), shows_link=True).token
    invite(services, client, "ben@acme.example")
    clock.advance(3601)
    services.people.new_link(ann, client.at_console())


def test_names_with_line_breaks_begin_no_header(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send
) -> None:
    Client.update(name="acme\r\nBcc: eve@evil.example\r\n\r\nPay here").execute()
    invite(services, client)
    send_mails()
    (mail,) = mail_server.of(ANN)
    assert mail["Bcc"] is None
    assert [recipient for recipient, _ in mail_server.received] == [ANN]
    assert mail["Subject"] == "You are invited to acme Bcc: eve@evil.example Pay here"


@pytest.mark.parametrize(
    "encoded", ["=?utf-8?q?=0D=0ABcc:_eve?=", "=?utf-8?b?DQpCY2M6IGV2ZQ==?=", "=?utf-8?q?=FF=E9?="]
)
def test_names_with_encoded_words_begin_no_header_and_are_sent(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send, encoded: str
) -> None:
    Client.update(name=f"=?acme?= {encoded} {encoded}").execute()
    invite(services, client)
    send_mails()
    (mail,) = mail_server.of(ANN)
    assert mail["Bcc"] is None
    assert mail["Subject"] == f"You are invited to =?acme?= {encoded} {encoded}".replace("=?", "= ?")
    assert encoded in mail.get_content()


def test_addresses_beyond_ascii_and_malformed_ones_are_given_up_at_once(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send
) -> None:
    for email in ("änn@acme.example", "ann@bücher.example", "a,b@acme.example"):
        invite(services, client, email)
    send_mails()
    assert [recipient for recipient, _ in mail_server.received] == ["ann@xn--bcher-kva.example"]
    troubles = {row.recipient: row.trouble for row in Mail.select()}
    assert troubles == {
        "änn@acme.example": "international",
        "ann@bücher.example": None,
        "a,b@acme.example": "malformed",
    }


def test_a_person_who_was_disabled_after_the_mail_was_written_gets_none(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send
) -> None:
    invite(services, client)
    services.people.set_active(User.get(User.email == ANN).id, False, client.at_console())
    send_mails()
    assert mail_server.received == []


def test_mails_are_kept_for_thirty_days(
    services: Services, client: ExampleClient, send_mails: Send, clock: MovableClock
) -> None:
    invite(services, client)
    send_mails()
    clock.advance(29 * 86_400)
    services.retention.clean()
    assert Mail.select().count() == 1
    clock.advance(2 * 86_400)
    services.retention.clean()
    assert Mail.select().count() == 0


def test_a_mail_server_can_be_tried(services: Services, mail_server: MailServer) -> None:
    assert services.mail_sender.test("ops@example.org").trouble is None
    assert mail_server.of("ops@example.org")[0]["Subject"] == "Test"
