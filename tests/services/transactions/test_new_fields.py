"""A new optional field of a transaction: what it must not change, and which place it needs (docs/recipes.md)."""

from __future__ import annotations

from tests.support.money import a_client, request
from ussd_server.bootstrap import Services
from ussd_server.models.transactions import Transaction

OF_1_0_0 = "49014b6ad5c3793b84222c4f711ec063d11b305bb5092f181db0b559b41cbc8c"


def test_a_request_without_new_fields_has_the_digest_of_version_1(services: Services) -> None:
    services.transactions.create(request(reference="r1"), a_client())
    digest = Transaction.get(Transaction.reference == "r1").request_digest
    assert digest == OF_1_0_0, "mark the new field of CreateTransaction with AddedLater() or Undigested()"
