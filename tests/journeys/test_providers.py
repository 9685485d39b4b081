"""The whole service with both providers beside it: money in, money out, money back, and the books agree."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.ports import free_port
from tests.support.eventually import eventually
from tests.support.real_service.keys import fresh_keys
from tests.support.real_service.service import Service
from tests.support.stand_ins import (
    StandInProcess,
    airtel_settings,
    mtn_settings,
    start_airtel,
    start_mtn,
)
from ussd_server.security.key_ring import Keyring
from ussd_server.security.tokens import Tokens
from ussd_server.values import with_hyphens

NUMBERS = {"mtn": "+256772123456", "airtel": "+256752123456"}
# So long that, in a test, only a callback can bring an outcome.
AN_HOUR = "3600"


class Street:
    """The service and its two stand-ins."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        port = free_port()
        path = Tokens(Keyring.create(folder / "secrets.json")).callback_path("airtel")
        self.providers: dict[str, StandInProcess] = {
            "mtn": start_mtn("--approve-delay", "0.5"),
            "airtel": start_airtel("--approve-delay", "0.5", "--callback-url", f"http://127.0.0.1:{port}{path}"),
        }
        self.service = Service(
            folder,
            port,
            USSD_WORKERS="1",
            USSD_PUBLIC_URL=f"http://127.0.0.1:{port}",
            USSD_MTN_ENQUIRY_SECONDS=AN_HOUR,
            USSD_AIRTEL_ENQUIRY_SECONDS=AN_HOUR,
            **mtn_settings(self.providers["mtn"].base_url),
            **airtel_settings(self.providers["airtel"].base_url),
        )

        # One key alone may not call so often.
        self.keys = itertools.cycle(fresh_keys(self.service, 8))

    def close(self) -> None:
        self.service.stop()
        for provider in self.providers.values():
            provider.stop()

    def order(self, path: str, **request: Any) -> dict[str, Any]:
        status, body = self.service.call("POST", path, request, next(self.keys))
        assert status == 201, body
        return dict(body["data"])

    def see(self, transaction_id: str) -> dict[str, Any]:
        path = f"/api/transactions/{transaction_id}"
        return dict(self.service.call("GET", path, headers=next(self.keys))[1]["data"])

    def settled(self, made: dict[str, Any], status: str = "succeeded") -> dict[str, Any]:
        """The record of a transaction once it has come to that status."""
        path = f"/api/transactions/{made['transaction_id']}"
        # Held until something changes, because a key may not call oftener.
        held = f"{path}?wait=20"
        eventually(lambda: self.service.call("GET", held, headers=next(self.keys))[1]["data"]["status"] == status)
        return self.see(made["transaction_id"])

    def collect_disburse_and_refund(self, provider: str, name: str) -> list[dict[str, Any]]:
        """One of each with a provider, under references that begin with `name`."""
        request = {"phone_number": NUMBERS[provider], "amount": 5000}
        collection = self.order("/api/transactions", type="collection", reference=f"{name} in", **request)
        disbursement = self.order("/api/transactions", type="disbursement", reference=f"{name} out", **request)
        collected, disbursed = self.settled(collection), self.settled(disbursement)
        refund = self.order(f"/api/transactions/{collection['transaction_id']}/refunds", reference=f"{name} back")
        refunded = self.settled(refund)
        assert self.see(collection["transaction_id"])["status"] == "reversed"
        return [collected, disbursed, refunded]

    def balance(self) -> int:
        return int(self.service.call("GET", "/api/balance", headers=next(self.keys))[1]["data"]["current"])


@pytest.fixture
def street(tmp_path: Path) -> Iterator[Street]:
    street = Street(tmp_path / "data")
    yield street
    street.close()


def agree(street: Street, provider: str, records: list[dict[str, Any]]) -> None:
    """Both books hold the same payments, once each, by the provider's own numbers and with the same amounts."""
    theirs = {each["reference"]: each for each in street.providers[provider].book()["payments"] if each["paid"]}

    def reported(payment: dict[str, Any]) -> tuple[str, int]:
        # Airtel answers a refund with its number of the payment that is given back.
        named = theirs[payment["original"]] if payment["original"] and provider == "airtel" else payment
        return named["receipt"], payment["amount_cents"]

    assert sorted(map(reported, theirs.values())) == sorted(
        (ours["provider_transaction_id"], ours["amount"] * 100) for ours in records
    )
    # Nor does Airtel take a name of ours for a refund. It gets the others without hyphens.
    named = {ours["provider_reference"] for ours in records if provider == "mtn" or ours["type"] != "refund"}
    assert named <= set(map(with_hyphens, theirs))


@pytest.mark.nightly
def test_callbacks_bring_every_outcome_once_however_often_and_in_whatever_order_they_come(street: Street) -> None:
    before = street.balance()
    records: dict[str, list[dict[str, Any]]] = {"mtn": [], "airtel": []}
    for name, switches in {
        "plain": {},
        "doubled": {"callback_copies": 3},
        "by POST": {"callback_method": "POST"},
        "with another amount": {"wrong_callback_amount": True},
    }.items():
        for provider, stand_in in street.providers.items():
            stand_in.flick(**switches)
            records[provider] += street.collect_disburse_and_refund(provider, f"{provider} {name}")
    for provider, made in records.items():
        agree(street, provider, made)
        sources = {record["events"][-1]["source"] for record in made if record["type"] == "collection"}
        assert sources == {"callback"}
    assert street.balance() == before - 4 * 2 * 5000, "what came in went back, and what went out is gone"
