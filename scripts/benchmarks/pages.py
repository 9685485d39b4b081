"""`pages`: the time of a page of transactions in a table of 1,000 rows and in a large one."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.database import CALL, FEW, FIRST_NUMBER, create_bench_database, fill
from benchmarks.report import Size, compared, print_table
from benchmarks.services import opened_services, quick_ms
from testbed.postgres import temporary_server
from ussd_server.bootstrap import Services
from ussd_server.security.key_ring import Keyring
from ussd_server.security.tokens import Tokens
from ussd_server.services.transactions.messages import ListTransactions, TransactionStatus, TransactionType

_PAGE = 50
_PAGES = ("newest", "in the middle", "of a type", "of a phone number", "of a rare status")


def measure_pages(size: Size) -> dict[str, Any]:
    """Read pages of 50 in turn from the small and the large table, as the service does; return their costs."""
    costs: dict[tuple[str, int], list[float]] = defaultdict(list)
    with temporary_server() as server, TemporaryDirectory(prefix="bench-") as folder:
        home = Path(folder)
        urls = {rows: create_bench_database(server.url) for rows in (FEW, size.rows)}
        for rows, url in urls.items():
            with opened_services(home, {"USSD_DATABASE_URL": url}):
                fill(rows, _PAGE)
        for _ in range(size.rounds):
            for rows, url in urls.items():
                with opened_services(home, {"USSD_DATABASE_URL": url}) as services:
                    for page, request in _requests(services, rows).items():
                        costs[page, rows].append(_page_ms(services, request))
    pages = [{"page": page, "rows": size.rows, **compared(costs[page, FEW], costs[page, size.rows])} for page in _PAGES]
    print_table(f"Pages of {_PAGE} in milliseconds, at {FEW:,} and at {size.rows:,} rows", pages)
    return {"pages": pages}


def _requests(services: Services, rows: int) -> dict[str, ListTransactions]:
    tokens = Tokens(Keyring(services.settings.secrets_file))
    middle = tokens.cursor("transactions", f"01900000-0000-7000-8000-{FIRST_NUMBER + rows // 2}")
    requests = (
        ListTransactions(limit=_PAGE),
        ListTransactions(limit=_PAGE, cursor=middle),
        ListTransactions(limit=_PAGE, type=TransactionType.DISBURSEMENT),
        ListTransactions(limit=_PAGE, phone_number="+256771000000"),
        ListTransactions(limit=_PAGE, status=TransactionStatus.FAILED),
    )
    return dict(zip(_PAGES, requests, strict=True))


def _page_ms(services: Services, request: ListTransactions) -> float:
    assert len(services.transactions.list(request, CALL).items) == _PAGE
    return quick_ms(lambda: services.transactions.list(request, CALL))
