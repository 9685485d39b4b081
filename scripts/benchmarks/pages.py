"""`pages`: the time of a page of transactions in a table of 1,000 rows and in a large one."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from benchmarks.database import CLIENT_ID, FIRST_NUMBER, add_transactions, create_bench_database, transaction_id
from benchmarks.report import Size, print_table, ratios, spread
from benchmarks.services import opened_services
from testbed.postgres import PostgresServer
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.database.unit_of_work import release_connection
from ussd_server.messages.transactions import ListTransactions, TransactionStatus, TransactionType
from ussd_server.security.key_ring import Keyring
from ussd_server.security.tokens import Tokens

FEW = 1_000
_PAGE = 50
_WARM_UP_PAGES, _PAGES_A_ROUND = 20, 100
_PAGES = ("newest", "in the middle", "of a type", "of a phone number", "of a rare status")


def measure_pages(size: Size) -> dict[str, Any]:
    """Read pages of 50 in turn from the small and the large table, as the service does; return their costs."""
    costs: dict[tuple[str, int], list[float]] = defaultdict(list)
    with TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        homes = {name: Path(folder) / name for name in ("server", "home")}
        for home in homes.values():
            home.mkdir()
        server = PostgresServer(homes["server"], is_durable=True)
        try:
            urls = {rows: _filled(server.url, rows) for rows in (FEW, size.rows)}
            for _ in range(size.rounds):
                for rows, url in urls.items():
                    with opened_services(homes["home"], {"USSD_DATABASE_URL": url}) as services:
                        for page, request in _requests(services, rows).items():
                            costs[page, rows].append(_median_ms(services, request))
        finally:
            server.stop()
    pages = []
    for page in _PAGES:
        few, many = costs[page, FEW], costs[page, size.rows]
        pages.append({"page": page, "ms_of_few": spread(few), "ms_of_many": spread(many), "ratio": ratios(many, few)})
    print_table(f"Pages of {_PAGE} in milliseconds, at {FEW:,} and at {size.rows:,} rows", pages)
    return {"pages": pages}


def _filled(server_url: str, rows: int) -> str:
    """Make a database with so many transactions of one client; the oldest page has a status of its own."""
    url = create_bench_database(server_url)
    with psycopg.connect(url, autocommit=True) as connection:
        add_transactions(connection, FIRST_NUMBER, FIRST_NUMBER + rows - 1)
        connection.execute(
            "UPDATE transactions SET status = 'submitted' WHERE id < %s", (transaction_id(FIRST_NUMBER + _PAGE),)
        )
        connection.execute("VACUUM ANALYZE transactions")
    return url


def _requests(services: Services, rows: int) -> dict[str, ListTransactions]:
    tokens = Tokens(Keyring(services.settings.secrets_file))
    middle = tokens.cursor("transactions", transaction_id(FIRST_NUMBER + rows // 2))
    requests = (
        ListTransactions(limit=_PAGE),
        ListTransactions(limit=_PAGE, cursor=middle),
        ListTransactions(limit=_PAGE, type=TransactionType.DISBURSEMENT),
        ListTransactions(limit=_PAGE, phone_number="+256771000000"),
        ListTransactions(limit=_PAGE, status=TransactionStatus.SUBMITTED),
    )
    return dict(zip(_PAGES, requests, strict=True))


def _median_ms(services: Services, request: ListTransactions) -> float:
    context = RequestContext(Caller(CallerKind.KEY, client_id=CLIENT_ID, grants=None))
    costs = []
    for number in range(_WARM_UP_PAGES + _PAGES_A_ROUND):
        began = time.perf_counter()
        page = services.transactions.transactions.list(request, context)
        release_connection()
        if number >= _WARM_UP_PAGES:
            costs.append(1000 * (time.perf_counter() - began))
        assert len(page.items) == _PAGE
    return median(costs)
