"""`webhooks trigger` and `webhooks listen`: events for a program under development."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import output_of, run
from tests.services.webhooks.receivers import Receiver
from ussd_server.cli import open_services
from ussd_server.context import operator_context
from ussd_server.services.webhooks.messages import EVENT_TYPES, CreateWebhook

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"


def test_a_sample_of_every_event_is_sent_and_signed_without_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path / "nothing"))
    with Receiver() as receiver:
        for event_type in EVENT_TYPES:
            sent = output_of("webhooks", "trigger", event_type, "--to", receiver.url, "--secret", SECRET)
            assert (sent["type"], sent["status"]) == (event_type, 200)
        assert all(call.is_signed_with(SECRET) for call in receiver.calls)
        assert [json.loads(call.body)["type"] for call in receiver.calls] == list(EVENT_TYPES)
    assert list(tmp_path.iterdir()) == []


def test_without_a_secret_one_is_made_and_printed() -> None:
    with Receiver() as receiver:
        said = run("webhooks", "trigger", "webhook.test", "--to", receiver.url).stdout
        secret = said.split()[2]
        assert said.startswith("Signed with whsec_")
        assert receiver.calls[0].is_signed_with(secret)
        shown = output_of("webhooks", "trigger", "webhook.test", "--to", receiver.url)
        assert receiver.calls[1].is_signed_with(shown["secret"])


def test_what_the_program_refuses_or_misses_ends_with_one(tmp_path: Path) -> None:
    with Receiver(lambda _: 500) as receiver:
        refused = run("webhooks", "trigger", "webhook.test", "--to", receiver.url)
    assert (refused.exit_code, ": 500 in " in refused.stdout) == (1, True)
    away = run("webhooks", "trigger", "webhook.test", "--to", receiver.url)
    assert (away.exit_code, ": no connection in " in away.stdout) == (1, True)
    for words, said in (
        (("webhook.tset", "--to", receiver.url), "Did you mean webhook.test?"),
        (("webhook.test", "--to", "ftp://127.0.0.1/"), "must begin with https://"),
        (("webhook.test", "--to", "http://169.254.169.254/"), "may not be called"),
        (("webhook.test", "--to", receiver.url, "--secret", "whsec_%"), "A secret is whsec_ and Base64"),
        (("webhook.test",), "Missing option '--to'"),
    ):
        wrong = run("webhooks", "trigger", *words)
        assert (wrong.exit_code > 0, said in wrong.output) == (True, True), wrong.output


def test_the_events_of_a_client_are_passed_on(client_id: str) -> None:
    with open_services() as services:
        context = operator_context(client_id)
        made = services.webhooks.create(CreateWebhook("http://127.0.0.1:9999/", ("webhook.test",)), context)
        ids = [services.webhooks.test(made.id, context).id for _ in range(3)]
    with Receiver() as receiver:
        words = ("--client", "ACME", "--to", receiver.url, "--secret", SECRET, "--past", "--count", "3")
        said = run("webhooks", "listen", *words)
        assert said.exit_code == 0, said.output
        assert [call.headers["webhook-id"] for call in receiver.calls] == ids
        assert all(call.is_signed_with(SECRET) for call in receiver.calls)
        assert json.loads(receiver.calls[0].body)["data"] == {"webhook_id": made.id}
    assert said.stdout.count("200 in") == 3
