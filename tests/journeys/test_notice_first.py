"""The whole service with a provider and its till: a notice comes before our own enquiry, and the money counts once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from simulators.till import Payment, Till
from testbed.ports import free_port
from tests.support.eventually import eventually
from tests.support.real_service.service import Service, environment
from tests.support.stand_ins import airtel_settings, mtn_settings, start_airtel, start_mtn
from ussd_server.security.key_ring import Keyring
from ussd_server.security.tokens import Tokens
from ussd_server.values import with_hyphens

NUMBERS = {"mtn": "+256770000101", "airtel": "+256750000101"}
CODE = "SCH1042"


class Shop:
    """The service with one provider, whose payers approve after two seconds, and the provider's till."""

    def __init__(self, folder: Path, provider: str) -> None:
        folder.mkdir(mode=0o700)
        start = {"mtn": start_mtn, "airtel": start_airtel}[provider]
        settings = {"mtn": mtn_settings, "airtel": airtel_settings}[provider]
        self.number, self.stand_in, port = NUMBERS[provider], start("--approve-delay", "2"), free_port()
        enquiries = {f"USSD_{provider.upper()}_ENQUIRY_SECONDS": "1"}
        self.service = Service(folder, port, USSD_WORKERS="1", **settings(self.stand_in.base_url), **enquiries)
        tokens = Tokens(Keyring(folder / "secrets.json"))
        secret = tokens.incoming_signing_secrets(provider)[-1]
        path = f"http://127.0.0.1:{port}{tokens.incoming_path(provider)}"
        self.http = httpx2.Client(timeout=20)
        self.till = Till(path, secret, self.http)
        given = [sys.executable, "-m", "ussd_server.cli", "payment-codes", "prefix", "Demonstration", "SCH"]
        subprocess.run(given, env=environment(folder), check=True, capture_output=True)
        self.call("PUT", f"/api/payment-codes/{CODE}", {"description": "Fees"})

    def close(self) -> None:
        self.http.close()
        self.service.stop()
        self.stand_in.stop()

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        status, answer = self.service.call(method, path, body, self.service.key)
        assert status in (200, 201), answer
        return dict(answer["data"])

    def see(self, transaction_id: str) -> dict[str, Any]:
        return self.call("GET", f"/api/transactions/{transaction_id}")

    def receipt_of(self, transaction_id: str) -> str:
        """The receipt that the provider has for a payment which its payer has not approved yet."""
        reference = self.see(transaction_id)["provider_reference"]

        def booked() -> list[str]:
            # Airtel gets our names without hyphens.
            payments = self.stand_in.book()["payments"]
            return [each["receipt"] for each in payments if with_hyphens(each["reference"]) == reference]

        eventually(lambda: bool(booked()))
        return booked()[0]

    def balance(self) -> int:
        return int(self.call("GET", "/api/balance")["current"])


@pytest.fixture(params=["mtn", pytest.param("airtel", marks=pytest.mark.nightly)])
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    shop = Shop(tmp_path / "data", request.param)
    yield shop
    shop.close()


def test_a_notice_that_comes_before_our_enquiry_counts_once(shop: Shop) -> None:
    for is_masked in (False, True):
        before = shop.balance()
        reference = f"masked {is_masked}"
        request = {"type": "collection", "phone_number": shop.number, "amount": 5000, "reference": reference}
        made = shop.call("POST", "/api/transactions", request)["transaction_id"]
        receipt = shop.receipt_of(made)
        answer = shop.till.notify(
            Payment(receipt.lower(), CODE, 5000, "25677****01" if is_masked else shop.number)
        ).json()["data"]
        assert answer["status"] == ("booked" if is_masked else "held")
        eventually(lambda made=made: shop.see(made)["status"] == "succeeded")  # type: ignore[misc]
        assert shop.balance() == before + 5000
        ours = shop.see(made)
        again = shop.till.notify(Payment(receipt, CODE, 5000, shop.number)).json()["data"]
        assert again["transaction_id"] == made
        if is_masked:
            assert shop.see(ours["same_money_as"])["status"] == "reversed"
        else:
            assert ours["same_money_as"] is None
        assert shop.balance() == before + 5000
