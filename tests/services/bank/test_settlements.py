"""Settlements to the bank: reserved before the bank pays, each of the bank's payments once."""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO

import pytest

from tests.conftest import MovableClock
from tests.services.bank.settling import (
    BY,
    SECOND,
    STANBIC,
    available,
    completed,
    due,
    propose,
    record,
    refusal,
)
from tests.support.books import check_everything
from tests.support.example_client import ExampleClient
from tests.support.money import deposit, operator, request
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.sending import Event
from ussd_server.services.audit.messages import ListAuditEvents
from ussd_server.services.bank import files
from ussd_server.services.bank.messages import (
    ConfirmBankAccount,
    EndSettlement,
    RecordSettlements,
    StateBankAccount,
)
from ussd_server.services.transactions.messages import (
    GetTransaction,
    ListTransactions,
    TransactionHistory,
    TransactionType,
)
from ussd_server.status import Code, ServiceError

UNKNOWN = "00000000-0000-4000-8000-000000000000"


def test_a_settlement_keeps_the_bank_account_that_it_was_proposed_for(
    services: Services, client: ExampleClient
) -> None:
    file = completed(services, "FT1")
    (shown,) = services.bank_settlements.waiting(operator())
    assert (shown.bank, shown.number, shown.name) == (STANBIC.bank, STANBIC.number, STANBIC.name)
    other = StateBankAccount("Centenary Bank", "310001", "ACME Ltd")
    services.bank_accounts.state(other, client.at_console())
    services.bank_accounts.confirm(ConfirmBankAccount(client.id, BY, number=other.number), operator())
    assert services.bank_settlements.waiting(operator()) == (), "no file has it, for either account"
    renamed = file.replace(b"Stanbic Bank,9030001234567", b"Centenary Bank,310001")
    assert "number: Is not the bank account of the settlement" in refusal(services, renamed)
    assert [each.status for each in record(services, file, is_paid=True)] == ["succeeded"]
    (settlement,) = services.bank_settlements.list(operator())
    history = services.transactions.get(GetTransaction(settlement.settlement_id), operator_context(client.id))
    assert isinstance(history, TransactionHistory)
    note = "The client has another bank account by now, and the bank has paid all the same"
    assert history.events[-1].detail.note == note
    assert check_everything() == []


def test_a_settlement_of_a_disabled_client_is_recorded_only_if_the_bank_has_paid_it(
    services: Services, client: ExampleClient
) -> None:
    file = completed(services, "FT1")
    (line,) = services.bank_settlements.read(file, operator())
    services.clients.set_active(client.id, False, operator())
    assert services.bank_settlements.waiting(operator()) == ()
    assert "settlement_id: The client is disabled. If the bank has paid it" in refusal(services, file)
    with pytest.raises(ServiceError, match="The client is disabled"):
        services.bank_settlements.require_recordable(line, operator())
    assert [each.replayed for each in record(services, file, is_paid=True)] == [False]
    assert [each.replayed for each in record(services, file)] == [True], "the same file again changes nothing"
    assert services.bank_settlements.require_recordable(line, operator()) == "succeeded"


