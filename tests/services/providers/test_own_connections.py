"""A client may have a connection to a provider of its own, which then serves nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import MovableClock
from tests.services.processing.moves import NUMBERS, Move, second_connection
from tests.support.books import check_everything
from tests.support.money import a_client, deposit, operator, request
from ussd_server.models.clients import AuditEvent
from ussd_server.models.transactions import Transaction
from ussd_server.services.processing.messages import Callback
from ussd_server.services.providers.messages import ChooseConnection
from ussd_server.settings import Settings
from ussd_server.status import ServiceError


@pytest.fixture(params=NUMBERS)
def move(request: pytest.FixtureRequest, settings: Settings, clock: MovableClock) -> Iterator[Move]:
    with ExitStack() as stack:
        made = Move(stack, settings, clock, request.param)
        made.start(made.new, **second_connection(made, "OWN"))
        yield made


def choose(move: Move, client_id: str, name: str, **changed: Any) -> None:
    wanted = {"reason": "Its own contract", "by": "Ann", "second": "Ben"} | changed
    move.services.own_connections.choose(ChooseConnection(client_id, name, **wanted), operator())


def test_new_payments_of_a_client_go_by_its_own_connection_and_those_of_others_do_not(move: Move) -> None:
    own = f"{move.provider}-own"
    other = a_client()
    deposit(move.services, other, 20_000)
    choose(move, move.client.client_id, own)
    mine = move.pay("disbursement", "mine", 700)
    order = request("disbursement", NUMBERS[move.provider], 800, reference="theirs")
    theirs = move.services.transactions.create(order, other).transaction.transaction_id
    move.work(700)
    rows = [Transaction.get_by_id(each) for each in (mine, theirs)]
    assert [row.status for row in rows] == ["succeeded"] * 2
    assert [row.sent_to.startswith(move.addresses[move.old]) for row in rows] == [True, False]
    assert (move.submits(move.old), move.submits(move.new)) == (1, 1)
    shown = [move.services.reviews.show(each, operator()).connection for each in (mine, theirs)]
    assert shown == [own, move.provider]
    assert AuditEvent.select().where(AuditEvent.action == "client.connection_chosen").count() == 1

    choose(move, move.client.client_id, own, is_shared=True)
    last = move.pay("disbursement", "last", 900)
    move.work(100)
    assert Transaction.get_by_id(last).sent_to is not None
    assert check_everything() == []


@pytest.mark.parametrize("move", ["mtn"], indirect=True)
def test_a_connection_is_given_once_and_one_stays_for_the_others(move: Move) -> None:
    other = a_client()
    choose(move, move.client.client_id, "mtn-own")
    refused: tuple[tuple[str, dict[str, str], str], ...] = (
        ("mtn-own", {}, "mtn-own is another client's"),
        ("mtn", {}, "No other connection takes new payments at mtn"),
        ("airtel", {}, "Must be one of: mtn-own, mtn, sandbox"),
        ("mtn", {"second": "ann"}, "Two different people"),
        ("mtn", {"reason": ""}, "A reason is needed"),
    )
    for name, changed, sentence in refused:
        with pytest.raises(ServiceError, match=sentence):
            choose(move, other.client_id, name, **changed)


@pytest.mark.parametrize("move", ["mtn"], indirect=True)
def test_a_client_whose_own_connection_left_the_settings_pays_by_no_other(move: Move) -> None:
    choose(move, move.client.client_id, "mtn-own")
    move.start(move.new)
    with pytest.raises(ServiceError, match="is not switched on here"):
        move.pay("disbursement")


@pytest.mark.parametrize("move", ["mtn"], indirect=True)
def test_a_connection_of_a_client_alone_gets_the_callbacks_of_its_provider(move: Move) -> None:
    choose(move, move.client.client_id, "mtn-own")
    move.start(move.new, **second_connection(move, "OWN") | {"USSD_PROVIDERS": "mtn-own,sandbox"})
    move.old.switches.change({"approve_delay_seconds": 200.0})
    payment = move.pay("collection")
    move.work(0)
    Transaction.update(due_at=move.clock.now() + timedelta(hours=1)).where(Transaction.id == payment).execute()
    (shown,) = move.services.callbacks.paths(operator())
    body = json.dumps({"externalId": Transaction.get_by_id(payment).provider_reference}).encode()
    move.services.callbacks.receive(Callback("mtn", shown.path.rpartition("/")[2], body))
    assert Transaction.get_by_id(payment).due_source == "callback"
