"""Waiting for an outcome: a client's waiting calls leave room for those of another client."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.support.desk import SUCCESS
from tests.support.eventually import eventually
from tests.support.money import a_client, request
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import release_connection
from ussd_server.services.transactions import transactions
from ussd_server.services.transactions.create import TransactionCreator
from ussd_server.services.transactions.messages import CreateTransaction, Source, TransactionView


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_call_takes_the_oldest_waiting_place_of_a_client_that_has_them_all(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = other_runtime(services, threads=4)
    service = transactions.TransactionService(runtime, TransactionCreator(runtime))
    looked_at = set[str]()
    find_row = transactions.find_row

    def seen(table: Any, row_id: str) -> Any:
        looked_at.add(row_id)
        return find_row(table, row_id)

    def create(asked: CreateTransaction, context: RequestContext) -> TransactionView:
        try:
            return service.create(replace(asked, wait=25), context).transaction
        finally:
            release_connection()

    monkeypatch.setattr(transactions, "find_row", seen)
    greedy, modest = a_client("greedy"), a_client("modest")
    with ThreadPoolExecutor(3) as pool:
        calls = []
        for number, (context, reference) in enumerate([(greedy, "a"), (greedy, "b"), (modest, "c")], 1):
            calls.append(pool.submit(create, request(reference=reference), context))
            eventually(lambda number=number: len(looked_at) == number)  # type: ignore[misc]
        eventually(lambda: any(call.done() for call in calls))
        assert [call.done() for call in calls] == [True, False, False]
        provider = services.runtime.providers.get("sandbox")
        assert provider is not None
        conclude = partial(services.processing.apply_answer, schedule=provider.schedule, source=Source.POLL)
        for transaction_id in looked_at:
            # Each has a receipt of its own.
            answer = replace(SUCCESS, amount_cents=500_000, provider_transaction_id=transaction_id)
            conclude(transaction_id, answer=answer, called_at=services.clock.now())
        assert [call.result().status for call in calls] == ["created", "succeeded", "succeeded"]
