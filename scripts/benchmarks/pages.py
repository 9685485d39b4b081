"""`pages`: the time of a page of transactions in a table of 1,000 rows and in a large one."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.database import CLIENT_ID, FIRST_NUMBER, create_bench_database, fill
from benchmarks.report import Size, print_table, ratios, spread
from benchmarks.services import opened_services, quick_ms
from testbed.postgres import PostgresServer
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.messages.transactions import ListTransactions, TransactionStatus, TransactionType
from ussd_server.security.key_ring import Keyring
from ussd_server.security.tokens import Tokens

FEW = 1_000
_PAGE = 50
_PAGES = ("newest", "in the middle", "of a type", "of a phone number", "of a rare status")


def measure_pages(size: Size) -> dict[str, Any]:
    """Read pages of 50 in turn from the small and the large table, as the service does; return their costs."""
    costs: dict[tuple[str, int], list[float]] = defaultdict(list)
    with TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        homes = {name: Path(folder) / name for name in ("server", "home")}
        for home in homes.values():
            home.mkdir()
        server = PostgresServer(homes["server"])
        try:
            urls = {rows: create_bench_database(server.url) for rows in (FEW, size.rows)}
            for rows, url in urls.items():
                with opened_services(homes["home"], {"USSD_DATABASE_URL": url}):
                    fill(rows, _PAGE)
            for _ in range(size.rounds):
                for rows, url in urls.items():
                    with opened_services(homes["home"], {"USSD_DATABASE_URL": url}) as services:
                        for page, request in _requests(services, rows).items():
                            costs[page, rows].append(_page_ms(services, request))
        finally:
            server.stop()
    pages = []
    for page in _PAGES:
        few, many = costs[page, FEW], costs[page, size.rows]
        pages.append(
            {"page": page, "rows": size.rows, "ms_of_few": spread(few), "ms_of_many": spread(many),
             "ratio": ratios(many, few)}
        )  # fmt: skip
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
    context = RequestContext(Caller(CallerKind.KEY, client_id=CLIENT_ID, grants=None))
    assert len(services.transactions.transactions.list(request, context).items) == _PAGE
    return quick_ms(lambda: services.transactions.transactions.list(request, context))
