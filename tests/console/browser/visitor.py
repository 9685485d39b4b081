"""A person with a browser, who expects the same of every page."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyotp
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect

from tests.conftest import PROGRAM_FOLDERS
from tests.services.reconciliation.statement_files import csv_file
from tests.support.example_client import OPERATOR, PASSWORD, ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.incoming.messages import NotifyPayment, PutPaymentCode, SetPrefix
from ussd_server.services.movements.messages import ListMovements
from ussd_server.services.operators.messages import SecondFactor
from ussd_server.services.payouts.messages import CreatePayout
from ussd_server.services.reconciliation.messages import ListDifferences, ReconcileStatement
from ussd_server.services.transactions.messages import CreateTransaction, TransactionType

_AXE = (Path(__file__).parents[1] / "axe.min.js").read_text(encoding="utf-8")
_RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    # Of what is right, it collects nothing.
    "resultTypes": ["violations"],
}
# Words that are broken, filters on several lines of a wide page, and check boxes that are too small to hit.
_MISTAKES = """width => {
  const lines = (node, from, to) => {
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, to);
    return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size;
  };
  const found = [];
  for (const cell of document.querySelectorAll("td bdi"))
    for (const node of cell.childNodes)
      for (const word of (node.data ?? "").matchAll(/(?<!\\S)[A-Za-z]{2,13}(?!\\S)/g))
        if (lines(node, word.index, word.index + word[0].length) > 1) found.push(`broken: ${word[0]}`);
  for (const box of document.querySelectorAll("label > :is([type=checkbox], [type=radio])"))
    if (getComputedStyle(box.parentElement).display === "grid") found.push(`above its words: ${box.name}`);
  for (const form of document.querySelectorAll("form.filters"))
    if (width >= 1280 && form.offsetHeight > 80) found.push(`several lines: ${form.outerHTML}`);
  for (const code of document.querySelectorAll("td.phone code"))
    if (/^[+]?[0-9]{9,13}$/.test(code.textContent) && lines(code, 0, 1) > 1) found.push(`broken: ${code.textContent}`);
  for (const box of document.querySelectorAll("td.select input"))
    if (box.offsetWidth < 15) found.push("a check box is too small");
  return found;
}"""
# How wide the page is, as it is and with each of its panels open.
_WIDEST = """() => {
  const closed = [...document.querySelectorAll("main details:not([open])")];
  const widths = [document.documentElement.scrollWidth];
  for (const panel of closed) panel.open = true;
  widths.push(document.documentElement.scrollWidth);
  for (const panel of closed) panel.open = false;
  return Math.max(...widths);
}"""
# A busy machine may take long for a page.
_PATIENCE_MILLISECONDS = 90_000
expect.set_options(timeout=_PATIENCE_MILLISECONDS)
# Each scheme and each width once.
LOOKS = (("dark", 360), ("light", 1280))
# By day that of a phone alone, where it is one page that is used.
LOOKS_OF_ONE_PAGE = (LOOKS[0], pytest.param(*LOOKS[1], marks=pytest.mark.nightly))

_AT = datetime(2026, 11, 20, 8, 15, tzinfo=UTC)

Paths = tuple[str, ...]
ShareOfPages = Callable[[str, Paths], Paths]


class Chromium:
    """Debian's Chromium. When it died, as it may on a machine without free memory, the next context starts it anew."""

    def __init__(self, playwright: Playwright) -> None:
        self.browser_type = playwright.chromium
        self._browser: Browser | None = None

    def new_context(self, **options: Any) -> BrowserContext:
        """A context without cookies, with playwright's options."""
        if self._browser is None or not self._browser.is_connected():
            path = shutil.which("chromium", path=PROGRAM_FOLDERS)
            self._browser = self.browser_type.launch(executable_path=path, args=["--no-sandbox"])
        return self._browser.new_context(**options)

    def close(self) -> None:
        """End the browser, if there is one."""
        if self._browser is not None:
            self._browser.close()


