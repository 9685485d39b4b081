"""A client moves to another installation with everything it has, once, and is nowhere else afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.conftest import MovableClock
from tests.services.payouts.desk import code_of, row
from tests.support.books import check_everything
from tests.support.money import agree_fee, deposit, operator, request, work
from tests.support.shop import PHONE, Shop
from ussd_server.bootstrap import Services, build_services
from ussd_server.context import RequestContext
from ussd_server.database.schema_differences import schema_differences
from ussd_server.database.tables import Table
from ussd_server.database.unit_of_work import close_connections
from ussd_server.gateways.messages import GatewayRequest
from ussd_server.models.clients import AuditEvent
from ussd_server.services.accounts.messages import FeeTerms, GetStatement
from ussd_server.services.clients.keys.messages import CreateApiKey
from ussd_server.services.clients.messages import CreateUser
from ussd_server.services.clients.moved_rows import TABLES
from ussd_server.services.clients.moves import moved_client
from ussd_server.services.payouts.messages import ApprovePayout, CreatePayout
from ussd_server.services.transactions.messages import CreateRefund, GetTransaction, TransactionType
from ussd_server.services.ussd.messages import BeginSession
from ussd_server.settings import Settings
from ussd_server.status import Code, ServiceError

_PASSWORD = "a long enough password"


@contextmanager
def installation(settings: Settings, clock: MovableClock, url: str) -> Iterator[Services]:
    """The services of another installation with the same master keys, alone in this process."""
    close_connections()
    services = build_services(replace(settings, database_url=url), clock)
    try:
        yield services
    finally:
        services.close()
        close_connections()


@pytest.fixture
def elsewhere(tmp_path: Path, migrated_sqlite: Path) -> str:
    """The database of another installation."""
    shutil.copy(migrated_sqlite, tmp_path / "elsewhere.db")
    return f"sqlite:///{tmp_path}/elsewhere.db"


def a_busy_client(services: Services, clock: MovableClock) -> tuple[Shop, str, str]:
    """A client with money, people, a menu and a past, of which nothing is under way; and its key and secret."""
    shop = Shop(services)
    services.clients.create_user(CreateUser(shop.client_id, "owner@acme.example", "owner", _PASSWORD), operator())
    key = services.api_keys.create(CreateApiKey(None), shop.call)
    call = services_call(services, key.apikey, key.apisecret)
    agree_fee(FeeTerms(shop.client_id, TransactionType.DISBURSEMENT, 5_000, 0))
    deposit(services, call, 100_000)
    sale = services.transactions.create(request(reference="sale", idempotency_key="once"), call)
    for number in ("00", "01"):
        services.transactions.create(request("disbursement", f"+2567700000{number}", 1000), call)
    work(services, clock, 3)
    services.refunds.create(CreateRefund(sale.transaction.transaction_id, "back", 1_000_00), call)
    rows = (row("a"), row("b", "+256770000001"))
    made = services.payouts.create(CreatePayout("wages", items=rows), call).payout
    approver = services.api_keys.create(CreateApiKey(("payouts:*",)), operator_call(shop.client_id))
    services.payouts.approve(
        ApprovePayout(made.payout_id), services_call(services, approver.apikey, approver.apisecret)
    )
    for _ in range(8):
        for claimed in services.payout_sender.claim(5):
            services.payout_sender.advance(claimed)
        work(services, clock, 1)
    session = services.api_sessions.begin(BeginSession(PHONE, shop.code), call)
    services.api_sessions.end(session.session_id, call)
    # The service writes what is over for good into its digests.
    clock.advance(3 * 86_400)
    services.history_digests.write()
    services.relay.run()
    return shop, key.apikey, key.apisecret


def services_call(services: Services, apikey: str, apisecret: str) -> RequestContext:
    """A call with a key, as it is authenticated."""
    return RequestContext(services.auth.authenticate_key(apikey, apisecret, "192.0.2.1").caller)


def operator_call(client_id: str) -> RequestContext:
    """The operator on behalf of a client."""
    return replace(operator(), caller=replace(operator().caller, client_id=client_id))


def test_a_client_moves_with_its_keys_menus_balances_and_history_and_goes_on(
    services: Services, settings: Settings, clock: MovableClock, elsewhere: str
) -> None:
    """From a database file to each database."""
    with installation(settings, clock, elsewhere) as old:
        shop, apikey, apisecret = a_busy_client(old, clock)
        call = services_call(old, apikey, apisecret)
        statement = old.statements.get(GetStatement(), call)
        balance = old.balances.get(None, call)
        assert code_of(lambda: old.client_moves.export(shop.client_id, operator())) is Code.INVALID_REQUEST
        old.clients.set_active(shop.client_id, False, operator(), "moves")
        lines = list(old.client_moves.export(shop.client_id, operator()))
        exported = moved_client(shop.client_id)
        assert list(old.client_moves.export(shop.client_id, operator())) == lines
        assert code_of(lambda: old.clients.set_active(shop.client_id, True, operator())) is Code.INVALID_REQUEST
        assert code_of(lambda: deposit(old, call, 1, "more")) is Code.INVALID_REQUEST
        assert check_everything() == []

    with installation(replace(settings, cell="B"), clock, settings.database_url) as new:
        # This installation has a past of its own.
        other = Shop(new, code="*384*9#")
        deposit(new, other.call, 500)
        new.history_digests.write()
        for broken in spoiled(lines, shop.client_id, other.client_id):
            assert code_of(lambda broken=broken: new.client_moves.take(broken, operator())) is Code.INVALID_REQUEST
        assert new.client_moves.take(lines, operator()) == exported
        assert code_of(lambda: new.client_moves.take(lines, operator())) is Code.INVALID_REQUEST
        assert check_everything(vault=new.runtime.vault) == [] == schema_differences()
        assert code_of(lambda: services_call(new, apikey, apisecret)) is not None, "it is disabled"

        new.clients.set_active(shop.client_id, True, operator(), "moved")
        call = services_call(new, apikey, apisecret)
        assert new.statements.get(GetStatement(), call) == statement
        assert new.balances.get(None, call).current_cents == balance.current_cents
        again = new.transactions.create(request(reference="sale", idempotency_key="once"), call)
        assert again.replayed
        assert new.transactions.get(GetTransaction(again.transaction.transaction_id), call).events
        form = {"sessionId": "s1", "phoneNumber": PHONE, "networkCode": "64110", "serviceCode": shop.code, "text": ""}
        dialled = GatewayRequest("POST", body=urlencode(form).encode(), address="192.0.2.1")
        secret = shop.channel.gateway_path.rpartition("/")[2]
        assert b"Welcome to ACME" in new.gateways.answer("africastalking", secret, dialled, "r0").body
        key = new.api_keys.create(CreateApiKey(None), call)
        assert (key.apikey[:3], len(key.apikey)) == ("ukB", 23)
        call = services_call(new, key.apikey, key.apisecret)
        new.transactions.create(request("disbursement", shillings=1000, reference="new"), call)
        work(new, clock, 3)
        after = new.balances.get(None, call)
        assert after.current_cents == balance.current_cents - 105_000
        assert check_everything(vault=new.runtime.vault) == []


def test_every_table_of_clients_moves_or_is_known_to_stay() -> None:
    of_clients = {table._meta.table_name for table in Table.__subclasses__() if "client_id" in table._meta.columns}
    moving = {table._meta.table_name for table in TABLES}
    assert of_clients - moving == {"api_requests", "deliveries", "logins", "mails"}


def spoiled(lines: list[bytes], client_id: str, other_id: str) -> Iterator[list[bytes]]:
    """Files that are not complete, were changed, or have a row of another client."""
    yield lines[:-1]
    yield lines[:1] + lines[2:]
    yield [lines[0].replace(b"client of", b"guest of"), *lines[1:]]
    fees = b'"fees","rows":[["'
    foreign = [line.replace(fees + client_id.encode(), fees + other_id.encode()) for line in lines]
    assert foreign != lines
    yield foreign


def test_a_client_with_work_under_way_stays_and_two_operators_take_one_back(
    services: Services, clock: MovableClock
) -> None:
    shop = Shop(services)
    deposit(services, shop.call, 5000)
    services.clients.set_active(shop.client_id, False, operator(), "moves")

    def refusal() -> str:
        with pytest.raises(ServiceError) as refused:
            services.client_moves.export(shop.client_id, operator())
        return refused.value.message

    assert refusal() == "The client cannot be moved yet: an event has no deliveries yet"
    services.relay.run()
    list(services.client_moves.export(shop.client_id, operator()))
    for second, refused in (("ann", Code.INVALID_REQUEST), ("Ben", None), ("Ben", Code.INVALID_REQUEST)):
        back = (shop.client_id, "Ann", second, "it stays", operator())
        assert code_of(lambda back=back: services.client_moves.take_back(*back)) is refused
    services.clients.set_active(shop.client_id, True, operator())
    services.clients.set_active(shop.client_id, False, operator())
    services.transactions.create(request(), shop.call)
    assert refusal() == "The client cannot be moved yet: a payment is not settled yet"
    found = AuditEvent.select().where(AuditEvent.action.in_(["client.exported", "client.taken_back"]))
    assert [event.decided_by for event in found.order_by(AuditEvent.id)] == [None, "Ann, Ben"]
