"""`postings`: transfers per second through the service, beside pgbench calling the same function of the database.

The service's part begins with the draft of a transfer and ends with its commit; the rest of a request is in `calls`.
"""

from __future__ import annotations

import random
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import orjson
import psycopg

from benchmarks.database import CLIENT_ID, FIRST_NUMBER, create_bench_database
from benchmarks.report import Size, print_table, ratios, spread
from benchmarks.services import opened_services
from testbed.postgres import binaries, temporary_server
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.database.unit_of_work import release_connection
from ussd_server.services.accounts.ledger import DEPOSITS_ACCOUNT
from ussd_server.services.gates.messages import WayOut
from ussd_server.services.operations.book_check.check import check_ranges
from ussd_server.services.transactions.create import DraftColumns, Plan, RequestIdentity, TransactionCreator
from ussd_server.services.transactions.history import batch_of
from ussd_server.services.transactions.messages import Source, TransactionType

_ACCOUNTS = 1000
_FUNDS_CENTS = 99_999_900
_THREADS = (1, 8)
# Which account a transfer credits, as pgbench writes it: another of all, or always the same one.
_CREDITS = {"many": f"(:debit + random(1, {_ACCOUNTS - 1})) % {_ACCOUNTS}", "one": str(_ACCOUNTS)}
_SCRIPT = """
\\set debit random(0, {last})
\\set credit {credit}
SELECT transactions_record(bench_document(nextval('bench_numbers'), :debit, :credit));
"""
# What the service sends for a transfer, with other ids, another reference and other accounts every time.
_DOCUMENT = """
CREATE FUNCTION bench_document(number bigint, debit bigint, credit bigint) RETURNS jsonb LANGUAGE sql AS $$
    SELECT replace(replace(replace($document${document}$document$, '#number#', number::text),
        '#debit#', lpad(debit::text, 8, '0')), '#credit#', lpad(credit::text, 8, '0'))::jsonb $$
"""
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Work(NamedTuple):
    """What the service has to do: post with so many threads for so long, under references that begin with `name`."""

    name: str
    threads: int
    accounts: str  # "many" or "one"
    seconds: float