@dataclass
class Console:
    """A running console and the client whose people use it."""

    base_url: str
    services: Services
    client: ExampleClient

    def pay(self) -> str:
        """Make a payment and advance it as the worker would; returns its id."""
        context = operator_context(self.client.id)
        text = "<b>Maize</b> שלום עולם 🦒 " + "long" * 30
        order = CreateTransaction(
            TransactionType.COLLECTION, "+256770000000", 500_000, secrets.token_hex(32), description=text
        )
        made = self.services.transactions.create(order, context).transaction.transaction_id
        self.advance(made)
        return made

    def advance(self, transaction_id: str) -> None:
        """Advance a payment as the worker would."""
        settlement = self.services.processing
        next(settlement.advance(claimed) for claimed in settlement.claim(100) if claimed.id == transaction_id)

    def draft_payout(self) -> str:
        """Upload a payout that waits for an approval; returns its id."""
        file = f"phone,amount,ref,name\n0770000000,5000,E-1,<b>{'long' * 20}</b> שלום\n2.5E+11,1,E-2,\n".encode()
        wanted = CreatePayout(secrets.token_hex(32), "<b>Salaries</b> 🦒", file=file)
        return self.services.payouts.create(wanted, self.client.call()).payout.payout_id

    def open_code(self) -> str:
        """Make a payment code, and return the page of its sheet."""
        self.services.payment_codes.set_prefix(SetPrefix(self.client.id, "SCH"), OPERATOR)
        code = PutPaymentCode("SCH1042", "<b>Fees</b> 🦒 " + "long" * 20, max_amount_cents=500_000_00)
        made = self.services.payment_codes.put(code, operator_context(self.client.id))
        return f"/payment-codes/{made.code}"

    def hold_payment(self) -> str:
        """Report a payment with a mistyped code, and return its page."""
        self.open_code()
        receipt = secrets.token_hex(20)
        typed, name = "sch 1O42 " + "long" * 30, "<b>שרה</b> " + "long" * 20
        for code in ("sch 1O42", typed):
            notice = NotifyPayment("sandbox", f"{receipt}{len(code)}", code, 123_456_00, "+256770000000", _AT, name)
            self.services.notices.notify(notice, OPERATOR)
        held = self.services.movements.list(ListMovements(is_held=True), OPERATOR).items
        return f"/operator/movements/{held[-1].movement_id}"

    def compare_statement(self) -> tuple[str, str]:
        """Compare a statement with a payment that we do not know; returns the pages of it and of its difference."""
        line = ["7", "<b>longlonglong</b>", "2026-11-22 10:00:00", "Successful", "Payment", "FRI:256770000000/MSISDN"]
        file = csv_file([[*line, "FRI:41000001/MM", "5,000", "UGX", "0", "0"]])
        services, context = self.services, operator_context()
        wanted = ReconcileStatement("sandbox", f"{secrets.token_hex(40)}<b>.csv", BytesIO(file), is_confirmed=True)
        statement_id = services.provider_statements.reconcile(wanted, context).statement.statement_id
        (found,) = services.differences.list(ListDifferences(statement_id), context).items
        return f"/operator/reconciliation/{statement_id}", f"/operator/differences/{found.difference_id}"


class Visitor:
    """Signs in once and looks at pages: a person of the client, or with `factor` an operator."""

    def __init__(
        self, console: Console, browser: Chromium, role: str = "owner", factor: SecondFactor | None = None
    ) -> None:
        self.console = console
        self.browser = browser
        self.factor = factor
        self.email = factor.operator.email if factor else console.client.email(role)
        with self.tab(signed_in=False) as page:
            self.sign_in(page)
            self._cookies: Any = page.context.storage_state()

    def sign_in(self, page: Page) -> None:
        """Fill in the sign-in form."""
        page.goto(f"{self.console.base_url}/console{'/operator' if self.factor else ''}/sign-in")
        page.get_by_label("E-mail").fill(self.email)
        page.get_by_label("Password").fill(PASSWORD)
        if self.factor:
            page.get_by_label("Code").fill(pyotp.TOTP(self.factor.secret).now())
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/console/operator" if self.factor else "**/console")

    @contextmanager
    def tab(self, scheme: str = "light", width: int = 1600, *, signed_in: bool = True) -> Iterator[Page]:
        """A tab. When it is left, it must have asked no other host and written no error to its console."""
        context = self.browser.new_context(
            base_url=self.console.base_url,
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            # Where no pointer can rest on a time, it is written longer.
            has_touch=width < 600,
            storage_state=self._cookies if signed_in else None,  # type: ignore[arg-type]
        )
        context.set_default_timeout(_PATIENCE_MILLISECONDS)
        page = context.new_page()
        faults: list[str] = []
        host = urlsplit(self.console.base_url).netloc

        def is_own(url: str) -> bool:
            return host in url[:40] or url.startswith("data:")

        page.on("console", lambda line: faults.append(line.text) if line.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: faults.append(request.url) if not is_own(request.url) else None)
        yield page
        context.close()
        assert faults == []

    def look_at(self, page: Page, path: str = "") -> None:
        """Open a page, unless it is open, and check what holds for every page."""
        if path:
            assert page.goto(f"/console{path}".rstrip("/")).status == 200  # type: ignore[union-attr]
        page.evaluate(_AXE)
        found = page.evaluate("async rules => (await axe.run(document, rules)).violations", _RULES)
        faults = [(fault["id"], [node["html"][:200] for node in fault["nodes"]]) for fault in found]
        assert not faults, f"{page.url}: {faults}"
        width = page.viewport_size["width"]  # type: ignore[index]
        for each in (768, width):
            self.check_width(page, each)

    def check_width(self, page: Page, width: int) -> None:
        """Check that the open page, its tables and each of its panels fit a width, with its words whole."""
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(_WIDEST) <= width, page.url
        too_wide = "parts => parts.filter(part => part.scrollWidth > part.clientWidth).map(part => part.outerHTML)"
        assert page.locator(".table, .big").evaluate_all(too_wide) == [], page.url
        mistakes = page.evaluate(_MISTAKES, width)
        assert mistakes == [], f"{page.url}: {mistakes}"
