"""The form of our name for a payment at its provider, and the two receipts that a provider may give it."""

from __future__ import annotations

import pytest

from tests.conftest import MovableClock
from tests.support.desk import NOT_FOUND, NOT_SENT, PENDING, SUCCESS, Desk, FakeProvider
from tests.support.money import operator
from ussd_server.bootstrap import Services
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.search.messages import Search
from ussd_server.services.transactions.messages import GetTransaction

RECEIPT = "CI250506.1824.H00006"


@pytest.fixture
def desk(services: Services, clock: MovableClock) -> Desk:
    return Desk(services, clock, FakeProvider(plain_references=True))


def names_sent(desk: Desk) -> set[str]:
    return {payment.provider_reference for payment in desk.provider.asks}


def test_a_new_payment_is_sent_without_hyphens_and_stays_so_when_it_is_sent_again(desk: Desk) -> None:
    desk.provider.asked = [ProviderAnswer(Outcome.UNKNOWN), PENDING]
    desk.provider.enquired = [NOT_FOUND]
    desk.order()
    desk.work(120)
    assert len(desk.provider.asks) > 1
    assert names_sent(desk) == {desk.row.provider_reference.replace("-", "")}


def test_a_payment_is_found_by_both_of_its_receipts(desk: Desk, services: Services) -> None:
    desk.provider.asked = [
        ProviderAnswer(Outcome.SUCCEEDED, provider_transaction_id="disburs-1", receipt=RECEIPT, reason=f"TS {RECEIPT}")
    ]
    payment = desk.order("disbursement")
    desk.work()
    assert (desk.row.provider_transaction_id, desk.row.provider_receipt) == ("disburs-1", RECEIPT)
    for text in ("disburs-1", RECEIPT, RECEIPT.lower(), desk.row.sent_reference):
        found = services.search.find(Search(text), operator())
        assert [hit.id for hit in found.items] == [payment], text
    last = services.transactions.get(GetTransaction(payment), desk.call).events[-1]
    assert last.detail.provider_code == f"TS {RECEIPT}"


def test_a_payment_of_which_nothing_left_is_not_called_sent(desk: Desk, services: Services) -> None:
    desk.provider.asked = [NOT_SENT]
    payment = desk.order()
    for settled in (False, True):
        desk.work(100 if settled else 0)
        seen = services.reviews.show(payment, operator()).transaction
        assert seen.status == ("failed" if settled else "submitted")
        assert "was sent" not in seen.explanation.replace("nothing was sent", "")
        for change in seen.events[1:]:
            assert (change.detail.sent, change.detail.left_machine) == (None, False)


def test_a_payment_that_was_sent_later_is_called_sent(desk: Desk, services: Services) -> None:
    desk.provider.asked = [NOT_SENT, SUCCESS]
    payment = desk.order()
    desk.work(10)
    changes = services.reviews.show(payment, operator()).transaction.events
    assert [change.detail.sent for change in changes] == [None, "payment", "payment"]
