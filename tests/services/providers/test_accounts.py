"""Connections of two accounts at one provider: money, statements, days, floats and receipts of each are its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date
from io import BytesIO

import pytest

from tests.conftest import MovableClock
from tests.services.incoming.till import Till
from tests.services.payouts.desk import PayoutDesk
from tests.services.payouts.desk import row as payout_row
from tests.services.processing.moves import NUMBERS, Move, old_connection, second_connection
from tests.services.processing.test_earlier_places import lose
from tests.services.reconciliation.days.closing import at_hour
from tests.services.reconciliation.statement_files import csv_file, mtn_row, reconcile
from tests.support.books import check_everything
from tests.support.desk import FakeProvider
from tests.support.money import a_client, balances, deposit, operator, request
from ussd_server.cli.service.doctor_database import check_places
from ussd_server.context import RequestContext
from ussd_server.menus.document.variables import ProviderStates
from ussd_server.models.providers import ProviderAccount
from ussd_server.models.transactions import Transaction
from ussd_server.services.incoming.messages import PutPaymentCode, SetPrefix
from ussd_server.services.movements.messages import CorrectMovement, ListMovements
from ussd_server.services.operations.book_check.sums import account_sums
from ussd_server.services.providers.messages import AdoptPlace, ChooseConnection, SwitchProvider
from ussd_server.services.reconciliation.messages import CloseDay, CoverDays
from ussd_server.services.statement_layouts.messages import PreviewStatement
from ussd_server.services.transactions.messages import CreateRefund, GetTransaction
from ussd_server.settings import Settings
from ussd_server.status import Code, ServiceError
from ussd_server.values import KAMPALA

pytestmark = pytest.mark.both_databases


@pytest.fixture(params=NUMBERS)
def move(request: pytest.FixtureRequest, settings: Settings, clock: MovableClock) -> Iterator[Move]:
    """The new stand-in has the account of all, the old one that of one client; both give the same receipts."""
    with ExitStack() as stack:
        made = Move(stack, settings, clock, request.param, receipts_apart=0)
        made.start(made.new, **second_connection(made, "OWN", f"{made.provider}-own"))
        wanted = ChooseConnection(made.client.client_id, f"{made.provider}-own", "Its contract", "Ann", "Ben")
        made.services.own_connections.choose(wanted, operator())
        yield made


@pytest.fixture
def other(move: Move) -> RequestContext:
    client = a_client("Other")
    deposit(move.services, client, 20_000)
    return client


def pay(move: Move, client: RequestContext, kind: str, reference: str, amount: int = 600) -> Transaction:
    """A payment of a client that succeeded."""
    order = request(kind, NUMBERS[move.provider], amount, reference=reference)
    made = move.services.transactions.create(order, client).transaction.transaction_id
    move.work(0)
    for each in (move.old, move.new):
        each.clock.advance(60)
    move.work(200)
    row: Transaction = Transaction.get_by_id(made)
    assert row.status == "succeeded"
    return row


def test_two_accounts_share_nothing_although_their_receipts_are_equal(move: Move, other: RequestContext) -> None:
    own = f"{move.provider}-own"
    pairs = [
        (pay(move, move.client, kind, kind), pay(move, other, kind, kind)) for kind in ("collection", "disbursement")
    ]
    for mine, theirs in pairs:
        assert (mine.provider, mine.provider_account) == (move.provider, own)
        assert (theirs.provider, theirs.provider_account) == (move.provider, move.provider)
        # Airtel's receipts have the minute in them.
        assert mine.provider_transaction_id == theirs.provider_transaction_id or move.provider == "airtel"
    assert balances(move.client.client_id)[f"provider:{own}"][0] == 0
    for row, client in zip(pairs[0], (move.client, other), strict=True):
        back = move.services.refunds.create(CreateRefund(row.id, "back"), client).transaction.transaction_id
        move.work(100)
        refund = Transaction.get_by_id(back)
        assert (refund.status, refund.provider_account) == ("succeeded", row.provider_account)
    sums = {each.account: (each.ledger_cents, each.used_cents) for each in account_sums()}
    assert sums[own] == sums[move.provider] == (-60_000, -60_000)
    shown = move.services.transactions.get(GetTransaction(pairs[0][0].id), move.client)
    assert shown.provider == move.provider
    assert own not in str(shown), "the API names no account"
    assert check_everything() == []


def test_the_float_of_each_account_is_kept(move: Move) -> None:
    move.services.floats.query()
    kept = {row.account: (row.provider, row.amount_cents) for row in ProviderAccount.select()}
    own = f"{move.provider}-own"
    assert {own, move.provider} <= kept.keys()
    assert kept[own][0] == move.provider
    states = {each.connection: each for each in move.services.provider_states.list(operator())}
    assert states[own].account == own
    assert states[own].float_amount_cents == kept[own][1]


def test_what_ends_or_switches_off_one_connection_leaves_the_other(
    move: Move, other: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, own = move.services, f"{move.provider}-own"
    refusing = FakeProvider(name=move.provider, connection=own, refused_in_a_row=100)
    services.runtime.switches.follow_refusals(refusing)
    with pytest.raises(ServiceError, match="switched off: it refused a hundred calls in a row"):
        pay(move, move.client, "collection", "first")
    pay(move, other, "collection", "first")
    seen = {client: services.provider_states.list(client)[0].status for client in (move.client, other)}
    assert seen == {move.client: "switched_off", other: "available"}
    menus = ProviderStates(services.runtime.providers.takes_payments)
    available = {client: menus.of(client.client_id)[f"{move.provider}.available"] for client in (move.client, other)}
    assert available == {move.client: False, other: True}
    services.provider_states.switch(SwitchProvider(own, False, "It has a new token"), operator())
    services.provider_states.switch(SwitchProvider(move.provider, True, "maintenance"), operator())
    pay(move, move.client, "collection", "second")
    services.provider_states.switch(SwitchProvider(move.provider, False, "done"), operator())

    services.floats.query()
    monkeypatch.setattr(services.runtime.providers, "is_connection_away", lambda each: each.connection == own)
    services.outage_watch.look()
    (change, *_) = services.provider_states.changes(operator())
    assert (change.action, change.provider) == ("provider.away", own)
    states = {each.connection: each for each in services.provider_states.list(operator())}
    clients = {name: state.client for name, state in states.items() if name.startswith(move.provider)}
    assert clients == {own: "ACME", move.provider: None}


@pytest.mark.parametrize("move", ["mtn"], indirect=True)
def test_each_statement_is_compared_with_its_account_and_each_day_is_closed(move: Move, other: RequestContext) -> None:
    at_hour(move.clock, 9)
    theirs = pay(move, other, "collection", "t")
    with pytest.raises(ServiceError, match=f"it names {theirs.id} \\(mtn\\)"):
        reconcile(move.services, [mtn_row(theirs, **{"External id": ""})], "mtn-own")
    mine = [pay(move, move.client, "collection", f"m{number}", 700 + number) for number in range(12)]
    with pytest.raises(ServiceError, match="The file is not of the account mtn: it names ") as refused:
        reconcile(move.services, [mtn_row(row) for row in mine], "mtn")
    assert [row.id in str(refused.value) for row in mine].count(True) == 10
    with pytest.raises(ServiceError, match=f"it names {theirs.id} \\(mtn\\)"):
        reconcile(move.services, [mtn_row(theirs, Id=mine[0].provider_transaction_id)], "mtn-own")
    with pytest.raises(ServiceError, match="There is no account 'mtn-new'; there are: airtel, mtn, mtn-own, sandbox"):
        reconcile(move.services, [mtn_row(theirs)], "mtn-new")

    day = move.clock.now().astimezone(KAMPALA).date()
    for account, rows in (("mtn-own", mine), ("mtn", [theirs])):
        read = reconcile(move.services, [mtn_row(row) for row in rows], account)
        assert read.statement.lines == {"matched": len(rows)}
        stated = CoverDays(read.statement.statement_id, day, day, "Ann", "Ben")
        move.clock.advance(86_400)
        move.services.provider_statements.cover(stated, operator())
        closed = move.services.days.close(CloseDay(day, account, "Ann"), operator())
        assert (closed.account, closed.ours_cents) == (account, sum(row.amount_cents for row in rows))
        assert [(step.verdict, step.count) for step in closed.bridge] == [("matched", len(rows))]
    with pytest.raises(ServiceError, match="There is no account"):
        move.services.days.close(CloseDay(day, "mtn-new", "Ann", is_empty=True), operator())
    assert {each.account for each in move.services.days.list(operator())} == {"mtn", "mtn-own", "sandbox"}
    assert check_everything() == []


@pytest.mark.parametrize("move", ["mtn"], indirect=True)
def test_accounts_called_otherwise_than_their_provider_are_found_by_their_own_names(
    move: Move, other: RequestContext
) -> None:
    own = second_connection(move, "OWN", "acme-wallet")
    move.start(move.new, **own, USSD_MTN_ACCOUNT="shop-wallet")
    theirs = pay(move, other, "collection", "t")
    for provider in ("mtn", None):
        shown = PreviewStatement(BytesIO(csv_file([mtn_row(theirs)])), provider)
        assert move.services.statement_layouts.preview(shown, operator()).provider == "mtn"
    moved = move.services.movements.list(ListMovements(account="shop-wallet"), operator()).items
    assert [each.movement_id for each in moved] == [theirs.id]
    with pytest.raises(ServiceError, match="There is no account 'mtn'; there are: acme-wallet, "):
        move.services.movements.list(ListMovements(account="mtn"), operator())


@pytest.mark.parametrize("move", ["mtn"], indirect=True)
def test_an_account_that_left_the_settings_is_still_compared_and_listed_while_it_was_there(
    move: Move, other: RequestContext
) -> None:
    move.services.floats.query()
    mine = pay(move, move.client, "collection", "m")
    day: date = move.clock.now().astimezone(KAMPALA).date()
    move.start(move.new)
    assert reconcile(move.services, [mtn_row(mine)], "mtn-own").statement.lines == {"matched": 1}
    assert {each.account for each in account_sums()} == {"mtn-own"}
    move.clock.advance(3 * 86_400)
    listed = {each.date for each in move.services.days.list(operator()) if each.account == "mtn-own"}
    assert listed == {str(day)}
    held = reconcile(move.services, [mtn_row(mine, Id="777", **{"External id": "their own"})], "mtn-own")
    assert held.is_stored
    (movement,) = move.services.movements.list(ListMovements(is_held=True), operator()).items
    assert movement.account == "mtn-own"
    moved = move.services.movements.list(ListMovements(account="mtn-own"), operator()).items
    assert {each.movement_id for each in moved} == {mine.id, movement.movement_id}
    wanted = AdoptPlace(mine.sent_to, "mtn", "One wallet", "Ann", "Ben")
    with pytest.raises(ServiceError, match="Its account is mtn, and that of the payments mtn-own"):
        move.services.provider_states.adopt(wanted, operator())
    assert check_everything() == []


@pytest.mark.parametrize("kind", ["collection", "disbursement"])
def test_a_payment_that_an_earlier_account_has_is_of_that_account(
    settings: Settings, clock: MovableClock, kind: str
) -> None:
    """A process sent it by the old connection, and its commit was lost."""
    with ExitStack() as stack:
        move = Move(stack, settings, clock, "mtn")
        move.start(move.new, **old_connection(move) | {"USSD_MTN_OLD_ACCOUNT": "mtn-old"})
        payment = move.pay(kind)
        lose(move, payment)
        move.work(700)
        row = Transaction.get_by_id(payment)
        assert (row.status, row.provider_account) == ("succeeded", "mtn-old")
        assert move.submits(move.new) == 0
        moved = balances(move.client.client_id)
        assert moved["provider:mtn-old"][0] == (-60_000 if kind == "collection" else 60_000)
        assert moved.get("provider:mtn", (0, 0)) == (0, 0)
        assert moved["main"][1] == 0
        assert check_everything() == []


def test_a_payment_keeps_its_account_and_none_is_created_under_a_new_name(
    settings: Settings, clock: MovableClock
) -> None:
    with ExitStack() as stack:
        move = Move(stack, settings, clock, "mtn")
        move.old.switches.change({"disbursements_pending": True})
        payment = move.pay("disbursement")
        move.work(0)
        move.start(move.old, USSD_MTN_ACCOUNT="wallet")
        (finding,) = check_places(move.services.runtime.settings, move.services.runtime.providers)
        assert finding.found == "its last payment was of the account mtn, and now its account is wallet"
        assert finding.mend == "A wallet keeps its name: set USSD_MTN_ACCOUNT=mtn."
        with pytest.raises(ServiceError, match="set USSD_MTN_ACCOUNT=mtn") as refused:
            move.pay("disbursement", "under the new name")
        assert refused.value.code is Code.SERVICE_UNAVAILABLE
        move.old.clock.advance(1000)
        move.work(700)
        row = Transaction.get_by_id(payment)
        assert (row.status, row.provider_account) == ("succeeded", "mtn")
        assert balances(move.client.client_id)["provider:mtn"] == (60_000, 0)
        assert check_everything() == []
        move.start(move.old)
        assert move.pay("disbursement", "under the old name")


@pytest.mark.parametrize("move", ["mtn"], indirect=True)
def test_what_payers_send_is_booked_at_the_account_of_its_path(move: Move, other: RequestContext) -> None:
    services, till = move.services, Till(move.services)
    services.payment_codes.set_prefix(SetPrefix(other.client_id, "SCH"), operator())
    services.payment_codes.put(PutPaymentCode("SCH1", "Fees"), other)
    paths = {each.account: each.path for each in services.notices.paths(operator())}
    assert {"mtn", "mtn-own"} <= paths.keys()
    services.notices.require_path("mtn-own", paths["mtn-own"].rpartition("/")[2])
    with pytest.raises(ServiceError):
        services.notices.require_path("mtn-own", paths["mtn"].rpartition("/")[2])
    booked = [till.pay("SCH1", receipt="R1", provider=account).transaction_id for account in ("mtn", "mtn-own")]
    rows = [Transaction.get_by_id(each) for each in booked]
    assert [(row.provider, row.provider_account) for row in rows] == [("mtn", "mtn"), ("mtn", "mtn-own")]
    assert till.pay("nothing", receipt="R2", provider="mtn-own").transaction_id is None
    (movement,) = services.movements.list(ListMovements(is_held=True), operator()).items
    wanted = CorrectMovement(movement.movement_id, other.client_id, "It is theirs", "Ann", "Ben")
    used = services.corrections.correct(wanted, operator()).use
    assert used is not None
    row = Transaction.get_by_id(used.transaction_id)
    assert (row.provider, row.provider_account) == ("mtn", "mtn-own")
    sums = {each.account: (each.ledger_cents, each.used_cents) for each in account_sums()}
    assert sums == {"mtn": (500_000, 500_000), "mtn-own": (1_000_000, 1_000_000)}
    assert check_everything() == []


def test_a_payout_is_paid_from_the_account_of_its_client_and_compared_with_its_float(
    settings: Settings, clock: MovableClock
) -> None:
    with ExitStack() as stack:
        move = Move(stack, settings, clock, "mtn")
        services = move.start(move.new, **second_connection(move, "OWN", "mtn-own"))
        desk = PayoutDesk(services, clock)
        own = ChooseConnection(desk.client_id, "mtn-own", "Its contract", "Ann", "Ben")
        services.own_connections.choose(own, operator())
        draft = desk.draft(payout_row("r1", NUMBERS["mtn"], 600), payout_row("r2", NUMBERS["mtn"], 700))
        for account, cents in (("mtn", 100), ("mtn-own", 200_000)):
            at = clock.now()
            ProviderAccount.put({"account": account}, {"provider": "mtn", "asked_at": at, "amount_cents": cents})
        assert desk.payouts.details(draft.payout_id, desk.maker).shortfalls == ()
        ProviderAccount.update(amount_cents=100).where(ProviderAccount.account == "mtn-own").execute()
        (short,) = desk.payouts.details(draft.payout_id, desk.maker).shortfalls
        assert (short.provider, short.needed_cents, short.float_cents) == ("mtn", 130_000, 100)
        desk.approve(draft)
        desk.work(5)
        paid = list(Transaction.select().where(Transaction.payout_id == draft.payout_id))
        assert [each.provider_account for each in paid] == ["mtn-own"] * 2
        assert (move.submits(move.old), move.submits(move.new)) == (2, 0)
        assert check_everything() == []
