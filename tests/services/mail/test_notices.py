"""Mails about payouts, webhooks, keys and providers: their recipients, their limits, and kinds switched off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.conftest import MovableClock
from tests.services.clients.test_second_factors import Authenticator
from tests.support.crowd import at_once, refusals
from tests.support.example_client import OPERATOR, PASSWORD, ExampleClient
from tests.support.mail_server import PUBLIC_URL, MailServer
from tests.support.money import deposit
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.models.clients import User
from ussd_server.models.operators import Operator
from ussd_server.models.providers import ProviderAccount
from ussd_server.models.sending import Event, Mail, Webhook
from ussd_server.services.bank.messages import StateBankAccount
from ussd_server.services.clients.keys.messages import CreateApiKey, UpdateApiKey
from ussd_server.services.mail import outbox
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import MailOutbox
from ussd_server.services.mail.texts import TEXTS
from ussd_server.services.operators.messages import CreateOperator
from ussd_server.services.payouts.messages import ApprovePayout, CancelPayout, CreatePayout
from ussd_server.services.providers.floats import FloatService
from ussd_server.services.providers.messages import ProviderStatus
from ussd_server.services.roles import PAGE_PERMISSIONS
from ussd_server.services.webhooks.messages import CreateWebhook
from ussd_server.services.webhooks.subscriptions import switch_off

Send = Callable[[], None]


@pytest.fixture
def client(services: Services) -> ExampleClient:
    """A client with a person of each role."""
    client = ExampleClient(services)
    for role in PAGE_PERMISSIONS:
        client.email(role)
    return client


def draft(services: Services, client: ExampleClient, role: str = "developer", reference: str = "salaries") -> str:
    rows = ({"phone_number": "+256770000000", "amount": 5000, "reference": "row-1"},)
    request = CreatePayout(reference, None, rows)
    return services.payouts.create(request, client.at_console(role)).payout.payout_id


def recipients(kind: MailKind) -> list[str]:
    return sorted(row.recipient for row in Mail.select().where(Mail.kind == kind))


def test_approvers_learn_of_a_payout_that_waits_and_its_maker_does_not(
    services: Services, client: ExampleClient, mail_server: MailServer, send_mails: Send
) -> None:
    payout_id = draft(services, client, "admin")
    send_mails()
    (owner_mail,) = mail_server.received
    assert owner_mail[0] == "owner@acme.example"
    assert owner_mail[1]["Subject"] == "Payout salaries waits for approval"
    text = owner_mail[1].get_content()
    assert "Rows: 1; amount: UGX 5,000." in text
    assert f"{PUBLIC_URL}/console/payouts/{payout_id}" in text
    assert f"{PUBLIC_URL}/console/notifications" in text


def test_who_counts_as_one_person_with_the_maker_is_not_asked(services: Services, client: ExampleClient) -> None:
    maker = User.get(User.email == client.email("developer")).id
    User.update(password_seen_by={maker}, password_hash="of a link").where(
        User.email == client.email("admin")
    ).execute()
    draft(services, client)
    assert recipients(MailKind.NEEDS_APPROVAL) == ["owner@acme.example"]


def test_people_who_may_approve_are_asked_to_approve() -> None:
    may = {role for role, grants in PAGE_PERMISSIONS.items() if "payouts:approve" in grants}
    assert set(TEXTS[MailKind.NEEDS_APPROVAL].roles) == may
    assert {kind for kind, text in TEXTS.items() if bool(text.roles) is not text.is_optional} == {
        MailKind.KEY_ADDRESS_REFUSED,
        MailKind.MENU_SENDS_NO_MONEY,
        MailKind.BANK_ACCOUNT_CHANGED,
        MailKind.ACCOUNT_CORRECTED,
    }


def test_the_end_of_a_payout_is_mailed(services: Services, client: ExampleClient) -> None:
    payout_id = draft(services, client)
    deposit(services, client.at_console(), 100_000)
    services.payouts.approve(ApprovePayout(payout_id), client.at_console())
    services.payouts.cancel(CancelPayout(payout_id), client.at_console())
    assert recipients(MailKind.PAYOUT_COMPLETED) == [
        "admin@acme.example",
        "developer@acme.example",
        "owner@acme.example",
    ]


def test_a_payout_that_needs_money_is_mailed_once(
    services: Services, client: ExampleClient, clock: MovableClock, mail_server: MailServer, send_mails: Send
) -> None:
    rows = ({"phone_number": "+256770000000", "amount": 5000, "reference": "row-1"},)
    order = CreatePayout("salaries", None, rows, send_at=clock.now() + timedelta(days=2))
    payout_id = services.payouts.create(order, client.at_console("developer")).payout.payout_id
    services.payouts.approve(ApprovePayout(payout_id), client.at_console())
    clock.advance(2 * 86_400)
    for _ in range(2):
        for claimed in services.payout_sender.claim(5):
            services.payout_sender.advance(claimed)
        clock.advance(60)
    assert recipients(MailKind.NEEDS_MONEY) == ["admin@acme.example", "developer@acme.example", "owner@acme.example"]
    send_mails()
    text = next(mail for _, mail in mail_server.received if mail["Subject"] == "Payout salaries needs money")
    assert "Its rows (1) cost UGX 5,000 with their fees" in " ".join(text.get_content().split())


def test_a_kind_that_a_person_switched_off_is_not_written(services: Services, client: ExampleClient) -> None:
    owner = client.at_console("owner")
    mails = services.mails
    assert all(choice.is_wanted for choice in mails.choices(owner))
    mails.choose([kind for kind in TEXTS if kind is not MailKind.NEEDS_APPROVAL], owner)
    draft(services, client)
    assert recipients(MailKind.NEEDS_APPROVAL) == ["admin@acme.example"]
    mails.choose(list(TEXTS), owner)
    assert all(choice.is_wanted for choice in mails.choices(owner))
    assert mails.choices(client.at_console("viewer")) == ()


def test_a_webhook_that_fails_for_an_hour_and_one_that_is_switched_off_are_mailed_once(
    services: Services, client: ExampleClient, clock: MovableClock
) -> None:
    request = CreateWebhook("https://acme.example/hook", None)
    services.webhooks.create(request, client.at_console())
    Webhook.update(failing_since=clock.now()).execute()
    clock.advance(3599)
    services.mail_reminders.write()
    assert recipients(MailKind.WEBHOOK_FAILING) == []
    clock.advance(2)
    for _ in range(3):
        services.mail_reminders.write()
        clock.advance(600)
    assert len(recipients(MailKind.WEBHOOK_FAILING)) == 3
    switch_off(Webhook.get(), "It answered 410 Gone", services.runtime.mail_outbox, clock.now())
    assert len(recipients(MailKind.WEBHOOK_DISABLED)) == 3


def test_a_key_that_expires_is_mailed_and_reported_seven_days_and_one_day_before(
    services: Services, client: ExampleClient, clock: MovableClock
) -> None:
    call = client.call()
    ends = {days: clock.now() + timedelta(days=days) for days in (3, 10)}
    keys = {days: services.api_keys.create(CreateApiKey(None, ends[days]), call) for days in ends}
    counts = {}
    for hour in range(24 * 10 + 1):
        services.key_notices.write_expiring()
        counts[hour] = Mail.select().where(Mail.recipient == "owner@acme.example").count()
        clock.advance(3600)
    assert [counts[hour] for hour in (24, 48, 72, 200, 215, 216, 240)] == [0, 1, 2, 2, 2, 3, 3]
    texts = [row.parameters["key"] for row in Mail.select().where(Mail.recipient == "owner@acme.example")]
    assert sorted(texts) == sorted([keys[3].apikey, keys[10].apikey, keys[10].apikey])
    reported = Event.select().where(Event.type == "api_key.expiring").order_by(Event.id)
    assert [(event.object_id, event.payload["days_left"]) for event in reported] == [
        (keys[3].id, 1),
        (keys[10].id, 7),
        (keys[10].id, 1),
    ]


@pytest.mark.both_databases
def test_an_expiry_that_is_changed_is_reported_again_and_two_workers_report_it_once(
    services: Services, client: ExampleClient, clock: MovableClock
) -> None:
    call = client.call()
    key = services.api_keys.create(CreateApiKey(None, clock.now() + timedelta(days=8), "Till 4"), call)
    clock.advance(2 * 86_400)
    for _ in range(2):
        assert refusals(at_once([services.key_notices.write_expiring] * 4, threads=4)) == []
        changed = UpdateApiKey(key.id, expires_at=clock.now() + timedelta(days=5))
        services.api_keys.update(changed, client.call())
    assert [event.payload["name"] for event in Event.select().where(Event.type == "api_key.expiring")] == ["Till 4"] * 2
    assert len(recipients(MailKind.KEY_EXPIRES)) == 2 * len({row.recipient for row in Mail.select()})


def test_another_bank_account_is_mailed_to_owners_whatever_they_chose_and_hides_no_invitation(
    services: Services, client: ExampleClient
) -> None:
    owner = client.at_console("owner")
    services.mails.choose([], owner)
    services.bank_accounts.state(StateBankAccount("Stanbic", "9030001234567", "ACME Ltd"), owner)
    assert recipients(MailKind.BANK_ACCOUNT_CHANGED) == ["owner@acme.example"]
    assert services.mails.last_of_person(owner.caller.user_id or "", owner) is None


def notify(services: Services, client: ExampleClient, clock: MovableClock, occasion: str) -> None:
    outbox = services.runtime.mail_outbox
    outbox.notify_people(MailKind.NEEDS_APPROVAL, client.id, {}, clock.now(), occasion=occasion)


def test_the_notices_of_a_client_beyond_an_hours_number_are_put_off_and_none_is_left_out(
    services: Services, client: ExampleClient, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_MOST_NOTICES_AN_HOUR", 4)
    began = clock.now()
    for number in range(3):
        notify(services, client, clock, f"first {number}")
    clock.advance(1800)
    notify(services, client, clock, "second")
    notify(services, client, clock, "third")
    hours = [round((row.due_at - began).total_seconds() / 3600, 1) for row in Mail.select().order_by(Mail.id)]
    assert hours == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert all(row.give_up_at - row.due_at == outbox.PATIENCE for row in Mail.select())


def test_mails_about_a_clients_safety_and_links_wait_for_no_notice(
    services: Services, client: ExampleClient, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_MOST_NOTICES_AN_HOUR", 4)
    monkeypatch.setattr(outbox, "_MOST_LINKS_OF_CLIENT_AN_HOUR", 4)
    for number in range(10):
        notify(services, client, clock, str(number))
    services.bank_accounts.state(StateBankAccount("Stanbic", "9030001234567", "ACME Ltd"), client.at_console("owner"))
    (mail,) = Mail.select().where(Mail.kind == MailKind.BANK_ACCOUNT_CHANGED)
    assert mail.due_at <= clock.now()
    services.runtime.mail_outbox.refuse_too_many(User.get(User.email == client.email("viewer")), clock.now())


def test_a_mail_that_is_put_off_is_not_late(
    services: Services, client: ExampleClient, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_MOST_NOTICES_AN_HOUR", 2)
    for number in range(2):
        notify(services, client, clock, str(number))
    gauges = {measure.name: measure.value for measure in services.gauges.read()}
    assert gauges["ussd_mails_waiting"] == 2


def test_operators_learn_of_a_low_float_once(services: Services, clock: MovableClock) -> None:
    services.operators.create(CreateOperator("ops@ops.example", PASSWORD), OPERATOR)
    floats = FloatService(other_runtime(services, float_alert_shillings=10**13))
    for _ in range(3):
        floats.query()
        clock.advance(61)
    assert recipients(MailKind.FLOAT_LOW) == ["ops@ops.example"]


def test_operators_learn_that_a_provider_is_away_and_that_it_is_back(
    services: Services, clock: MovableClock, monkeypatch: pytest.MonkeyPatch, mail_server: MailServer, send_mails: Send
) -> None:
    services.operators.create(CreateOperator("ops@ops.example", PASSWORD), OPERATOR)
    services.floats.query()
    states, watch = services.provider_states, services.outage_watch
    (state,) = states.list(OPERATOR)
    watch.look()
    assert ProviderAccount.get().away_since is None
    away = replace(state, status=ProviderStatus.UNAVAILABLE, message="It does not answer our calls.")
    for shown in (away, away, state, away, state):
        monkeypatch.setattr(states, "list", lambda _, shown=shown: (shown,))
        watch.look()
    send_mails()
    assert sorted(mail["Subject"] for mail in mail_server.of("ops@ops.example")) == [
        f"{state.name} answers again",
        f"{state.name} does not answer",
    ]
    assert ProviderAccount.get().away_since is None
    monkeypatch.undo()
    changes = [change.action for change in states.changes(OPERATOR)]
    assert changes.count("provider.away") == changes.count("provider.back") == 2


def test_the_removal_of_a_second_factor_is_mailed_to_its_owner(
    services: Services, client: ExampleClient, clock: MovableClock, mail_server: MailServer, send_mails: Send
) -> None:
    services.operators.create(CreateOperator("ops@ops.example", PASSWORD), OPERATOR)
    services.operators.reset_factor("ops@ops.example", OPERATOR)
    viewer = client.at_console("viewer")
    Authenticator(services, clock, viewer)
    services.second_factors.remove(viewer.caller.user_id, client.at_console())
    send_mails()
    (of_operator,), (of_viewer,) = (mail_server.of(each) for each in ("ops@ops.example", client.email("viewer")))
    assert "a command at the server" in of_operator.get_content()
    assert "your account at acme was removed or replaced by owner@acme.example" in of_viewer.get_content()
    assert "/notifications" not in of_viewer.get_content()


def test_the_replacement_of_a_second_factor_is_mailed_to_its_owner_and_the_first_one_is_not(
    services: Services, client: ExampleClient, clock: MovableClock, mail_server: MailServer, send_mails: Send
) -> None:
    viewer = client.at_console("viewer")
    Authenticator(services, clock, viewer)
    send_mails()
    assert mail_server.received == []
    Authenticator(services, clock, viewer)
    send_mails()
    (mail,) = mail_server.of(client.email("viewer"))
    assert f"was removed or replaced by {client.email('viewer')}" in mail.get_content()


def test_an_operator_who_is_disabled_or_wants_none_gets_none(services: Services, clock: MovableClock) -> None:
    for name in ("ann", "ben"):
        services.operators.create(CreateOperator(f"{name}@ops.example", PASSWORD), OPERATOR)
    ann = Operator.get(Operator.email == "ann@ops.example")
    caller = replace(OPERATOR.caller, user_id=ann.id, operator=ann.email)
    services.mails.choose([MailKind.PROVIDER_AWAY], replace(OPERATOR, caller=caller))
    services.operators.set_active("ben@ops.example", False, OPERATOR)
    FloatService(other_runtime(services, float_alert_shillings=10**13)).query()
    assert Mail.select().count() == 0


def test_an_application_without_a_mail_server_beside_one_with_it_writes_nothing(
    services: Services, client: ExampleClient
) -> None:
    draft(Services(other_runtime(services, mail_outbox=MailOutbox(False))), client)
    assert Mail.select().count() == 0
    draft(services, client, reference="wages")
    assert Mail.select().count() > 0
