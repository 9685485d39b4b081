"""Bugs that are planted to see whether the simulation finds them: each takes one safeguard out of the program."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from peewee import OperationalError

from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.settlement import settlement
from ussd_server.services.settlement.settlement import Settlement
from ussd_server.services.transactions.create import TransactionCreator, batch_of
from ussd_server.services.transactions.names import ProviderReferences
from ussd_server.services.webhooks import deliveries

Plant = Callable[[], Any]


def _reference_drawn_at_random() -> Any:
    """The name of a payment at its provider is drawn anew for each request."""

    def of_request(self: ProviderReferences, identity: Any) -> str:
        return str(uuid.UUID(bytes=random.randbytes(16), version=4))

    return patch.object(ProviderReferences, "of_request", of_request)


def _answers_read_as(outcome: Outcome, answer: ProviderAnswer) -> Plant:
    """One kind of answer of the provider is taken for another."""

    def plant() -> Any:
        apply_answer = settlement.apply_answer

        def read_wrong(row: Any, pace: Any, given: ProviderAnswer, *rest: Any) -> None:
            apply_answer(row, pace, answer if given.outcome is outcome else given, *rest)

        return patch.object(settlement, "apply_answer", read_wrong)

    return plant


def _failure_is_final() -> Any:
    """Nothing is enquired after a failure."""
    conclude = Settlement.conclude

    def without_late_check(self: Settlement, transaction_id: str, pace: Any, *rest: Any) -> None:
        conclude(self, transaction_id, replace(pace, late_check_after=0.0), *rest)

    return patch.object(Settlement, "conclude", without_late_check)


def _lease_outlives_its_call() -> Any:
    """A lease lasts for ever, and no worker takes over from a dead one."""
    return _together(
        patch.object(settlement, "_LEASE_SECONDS", 10**7),
        patch("ussd_server.services.operations.heartbeat.Heartbeat.take_over", lambda self: 0),
    )


def _answered_without_a_commit() -> Any:
    """A payment is answered although the database failed."""
    insert = TransactionCreator._insert

    def answer_anyway(self: TransactionCreator, draft: Any, legs: Any, source: Any, within: Any) -> Any:
        try:
            return insert(self, draft, legs, source, within)
        except OperationalError:
            return batch_of(draft, legs, source)[1]

    return patch.object(TransactionCreator, "_insert", answer_anyway)


def _silence_of_a_receiver_counts_as_taken() -> Any:
    """A webhook that was not answered is not sent again."""
    conclude = deliveries.DeliveryService._conclude

    def believe(self: Any, sent: Any, headers: Any, exchange: Any) -> None:
        conclude(self, sent, headers, replace(exchange, status=exchange.status or 200))

    return patch.object(deliveries.DeliveryService, "_conclude", believe)


def _refunds_under_way_do_not_count() -> Any:
    """A refund may give back what another one that is under way gives back already."""
    from ussd_server.models.transactions import Transaction
    from ussd_server.services.transactions import refunds

    return patch.object(refunds, "_IS_GIVEN_BACK", Transaction.status == "succeeded")


@contextmanager
def _together(*patches: Any) -> Iterator[None]:
    with patches[0], patches[1]:
        yield


_FAILED = ProviderAnswer(Outcome.FAILED, FailureCode.PROVIDER_ERROR)
BUGS: dict[str, Plant] = {
    "reference-at-random": _reference_drawn_at_random,
    "silence-is-failure": _answers_read_as(Outcome.UNKNOWN, _FAILED),
    "not-found-is-failure": _answers_read_as(Outcome.NOT_FOUND, _FAILED),
    "pending-is-success": _answers_read_as(Outcome.PENDING, ProviderAnswer(Outcome.SUCCEEDED)),
    "failure-is-final": _failure_is_final,
    "endless-lease": _lease_outlives_its_call,
    "answer-before-commit": _answered_without_a_commit,
    "silent-receiver": _silence_of_a_receiver_counts_as_taken,
    "refund-twice": _refunds_under_way_do_not_count,
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a bug for a while."""
    with BUGS[name]():
        yield
