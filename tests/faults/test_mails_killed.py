"""Mails beside everything else: a worker that dies between sending and recording, and a mail server that hangs."""

from __future__ import annotations

import signal
import socket
from contextlib import closing

from tests.conftest import MovableClock
from tests.faults.workers import WorkerProcess, services_of
from tests.support.eventually import eventually
from tests.support.example_client import ExampleClient
from tests.support.mail_server import PUBLIC_URL, SENDER, MailServer, mailing
from tests.support.money import a_client, request
from ussd_server.models.sending import Mail
from ussd_server.models.transactions import Transaction
from ussd_server.services.clients.messages import InvitePerson
from ussd_server.settings import Settings

ANN = "ann@acme.example"


def mail_settings(url: str) -> dict[str, str]:
    return {"USSD_SMTP_URL": url, "USSD_MAIL_FROM": SENDER, "USSD_PUBLIC_URL": PUBLIC_URL}


def test_a_worker_that_dies_after_sending_leaves_a_mail_that_the_next_one_sends_under_the_same_id(
    settings: Settings, clock: MovableClock, mail_server: MailServer
) -> None:
    more = mail_settings(mail_server.url)
    with services_of(mailing(settings, mail_server.url), clock) as services:
        client = ExampleClient(services)
        services.people.invite(InvitePerson(ANN, "viewer"), client.at_console())
        assert WorkerProcess(settings, **more, USSD_KILL_POINT="mail.sent").wait() == -signal.SIGKILL
        assert Mail.get().status == "waiting"
        worker = WorkerProcess(settings, **more)
        # It frees the lease of the silent worker long before the lease expires.
        eventually(lambda: Mail.get().status == "sent")
        assert worker.end(signal.SIGTERM) == 0
    first, second = mail_server.of(ANN)
    assert first["Message-ID"] == second["Message-ID"]


def test_a_mail_server_that_hangs_holds_up_no_payment(settings: Settings, clock: MovableClock) -> None:
    with closing(socket.create_server(("127.0.0.1", 0), backlog=10)) as silent:
        url = f"smtp://127.0.0.1:{silent.getsockname()[1]}"
        more = mail_settings(url)
        with services_of(mailing(settings, url), clock) as services:
            client = ExampleClient(services)
            call, key = client.at_console(), a_client()
            for number in range(5):
                services.people.invite(InvitePerson(f"p{number}@acme.example", "viewer"), call)
            worker = WorkerProcess(settings, **more)
            eventually(lambda: Mail.select().where(Mail.lease_token.is_null(False)).count() == 2)
            for number in range(3):
                services.transactions.create(request(reference=str(number)), key)
            eventually(lambda: not Transaction.select().where(Transaction.status != "succeeded").exists())
            assert Mail.select().where(Mail.status == "waiting").count() == 5
            silent.close()
            assert worker.end(signal.SIGTERM) == 0
