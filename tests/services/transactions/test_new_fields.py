"""A new optional field of a transaction: what it must not change, and which place is forgotten (docs/recipes.md)."""

from __future__ import annotations

from dataclasses import fields

from schemas.transactions import CreateTransactionBody
from tests.support.money import a_client, request
from ussd_server.bootstrap import Services
from ussd_server.database.tables import fixed_columns
from ussd_server.models.transactions import Transaction
from ussd_server.services.transactions.messages import CreateTransaction, TransactionView, Undigested
from ussd_server.wire import fields_without

OF_1_0_0 = "4080562c18e16c92b12d9ecdb104da7e38bd923cf9e2a44e08113909aac0cefe"
NOT_SHOWN = {"callback_url"}
CONTENT = set(fields_without(CreateTransaction, Undigested))
VIEW = {each.name for each in fields(TransactionView)}
COLUMNS = set(Transaction._meta.fields)
"""What a client says of a payment, what it sees of it, and what is stored."""


def test_a_request_without_new_fields_keeps_its_digest(services: Services) -> None:
    services.transactions.create(request(reference="r1"), a_client())
    digest = Transaction.get(Transaction.reference == "r1").request_digest
    assert digest == OF_1_0_0, "the new field of CreateTransaction is null by default, or Undigested()"


def test_what_a_client_says_of_a_payment_is_taken_stored_and_shown() -> None:
    body = set(CreateTransactionBody().fields)
    assert body >= CONTENT, "give the field of CreateTransaction a meaning and a Length, or its body a field"
    assert COLUMNS >= CONTENT, "add the column to models/transactions.py"
    assert VIEW | NOT_SHOWN >= CONTENT, "add the field to TransactionView"


def test_what_a_client_says_of_a_payment_never_changes() -> None:
    assert set(fixed_columns(Transaction)) >= CONTENT, "mark the column in models/transactions.py with fixed()"
