"""Conversations over SMPP, with an operator's side that other people wrote."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import MovableClock
from tests.smpp.operator_side import OperatorSide
from tests.support.eventually import eventually
from tests.support.shop import OPERATOR, PHONE
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.ussd.messages import ChannelView

# What SQL decides is tried on both databases by test_savings.py.
pytestmark = [pytest.mark.needs_node, pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)]

Connect = Callable[..., ChannelView]
BEGIN, CONTINUE, REQUEST, RESPONSE, RELEASE = 1, 18, 2, 17, 129
CODE = "*384*123#"


def _statuses() -> list[str]:
    return [row.status for row in UssdSession.select().order_by(UssdSession.id)]


def test_a_subscriber_pays_in_a_conversation(operator: OperatorSide, connect: Connect) -> None:
    connect()
    bind = operator.wait("bind")
    assert (bind["ok"], bind["system_id"], bind["version"]) == (True, "acme", 0x34)
    first = operator.screen(BEGIN, CODE)
    assert first["text"].startswith("Welcome to ACME")
    assert (first["op"], first["session"], first["type"]) == (REQUEST, "026e", "USSD")
    assert (first["from"], first["to"]) == ("384123", "256770000000")
    assert operator.screen(CONTINUE, "1")["text"].startswith("Enter amount (UGX)")
    assert operator.screen(CONTINUE, "5000")["text"].startswith("Pay UGX 5,000?")
    last = operator.screen(CONTINUE, "1")
    assert last["text"] == "Approve the prompt on your phone."
    assert (last["op"], last["session"]) == (RESPONSE, "026f")
    assert _statuses() == ["completed"]
    assert [row.amount_cents for row in Transaction.select()] == [500_000]


@pytest.mark.parametrize(("op", "session"), [(RELEASE, "026e"), (CONTINUE, "026f"), (RESPONSE, "026e")])
def test_the_phone_ends_a_session(operator: OperatorSide, connect: Connect, op: int, session: str) -> None:
    connect()
    operator.screen(BEGIN, CODE)
    assert operator.deliver(op, "", session) == 0
    eventually(lambda: _statuses() == ["ended_by_user"])
    assert operator.count("submit") == 1


def test_a_begin_is_a_new_session_even_under_the_same_number(operator: OperatorSide, connect: Connect) -> None:
    connect()
    operator.screen(BEGIN, CODE)
    assert operator.screen(BEGIN, CODE)["text"].startswith("Welcome to ACME")
    assert _statuses() == ["active"]
    assert operator.screen(BEGIN, "*384*123*1#")["text"].startswith("Enter amount (UGX)")
    assert operator.screen(CONTINUE, "5000")["text"].startswith("Pay UGX")
    assert operator.screen(BEGIN, CODE)["text"].startswith("Welcome to ACME")
    assert _statuses() == ["ended_by_user", "ended_by_user", "active"]


def test_the_same_begin_after_two_seconds_is_a_new_session(
    operator: OperatorSide, connect: Connect, clock: MovableClock
) -> None:
    connect()
    operator.screen(BEGIN, CODE)
    clock.advance(2.1)
    operator.screen(BEGIN, CODE)
    assert _statuses() == ["ended_by_user", "active"]


def test_sequence_bits_keep_the_session_in_the_dialect_that_has_them(operator: OperatorSide, connect: Connect) -> None:
    connect(dialect="8+7")
    operator.screen(BEGIN, CODE, "2a00")
    assert operator.screen(CONTINUE, "1", "2a02")["text"].startswith("Enter amount (UGX)")
    assert operator.screen(CONTINUE, "5000", "2a04")["session"] == "2a04"


def test_mica_carries_the_session_in_its_reference(operator: OperatorSide, connect: Connect) -> None:
    connect(dialect="mica")
    for op, text, shown in ((BEGIN, CODE, "Welcome"), (CONTINUE, "1", "Enter amount")):
        before = operator.count("submit")
        operator.command(
            "deliver",
            short_message=text,
            ussd_service_op=op,
            user_message_reference=311,
            source_addr="256770000000",
            destination_addr="",
        )
        submitted = operator.wait("submit", before)
        assert submitted["text"].startswith(shown)
        assert (submitted["reference"], submitted["session"]) == (311, None)


def test_a_message_that_is_no_step_is_refused_and_the_bind_stays(operator: OperatorSide, connect: Connect) -> None:
    connect()
    assert operator.deliver(77, "hello") == 0x65
    assert operator.screen(BEGIN, CODE)["text"].startswith("Welcome")
    assert UssdSession.get().phone_number == PHONE


def test_a_closed_channel_is_unbound_within_five_seconds(
    operator: OperatorSide, connect: Connect, shop: object
) -> None:
    channel = connect()
    shop.services.channels.set_active(channel.channel_id, False, OPERATOR)
    operator.wait("unbind")
    operator.wait("closed")
    shop.services.channels.set_active(channel.channel_id, True, OPERATOR)
    operator.wait("bind", 1)
