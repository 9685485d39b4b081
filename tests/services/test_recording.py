"""Recording under many hands: written together, answered one by one."""

from __future__ import annotations

import threading
from collections import Counter

import psycopg
import pytest

from tests.conftest import MovableClock
from tests.services.books import check_everything
from tests.services.crowd import at_once, refusals
from tests.services.money import a_client, balances, deposit, operator, wish, work
from ussd_server.house import Services
from ussd_server.messages.fees import Fee
from ussd_server.messages.transactions import TransactionType
from ussd_server.models.base import DATABASE_TROUBLE, close_connections, unit_of_work
from ussd_server.models.transactions import Transaction
from ussd_server.services.fees import set_fee
from ussd_server.settings import Settings

PAYER = "+256770000060"


def test_fifty_calls_with_one_reference_make_one_transaction(house: Services) -> None:
    call = a_client()
    answers = at_once([lambda: house.transactions.create(wish(reference="one"), call)] * 50)
    assert Counter(answer.replayed for answer in answers) == {False: 1, True: 49}
    assert len({answer.transaction.transaction_id for answer in answers}) == 1
    assert Transaction.select().count() == 1
    assert check_everything() == []


def test_one_who_cannot_pay_or_reuses_a_name_harms_nobody_at_the_same_time(house: Services) -> None:
    call, poor = a_client(), a_client("Poor")
    deposit(house, call, 10_000)
    house.transactions.create(wish(reference="used"), call)

    def order(number: int) -> object:
        match number % 4:
            case 0:
                return house.transactions.create(wish("disbursement", shillings=100, reference=f"{number}"), call)
            case 1:
                return house.transactions.create(wish("disbursement", shillings=1, reference=f"{number}"), poor)
            case 2:
                return house.transactions.create(wish(shillings=number, reference="used"), call)
            case _:
                return house.transactions.create(wish(reference=f"{number}", shillings=number), call)

    answers = at_once([lambda number=number: order(number) for number in range(80)])  # type: ignore[misc]
    assert Counter(refusals(answers)) == {
        "Insufficient balance to complete the transaction": 20,
        "The reference or idempotency key was used for a different request": 20,
    }
    for number, answer in enumerate(answers):
        if number % 4 in (0, 3):
            assert answer.transaction.reference == str(number), "nobody was given another's answer"
    assert balances(call.client_id)["main"] == (1_000_000, 200_000)
    assert check_everything() == []


def test_accounts_that_several_name_for_the_first_time_are_opened_once(house: Services, clock: MovableClock) -> None:
    call = a_client()
    set_fee(Fee(call.client_id, TransactionType.TRANSFER, 10, 0), operator())
    house.transactions.create(wish(account=PAYER), call)
    work(house, clock)

    def transfer(number: int) -> object:
        payee = f"+25677000007{number % 3}"
        return house.transactions.create(wish("transfer", PAYER, 1, to_phone_number=payee, reference=f"{number}"), call)

    answers = at_once([lambda number=number: transfer(number) for number in range(24)])  # type: ignore[misc]
    assert {answer.transaction.status for answer in answers} == {"succeeded"}
    assert balances(call.client_id) == {
        PAYER: (500_000 - 24 * 110, 0), "fees": (240, 0), "provider:sandbox": (-500_000, 0),
        "+256770000070": (800, 0), "+256770000071": (800, 0), "+256770000072": (800, 0),
    }  # fmt: skip
    assert check_everything() == []


def test_nothing_is_recorded_from_within_a_unit_of_work(house: Services) -> None:
    call = a_client()
    with pytest.raises(AssertionError, match="still to come"), unit_of_work():
        house.transactions.create(wish(), call)
    assert not Transaction.select().exists()


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_connection_that_is_cut_loses_nothing_that_was_answered(house: Services, settings: Settings) -> None:
    call = a_client()
    deposit(house, call, 900_000)
    over = threading.Event()
    answered: list[str] = []
    troubles: list[Exception] = []

    def order(name: int) -> None:
        for number in range(40):
            kind = ("collection", "disbursement")[number % 2]
            try:
                recorded = house.transactions.create(wish(kind, shillings=10, reference=f"{name} {number}"), call)
            except DATABASE_TROUBLE as trouble:
                troubles.append(trouble)
                close_connections()
            else:
                answered.append(recorded.transaction.transaction_id)

    def cut() -> None:
        with psycopg.connect(settings.database_url, autocommit=True) as hand:
            while not over.wait(0.05):
                hand.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

    cutter = threading.Thread(target=cut)
    cutter.start()
    at_once([lambda name=name: order(name) for name in range(12)])  # type: ignore[misc]
    over.set()
    cutter.join()
    close_connections()
    assert troubles, "nothing was cut"
    assert len(answered) > 12
    assert set(answered) <= {row.id for row in Transaction.select(Transaction.id)}
    assert check_everything() == []
