"""Postings: transfers that are written all or none. The database opens accounts and moves balances."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from peewee import IntegrityError

from ussd_server.database.unit_of_work import dialect

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Postings:
    """Money to be moved or held.

    `accounts` are all accounts of the legs (`id`, `client_id`, `name`, `kind`, `created_at`); missing ones are opened.
    `legs` are transfers that name their accounts as `debit` and `credit`.
    """

    accounts: Rows
    legs: Rows


class AnotherFeeError(Exception):
    """The terms of a fee are not those that are agreed now."""


class OverdraftError(Exception):
    """A debited account does not have that much available."""


def write_postings(postings: Postings) -> None:
    """Write legs, all or none; call inside the unit of work that makes the change. Raises OverdraftError."""
    document = orjson.dumps(postings).decode()
    with named_refusals():
        dialect().post(document)


@contextmanager
def named_refusals() -> Iterator[None]:
    """Raise OverdraftError and AnotherFeeError for the constraints that mean them."""
    try:
        yield
    except IntegrityError as error:
        match dialect().broken_rule(error):
            case "no_overdraft":
                raise OverdraftError from None
            case "another_fee_was_agreed":
                raise AnotherFeeError from None
        raise