def test_a_file_has_no_more_rows_than_the_bound(
    services: Services, client: ExampleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = completed(services, "FT1")
    monkeypatch.setattr(files, "_MOST_LINES", 1)
    assert len(services.bank_settlements.read(file, operator())) == 1
    monkeypatch.setattr(files, "_MOST_LINES", 0)
    assert "The file has more than 0 rows" in refusal(services, file)


def test_a_recorded_settlement_moves_the_money_once_and_is_a_transaction(
    services: Services, client: ExampleClient
) -> None:
    file = completed(services, "FT26110001")
    (made,) = record(services, file)
    assert (made.amount_cents, made.replayed) == (100_000_00, False)
    assert [each.replayed for each in record(services, file)] == [True]
    assert available(services, operator_context(client.id)) == 0
    (view,) = services.transactions.list(
        ListTransactions(type=TransactionType.SETTLEMENT), operator_context(client.id)
    ).items
    assert view.reference.startswith("bank/")
    assert (view.provider_transaction_id, view.description) == ("FT26110001", "Stanbic Bank, 9030001234567, ACME Ltd")
    assert (view.status, view.provider, view.phone_number, view.fee_cents) == ("succeeded", None, None, 0)
    types = [event.type for event in Event.select().where(Event.object_id == view.transaction_id).order_by(Event.id)]
    assert types == ["transaction.created", "transaction.succeeded"]
    trail = services.audit.list(ListAuditEvents(), client.at_console()).items
    (settled,) = (event for event in trail if event.action == "transaction.settled_to_bank")
    assert (settled.amount_cents, settled.decided_by) == (100_000_00, f"{BY}, {SECOND}")
    assert [each.bank_reference for each in services.bank_settlements.list(operator())] == ["FT26110001"]
    assert check_everything() == []


def test_lines_without_a_bank_reference_are_not_recorded(services: Services, client: ExampleClient) -> None:
    assert record(services, completed(services)) == ()
    assert [each.status for each in services.bank_settlements.list(operator())] == ["created"]


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ({"amount": "99999.99"}, "amount: The settlement is of UGX "),
        ({"settlement_id": ""}, "settlement_id: Is not the id of a settlement."),
        (
            {"settlement_id": UNKNOWN},
            "settlement_id: Is not a settlement of the client.",
        ),
        ({"amount": "1e5"}, "amount: Must be more than 0"),
        ({"amount": "0"}, "amount: Must be more than 0"),
        ({"amount": "5,000"}, "amount: Must be more than 0"),
        ({"currency": "USD"}, "currency: Must be UGX."),
        ({"client_id": "acme"}, "client_id: Is not the id of a client."),
        ({"client_id": UNKNOWN}, "settlement_id: Is not a settlement of the client."),
        ({"number": "1"}, "number: Is not the bank account of the settlement."),
        ({"bank_reference": "x" * 60}, "bank_reference: Must be at most 59 characters."),
        ({"bank_reference": "2.02611E+14"}, "bank_reference: A spreadsheet changed the number to 2.02611E+14."),
        ({"bank_reference": "-"}, "bank_reference: Needs a letter or a digit."),
    ],
)
def test_one_bad_line_refuses_the_file(
    services: Services, client: ExampleClient, cells: dict[str, str], problem: str
) -> None:
    other = ExampleClient(services, "Zebra")
    deposit(services, other.at_console(), 50_000)
    services.bank_accounts.state(STANBIC, other.at_console())
    services.bank_accounts.confirm(ConfirmBankAccount(other.id, BY, number=STANBIC.number), operator())
    good = completed(services, "FT1", "FT2").decode().splitlines()
    bad = completed(services, "FT1", "FT2", **cells).decode().splitlines()
    assert f"Row 2, {problem}" in refusal(services, "\n".join([good[0], bad[1], good[2]]).encode())
    assert {each.status for each in services.bank_settlements.list(operator())} == {"created"}
    assert check_everything() == []


def test_a_bank_reference_stands_for_one_settlement_of_a_client(services: Services, client: ExampleClient) -> None:
    first = completed(services, "FT1")
    twice = first.decode() + first.decode().splitlines()[1] + "\r\n"
    assert "settlement_id: Row 2 has it, too." in refusal(services, twice.encode())
    record(services, first)
    assert "The settlement was recorded as FT1" in refusal(services, first.replace(b"FT1", b"FT2"))
    deposit(services, client.at_console(), 2000, "later")
    assert "bank_reference: Was recorded as transaction" in refusal(services, completed(services, "FT1"))
    assert available(services, operator_context(client.id)) == 0


def test_the_money_is_reserved_before_the_bank_pays_and_a_busy_client_changes_nothing(
    services: Services, client: ExampleClient
) -> None:
    file = completed(services, "FT1")
    assert (due(services), available(services, operator_context(client.id))) == ([], 0)
    with pytest.raises(ServiceError) as refused:
        services.transactions.create(request("disbursement", shillings=90_000), operator_context(client.id))
    assert refused.value.code is Code.INSUFFICIENT_BALANCE
    deposit(services, client.at_console(), 3000, "meanwhile")
    services.transactions.create(request("disbursement", shillings=1000), operator_context(client.id))
    assert check_everything() == []
    assert [each.status for each in record(services, file)] == ["succeeded"]
    assert available(services, operator_context(client.id)) == 2000
    assert check_everything() == []


def test_a_settlement_that_waits_is_explained_and_no_worker_takes_it(services: Services, client: ExampleClient) -> None:
    (settlement_id,) = propose(services)
    shown = services.transactions.get(GetTransaction(settlement_id), operator_context(client.id))
    assert shown.explanation == (
        "UGX 100,000 is reserved in the main account for a transfer to the bank; "
        "the operator records it when the bank has paid."
    )
    assert (shown.status, shown.next_check_at, shown.provider_transaction_id) == ("created", None, None)
    assert services.processing.claim(10) == []