def measure_postings(size: Size) -> dict[str, Any]:
    """Make transfers through the service and through pgbench in turn, verify the ledger, and return the rates."""
    rounds, seconds = size.rounds, size.seconds
    seen: dict[tuple[str, int], list[tuple[float, float]]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-")))
        url = create_bench_database(stack.enter_context(temporary_server(is_durable=True)).url)
        services = stack.enter_context(opened_services(folder, {"USSD_DATABASE_URL": url}))
        pool = stack.enter_context(ThreadPoolExecutor(max(_THREADS)))
        hand = stack.enter_context(psycopg.connect(url, autocommit=True))
        creator = TransactionCreator(services.runtime)
        recorded = sum(pool.map(partial(_fund, creator), range(_ACCOUNTS)))
        _prepare_pgbench(hand, folder, creator)
        for number in range(1 + rounds):
            hand.execute("ANALYZE")
            hand.execute("CHECKPOINT")
            for accounts in _CREDITS:
                for threads in _THREADS:
                    ours, count = _post(
                        pool, creator, Work(f"{number} {accounts} {threads}", threads, accounts, seconds)
                    )
                    theirs, other = _run_pgbench(url, folder, threads, accounts, seconds)
                    recorded += count + other
                    # The first round warms up.
                    if number:
                        seen.setdefault((accounts, threads), []).append((ours, theirs))
        for checked in check_ranges():
            assert not checked.violations, checked.violations[:3]
        assert hand.execute("SELECT count(*) FROM transactions").fetchone() == (recorded,)
    postings = []
    for (accounts, threads), pairs in seen.items():
        ours_seen, theirs_seen = zip(*pairs, strict=True)
        postings.append(
            {
                "accounts": accounts,
                "threads": threads,
                "service": spread(ours_seen),
                "pgbench": spread(theirs_seen),
                "ratio": ratios(ours_seen, theirs_seen),
            }
        )
    print_table(f"Transfers per second with fsync, {rounds} rounds of {seconds} s", postings)
    return {"postings": postings}


def _fund(creator: TransactionCreator, number: int) -> int:
    """Give an account money; return 1, the number of transactions."""
    name = _account(number)
    identity = RequestIdentity(CLIENT_ID, TransactionType.DEPOSIT, "", f"funds {number}")
    plan = Plan(_FUNDS_CENTS, DraftColumns(account=name), moves=(DEPOSITS_ACCOUNT, name))
    creator.create(identity, plan, Source.OPERATOR)
    release_connection()
    return 1


def _prepare_pgbench(hand: psycopg.Connection, folder: Path, creator: TransactionCreator) -> None:
    hand.execute(f"CREATE SEQUENCE bench_numbers START {FIRST_NUMBER}")
    hand.execute(_DOCUMENT.replace("{document}", _document(creator)))
    for accounts, credit in _CREDITS.items():
        (folder / accounts).write_text(_SCRIPT.format(last=_ACCOUNTS - 1, credit=credit))


def _document(creator: TransactionCreator) -> str:
    """Return what the service sends to the database for a transfer, with marks in place of what changes."""
    draft = creator.draft(_identity("#number#"), _plan("+2567#debit#", "+2567#credit#"))
    text = orjson.dumps(batch_of(draft, Source.SUBMIT)[0]).decode()
    for place, own in enumerate(sorted(set(_ID.findall(text)) - {CLIENT_ID})):
        text = text.replace(own, f"{place:08}-0000-7000-8000-#number#")
    return text


def _run_pgbench(url: str, folder: Path, threads: int, accounts: str, seconds: float) -> tuple[float, int]:
    """Return the transfers per second of so many clients of pgbench, and how many they made."""
    # pgbench counts whole seconds. What is to be shorter makes a few transfers, and is no measurement.
    length = ("-T", str(round(seconds))) if seconds >= 1 else ("-t", "20")
    clients = ("-c", str(threads), "-j", str(min(threads, 2)))
    printed = subprocess.run(
        [binaries() / "pgbench", "-n", "-M", "prepared", *clients, *length, "-f", folder / accounts, url],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    rate = re.search(r"tps = ([0-9.]+)", printed)
    count = re.search(r"transactions actually processed: ([0-9]+)", printed)
    assert rate is not None
    assert count is not None
    assert "number of failed transactions: 0 " in printed
    return float(rate[1]), int(count[1])


def _post(pool: ThreadPoolExecutor, creator: TransactionCreator, work: Work) -> tuple[float, int]:
    """Post with so many threads; return transfers per second, and how many were made."""
    began = time.perf_counter()
    count = sum(pool.map(partial(_post_by_thread, creator, work, began), range(work.threads)))
    return count / (time.perf_counter() - began), count


def _post_by_thread(creator: TransactionCreator, work: Work, began: float, place: int) -> int:
    """Make transfers, and give the connection back after each, as requests do; return how many."""
    done, sending = 0, creator.gate.admit(WayOut.PAYMENT, RequestContext(Caller(CallerKind.KEY, CLIENT_ID, None)))
    while time.perf_counter() - began < work.seconds:
        debit = random.randrange(_ACCOUNTS)
        credit = _ACCOUNTS if work.accounts == "one" else (debit + random.randrange(1, _ACCOUNTS)) % _ACCOUNTS
        payer, payee = _account(debit), _account(credit)
        try:
            identity = _identity(f"{work.name} {place} {done}")
            creator.create(identity, _plan(payer, payee), sending=sending)
        finally:
            release_connection()
        done += 1
    return done


def _identity(reference: str) -> RequestIdentity:
    return RequestIdentity(CLIENT_ID, TransactionType.TRANSFER, "0" * 64, reference)


def _plan(payer: str, payee: str) -> Plan:
    columns = DraftColumns(phone_number=payer, account=payer, to_phone_number=payee, request_id="0" * 32)
    return Plan(1, columns, moves=(payer, payee))


def _account(number: int) -> str:
    """Return the name of a subscriber's account."""
    return f"+2567{number:08}"
