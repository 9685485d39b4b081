"""Receipts of payments that payers make by themselves."""

from __future__ import annotations

import pytest

from tests.services.incoming.till import PAYER, Till
from tests.support.example_client import ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.models.sending import Receipt, Sms
from ussd_server.services.sms import outbox


def test_a_payer_gets_one_receipt_however_often_the_payment_is_reported(
    services: Services, school: ExampleClient, till: Till, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_is_on", True)
    Receipt.insert(client_id=school.id, type="collection", texts={"en": "UGX {{amount|ugx}}, {{reference}}"}).execute()
    paid = [till.pay("SCH1042") for _ in range(2)]
    (receipt,) = Sms.select()
    assert (receipt.phone_number, receipt.text) == (PAYER, "UGX 5,000, in/R1")
    assert receipt.transaction_id == paid[0].transaction_id