def test_a_cancelled_settlement_releases_its_money_and_is_not_recorded(
    services: Services, client: ExampleClient
) -> None:
    file = completed(services, "FT1")
    (settlement,) = services.bank_settlements.list(operator())
    end = EndSettlement(settlement.settlement_id, BY, SECOND)
    with pytest.raises(ServiceError, match="Two different people"):
        services.bank_settlements.cancel(EndSettlement(settlement.settlement_id, BY, BY), operator())
    assert services.bank_settlements.cancel(end, operator()).status == "failed"
    assert services.bank_settlements.cancel(end, operator()).status == "failed", "again it changes nothing"
    assert available(services, operator_context(client.id)) == 100_000
    assert "The settlement was cancelled" in refusal(services, file)
    with pytest.raises(ServiceError, match="was not recorded"):
        services.bank_settlements.record_return(end, operator())
    shown = services.transactions.get(GetTransaction(settlement.settlement_id), operator_context(client.id))
    assert shown.explanation == (
        "The settlement was cancelled, so UGX 100,000 is available in the main account again. Complete."
    )
    assert check_everything() == []


def test_what_the_bank_sent_back_is_credited_once(services: Services, client: ExampleClient) -> None:
    (settled,) = record(services, completed(services, "FT1"))
    end = EndSettlement(settled.settlement_id, BY, SECOND)
    with pytest.raises(ServiceError, match="has paid the settlement, as FT1"):
        services.bank_settlements.cancel(end, operator())
    for _ in range(2):
        assert services.bank_settlements.record_return(end, operator()).status == "reversed"
        assert available(services, operator_context(client.id)) == 100_000
    view = services.transactions.get(GetTransaction(settled.settlement_id), operator_context(client.id))
    assert "The bank sent UGX 100,000 back" in view.explanation
    (credited, _) = services.transactions.list(
        ListTransactions(type=TransactionType.DEPOSIT), operator_context(client.id)
    ).items
    assert credited.description == "Sent back by the bank: FT1"
    assert due(services) == [("acme", 100_000)]
    assert check_everything() == []


def test_settlements_of_unknown_ids_are_not_found(services: Services, client: ExampleClient) -> None:
    for settlement_id in ("x", client.id):
        with pytest.raises(ServiceError) as refused:
            services.bank_settlements.cancel(EndSettlement(settlement_id, BY, SECOND), operator())
        assert refused.value.code is Code.NOT_FOUND


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_who_acts_for_a_client_sees_its_settlements_alone(services: Services, client: ExampleClient) -> None:
    (settlement_id,) = propose(services)
    seen = services.bank_settlements.list(operator_context(client.id))
    assert [each.settlement_id for each in seen] == [settlement_id]
    assert services.bank_settlements.list(operator_context(UNKNOWN)) == ()


def test_a_settlement_of_more_than_seven_days_needs_attention(
    services: Services, client: ExampleClient, clock: MovableClock
) -> None:
    (settlement_id,) = propose(services)
    clock.advance(timedelta(days=6, hours=23).total_seconds())
    assert services.bank_settlements.count_late(operator()) == 0
    clock.advance(timedelta(hours=2).total_seconds())
    assert services.bank_settlements.count_late(operator()) == 1
    services.bank_settlements.cancel(EndSettlement(settlement_id, BY, SECOND), operator())
    assert services.bank_settlements.count_late(operator()) == 0


def test_two_different_people_record(services: Services, client: ExampleClient) -> None:
    file = completed(services, "FT1")
    with pytest.raises(ServiceError, match="Two different people"):
        services.bank_settlements.record(RecordSettlements(BytesIO(file), BY, BY.upper()), operator())


def test_a_bank_reference_is_recorded_once_however_it_is_written_and_for_one_client(
    services: Services, client: ExampleClient
) -> None:
    (first,) = record(services, completed(services, "FT26110001"))
    deposit(services, client.at_console(), 2000, "later")
    assert f"bank_reference: Was recorded as transaction {first.settlement_id}." in refusal(
        services, completed(services, "ft-2611 0001")
    )
    other = ExampleClient(services, "shop")
    deposit(services, other.at_console(), 5000)
    services.bank_accounts.state(STANBIC, other.at_console())
    services.bank_accounts.confirm(ConfirmBankAccount(other.id, BY, number=STANBIC.number), operator())
    refused = refusal(services, completed(services, "FT26110002", "FT26110001"))
    assert f"Row 3, bank_reference: Was recorded as transaction {first.settlement_id}." in refused
    recorded = [each for each in services.bank_settlements.list(operator()) if each.status != "created"]
    assert [each.settlement_id for each in recorded] == [first.settlement_id]
    assert check_everything() == []


@pytest.mark.parametrize("reference", ["bank/FT1", "in/R1"])
def test_clients_cannot_take_the_names_of_settlements_and_incoming_money(
    services: Services, client: ExampleClient, reference: str
) -> None:
    with pytest.raises(ServiceError) as refused:
        services.transactions.create(request(reference=reference), operator_context(client.id))
    assert refused.value.code is Code.INVALID_REQUEST
