"""The till plays what happens at a till, against the service."""

from __future__ import annotations

import httpx2
from flask import Flask

from simulators.till import Till, play_all
from tests.conftest import MovableClock
from tests.support.example_client import ExampleClient
from tests.support.money import balances, operator
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.incoming.messages import PutPaymentCode, SetPrefix


def test_every_case_at_a_till_ends_as_it_should(services: Services, app: Flask, clock: MovableClock) -> None:
    client = ExampleClient(services)
    services.payment_codes.set_prefix(SetPrefix(client.id, "SCH"), operator())
    services.payment_codes.put(PutPaymentCode("SCH1042", "Fees", amount_cents=5000_00), operator_context(client.id))
    # A payment of two days ago is for a code that was there.
    clock.advance(3 * 86_400)
    (paths,) = services.notices.paths(operator())
    with httpx2.Client(transport=httpx2.WSGITransport(app=app)) as http:
        till = Till(f"http://service{paths.path}", paths.secret, http, clock.now)
        replies = {reply.case: reply for reply in play_all(till, "SCH1042", 5000, "+256770000000", "T1")}
    assert {case: (reply.accepted, reply.status or reply.status_code) for case, reply in replies.items()} == {
        "right": (True, "booked"),
        "repeated": (True, "booked"),
        "written otherwise": (True, "booked"),
        "mistyped": (False, "held"),
        "without a code": (False, "held"),
        "another amount": (False, "held"),
        "late": (True, "booked"),
        "signed too long ago": (True, 401),
    }
    assert replies["repeated"].transaction_id == replies["right"].transaction_id
    assert balances(client.id)["main"] == (15_000_00, 0)
