"""The questions of docs/guides/support-desk.md: each is answered after one search and at most two clicks."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.console.conftest import ConsoleVisitor, Operators, Visit
from tests.services.webhooks.receivers import Receiver, answering, deliver, subscribe
from tests.support.example_client import OPERATOR, ExampleClient
from tests.support.money import deposit, request, work
from tests.support.shop import CODE, Shop
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.incoming.messages import NotifyPayment
from ussd_server.services.payouts.messages import ApprovePayout, CreatePayout
from ussd_server.services.transactions.messages import CreateRefund, ListTransactions
from ussd_server.services.ussd.messages import BeginSession

_PAGE = Path(__file__).parents[3] / "docs" / "guides" / "support-desk.md"


def questions() -> list[tuple[str, int, str]]:
    """The questions of the guide, with the clicks after the search and what the last page says."""
    rows = [line.split("|")[1:-1] for line in _PAGE.read_text().splitlines() if re.match(r"\| [0-9]+ \|", line)]
    return [(asked.strip(), way.count("**") // 2, says.strip(" `")) for _, asked, _, way, says in rows]


def text_of(page: str) -> str:
    """What a person reads on a page."""
    main = page[page.index("<main") :]
    return " ".join(unescape(re.sub(r"<[^>]+>", "", main)).split())


class Desk:
    """Searches, and counts the clicks until an answer is read."""

    def __init__(self, visitor: ConsoleVisitor, search: str = "/search") -> None:
        self.visitor = visitor
        self.search = search

    def asks(self, question: str, text: str, *clicks: str) -> None:
        """Search for `text` and follow the links with the titles `clicks`; the guide's answer is read at the end."""
        ((_, clicks_written, says),) = [row for row in questions() if row[0] == question]
        assert len(clicks) == clicks_written <= 2, question
        page = self.visitor.web.get(f"/console{self.search}", query_string={"q": text}, follow_redirects=True).text
        for title in clicks:
            links = re.findall(r'<a[^>]* href="([^"]+)"[^>]*>(?:<[^>]+>)*([^<]+)', page[page.index("<main") :])
            address = next(unescape(address) for address, link in links if title in unescape(link))
            page = self.visitor.web.get(address).text
        assert re.search(re.escape(says).replace("…", ".*"), text_of(page)), (question, text_of(page))


def test_the_ten_questions_of_a_support_desk_are_answered(
    visit: Visit,
    operator: Operators,
    services: Services,
    clock: MovableClock,
    example_client: ExampleClient,
    web: FlaskClient,
) -> None:
    context, create = operator_context(example_client.id), services.transactions.create
    Shop(services, client_id=example_client.id)
    deposit(services, context, 900_000)
    services.api_sessions.begin(BeginSession("+256770000000", CODE), context)
    clock.advance(1000)
    services.api_sessions.end_expired(10)
    with Receiver(answering(500)) as receiver:
        subscribe(services, context, receiver.url, "transaction.succeeded")
        twice = [create(request(reference=f"order-{number}"), context).transaction for number in (1, 2)]
        create(request(number="+256770000009", reference="late"), context)
        rows = ({"phone_number": "+256770000008", "amount": 10, "reference": "E-1", "name": "Sarah Namubiru"},)
        payout = services.payouts.create(CreatePayout("NOV", items=rows), example_client.call()).payout
        services.payouts.approve(ApprovePayout(payout.payout_id), example_client.call("admin"))
        while due := services.payout_sender.claim(10):
            for each in due:
                services.payout_sender.advance(each)
        work(services, clock, 5)
        deliver(services)
    services.refunds.create(CreateRefund(twice[1].transaction_id, "back", 500_000, "Paid twice"), context)
    work(services, clock, 2)
    create(request(number="+256770000004", reference="waits"), context)
    work(services, clock)
    notice = NotifyPayment("sandbox", "SBX77", "SCHH1", 500_000, "+256770000000", clock.now(), "Achieng Grace")
    services.notices.notify(notice, OPERATOR)
    key = example_client.create_key("balance:read")
    headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret, "X-Request-Id": "refused-1"}
    web.post("/api/transactions", json={"reference": "R1"}, headers=headers)
    services.runtime.request_recorder.write()
    (receipt,) = (
        each.provider_transaction_id or ""
        for each in services.transactions.list(ListTransactions(reference="order-1"), context).items
    )
    viewer, developer = Desk(visit("viewer")), Desk(visit("developer"))
    viewer.asks("The screen said failed, but my money left.", "0770 000 009")
    viewer.asks("I paid, and the shop has nothing.", receipt.lower())
    viewer.asks("I was charged twice.", "770000000", "History of this number")
    viewer.asks("I dialled, and the menu stopped.", "0770000000", "Session")
    viewer.asks("Where is my refund?", "0770000000")
    viewer.asks("My salary did not come.", "namubi")
    viewer.asks("Does my payment still wait?", "waits")
    developer.asks("Our server got no webhook of an order.", "order-1", "transaction.succeeded")
    developer.asks("Our call was refused.", "refused-1")
    Desk(operator("ann"), "/operator/search").asks("I typed a wrong code at the till.", "sbx77")
