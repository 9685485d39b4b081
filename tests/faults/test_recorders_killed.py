"""Processes that record for many callers are killed in the middle of it: what was answered is there, and whole."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import pytest

from tests.support.books import check_everything
from tests.support.commands import FORK_SERVER
from tests.support.money import a_client, balances, deposit, request
from ussd_server.bootstrap import Services, build_services
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import release_connection
from ussd_server.models.transactions import Transaction
from ussd_server.settings import Settings
from ussd_server.status import Code, ServiceError

CALLERS, KILLS = 8, 4
ANSWERS_BEFORE_A_KILL = 60
PATIENCE_SECONDS = 60


def serve(settings: Settings, context: RequestContext, name: str, reported: Connection) -> None:
    """Create payments for eight callers at once, for ever; report each reply to the test before the next call."""
    services = build_services(settings)

    def order(place: int) -> None:
        number = 0
        while True:
            kind = ("collection", "disbursement", "transfer")[number % 3]
            more = {"to_phone_number": "+256770000001"} if kind == "transfer" else {}
            reference = f"{name} {place} {number}"
            try:
                recorded = services.transactions.create(
                    request(kind, "+256770000000", 10 if kind == "collection" else 1, reference=reference, **more),
                    context,
                )
            except ServiceError as refusal:
                # The account that a transfer debits is empty.
                if refusal.code is not Code.INSUFFICIENT_BALANCE:
                    raise
            else:
                # One write of so few bytes is never cut in two, also not by a kill.
                os.write(reported.fileno(), f"{recorded.transaction.transaction_id} {reference}\n".encode())
            finally:
                release_connection()
            number += 1

    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(order, range(CALLERS)))


def killed_while_recording(settings: Settings, context: RequestContext, name: str) -> dict[str, str]:
    """Start a process that records, kill it; gives the transactions that it answered, by their references."""
    ours, theirs = FORK_SERVER.Pipe(duplex=False)
    process: Any = FORK_SERVER.Process(target=serve, args=(settings, context, name, theirs), daemon=True)
    process.start()
    theirs.close()
    with os.fdopen(os.dup(ours.fileno())) as lines:
        answers = [next(lines) for _ in range(ANSWERS_BEFORE_A_KILL)]
        os.kill(process.pid, signal.SIGKILL)
        answers += lines
    ours.close()
    process.join(PATIENCE_SECONDS)
    assert process.exitcode == -signal.SIGKILL
    return {reference: transaction_id for transaction_id, reference in (line.strip().split(" ", 1) for line in answers)}


@pytest.mark.slow
def test_whatever_was_answered_before_a_kill_is_recorded_once_and_nothing_is_half_recorded(
    services: Services, settings: Settings
) -> None:
    context = a_client()
    deposit(services, context, 900_000)
    release_connection()
    for kill in range(KILLS):
        answered = killed_while_recording(settings, context, f"process {kill}")
        assert len(answered) >= ANSWERS_BEFORE_A_KILL
        recorded = {row.reference: row.id for row in Transaction.select(Transaction.id, Transaction.reference)}
        assert answered.items() <= recorded.items()
        assert check_everything() == []
    held = Transaction.select().where(Transaction.type == "disbursement").count()
    assert balances(context.client_id)["main"] == (90_000_000, held * 100)
