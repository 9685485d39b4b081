"""What happens when the link to the operator, the operator or a process of ours fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MovableClock
from tests.outbound.certificates import Authority
from tests.smpp.conftest import channel_to, serving
from tests.smpp.operator_side import OperatorSide
from tests.support.eventually import eventually
from tests.support.shop import OPERATOR, Shop, shop_document
from ussd_server.bootstrap import Services
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import SmppBind, UssdSession
from ussd_server.services.menus.messages import SaveDraft
from ussd_server.services.ussd.messages import ChannelView
from ussd_server.smpp import bind as bind_module

# What SQL decides is tried on both databases by test_savings.py.
pytestmark = [pytest.mark.needs_node, pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)]

Connect = Callable[..., ChannelView]
BEGIN, CONTINUE = 1, 18
CODE = "*384*123#"
ENTRIES = (CODE, "1", "5000", "1")


def _reasons() -> set[str]:
    return {row.reason for row in SmppBind.select()}


def test_a_conversation_goes_on_after_its_link_was_cut_at_each_step(operator: OperatorSide, connect: Connect) -> None:
    connect()
    screens = []
    for number, entry in enumerate(ENTRIES):
        screens.append(operator.screen(CONTINUE if number else BEGIN, entry)["text"])
        operator.command("kill")
        operator.wait("bind", number + 1)
    assert screens[-1] == "Approve the prompt on your phone."
    assert Transaction.select().count() == 1


def test_a_step_that_the_operator_sends_again_after_a_cut_pays_once(operator: OperatorSide, connect: Connect) -> None:
    connect()
    for number, entry in enumerate(ENTRIES[:3]):
        operator.screen(CONTINUE if number else BEGIN, entry)
    operator.command("mood", submits="hold")
    lost = operator.screen(CONTINUE, "1")
    operator.command("kill")
    operator.command("mood", submits="accept")
    operator.wait("bind", 1)
    again = operator.screen(CONTINUE, "1")
    assert lost["text"] == again["text"] == "Approve the prompt on your phone."
    assert Transaction.select().count() == 1


def test_a_screen_goes_through_another_bind_when_its_own_is_gone(operator: OperatorSide, connect: Connect) -> None:
    connect(binds=2)
    assert operator.screen(BEGIN, CODE, bind=0)["text"].startswith("Welcome")
    assert operator.screen(CONTINUE, "1", bind=1)["text"].startswith("Enter amount")


def test_two_processes_hold_binds_of_one_channel(services: Services, operator: OperatorSide, connect: Connect) -> None:
    connect()
    with serving(services):
        operator.wait("bind", 1)
        for number, entry in enumerate(ENTRIES):
            # Both processes remember a "1", and only the service knows which is a repeat.
            last = operator.screen(CONTINUE if number else BEGIN, entry, bind=number % 2)
        assert last["text"] == "Approve the prompt on your phone."
    assert Transaction.select().count() == 1


def test_a_step_that_another_process_gets_again_pays_once(
    services: Services, operator: OperatorSide, connect: Connect
) -> None:
    connect()
    with serving(services):
        operator.wait("bind", 1)
        for number, entry in enumerate(ENTRIES[:3]):
            operator.screen(CONTINUE if number else BEGIN, entry)
        operator.command("mood", submits="hold")
        screens = [operator.screen(CONTINUE, "1", bind=bind)["text"] for bind in (0, 1, 0)]
        operator.command("release")
    assert set(screens) == {"Approve the prompt on your phone."}
    assert Transaction.select().count() == 1


def test_a_throttled_screen_is_submitted_again(operator: OperatorSide, connect: Connect) -> None:
    connect()
    operator.command("mood", refusals=2, status=0x58)
    operator.deliver(BEGIN, CODE)
    third = operator.wait("submit", 2)
    first, second, _ = (event["at"] for event in operator.events if event["event"] == "submit")
    assert second - first >= 290
    assert third["at"] - second >= 590
    operator.command("mood", refusals=1, status=0x14)
    assert operator.screen(CONTINUE, "1")["text"].startswith("Enter amount")
    operator.wait("submit", 4)


def test_a_refused_screen_is_not_submitted_again(operator: OperatorSide, connect: Connect) -> None:
    channel = connect()
    operator.command("mood", refusals=1, status=0x45)
    operator.screen(BEGIN, CODE)
    assert operator.screen(CONTINUE, "1")["text"].startswith("Enter amount")
    assert operator.count("submit") == 2
    eventually(lambda: SmppBind.get(SmppBind.channel_id == channel.channel_id).counts.get("failed") == 1)


def test_a_wrong_password_is_reported_and_tried_again_after_five_seconds(
    operator: OperatorSide, shop: Shop, services: Services
) -> None:
    channel_to(operator.port, shop, password="wrong")
    with serving(services):
        eventually(lambda: _reasons() == {"the operator refused the bind with status 0xd"})
        operator.wait("bind", 1)
    first, second = (event["at"] for event in operator.events if event["event"] == "bind")
    assert second - first >= 4900
    assert SmppBind.select().count() == 0, "a process that stopped has no binds"


@pytest.mark.parametrize("resume", ["confirm", "off"])
@pytest.mark.parametrize("fault", ["refused", "cut"])
def test_after_a_last_screen_that_never_arrived_the_redial_tells_the_payments_state(
    services: Services, operator: OperatorSide, connect: Connect, shop: Shop, resume: str, fault: str
) -> None:
    services.menus.save_draft(SaveDraft("shop", shop_document(resume=resume)), shop.call)
    services.menus.publish("shop", shop.call)
    connect()
    for number, entry in enumerate(ENTRIES[:3]):
        operator.screen(CONTINUE if number else BEGIN, entry)
    if fault == "refused":
        operator.command("mood", refusals=1, status=0x08)
        operator.screen(CONTINUE, "1")
    else:
        operator.command("mood", submits="hold")
        operator.screen(CONTINUE, "1")
        operator.command("kill")
        operator.command("mood", submits="accept")
        operator.wait("bind", 1)
    eventually(lambda: UssdSession.get().end_reason == "not_delivered")
    again = operator.screen(BEGIN, CODE, session="0300")["text"]
    assert "UGX 5,000" in again
    assert "being processed" in again
    assert Transaction.select().count() == 1


def test_a_last_screen_that_arrived_or_was_replaced_leaves_no_trace(
    operator: OperatorSide, connect: Connect, services: Services, shop: Shop
) -> None:
    connect()
    for number, entry in enumerate(ENTRIES):
        operator.screen(CONTINUE if number else BEGIN, entry)
    assert UssdSession.get().end_reason == "last_screen"
    assert operator.screen(BEGIN, CODE)["text"].startswith("Welcome")


def test_the_same_key_after_two_seconds_is_a_new_entry_though_the_operator_acknowledges_late(
    operator: OperatorSide, connect: Connect, clock: MovableClock
) -> None:
    connect()
    operator.screen(BEGIN, CODE)
    operator.command("mood", submits="hold")
    assert operator.screen(CONTINUE, "1")["text"].startswith("Enter amount")
    assert operator.screen(CONTINUE, "1")["text"].startswith("Enter amount"), "a repeat"
    time.sleep(2.1)
    clock.advance(2.1)
    assert operator.screen(CONTINUE, "1")["text"].startswith("Enter whole shillings")
    operator.command("release")


def test_a_half_open_connection_is_noticed(
    operator: OperatorSide, shop: Shop, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bind_module, "QUIET_SECONDS", 0.3)
    channel_to(operator.port, shop)
    with serving(services):
        operator.wait("bind")
        operator.wait("enquire", 1)
        monkeypatch.setattr(bind_module, "ANSWER_SECONDS", 0.3)
        operator.command("mood", mute=True)
        operator.wait("closed")
        operator.wait("bind", 1)


@pytest.mark.parametrize("octets", ["ff" * 64, "00" * 16, "00000010deadbeef"])
def test_garbage_ends_a_connection_and_not_the_process(
    operator: OperatorSide, connect: Connect, octets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bind_module, "QUIET_SECONDS", 0.5)
    monkeypatch.setattr(bind_module, "ANSWER_SECONDS", 0.5)
    connect()
    operator.command("raw", octets=octets)
    operator.wait("bind", 1)
    assert operator.screen(BEGIN, CODE)["text"].startswith("Welcome")


def test_a_deliver_sm_that_cannot_be_read_and_an_unknown_command_are_answered(
    operator: OperatorSide, connect: Connect
) -> None:
    connect()
    operator.command("raw", octets="00000012000000050000000000000fff4142")
    operator.command("raw", octets="0000001000000021000000000000ffff")
    assert operator.wait("nack")["status"] == 3
    operator.command("enquire")
    operator.wait("enquired")
    assert operator.count("bind") == 1


def test_the_operator_may_unbind(operator: OperatorSide, connect: Connect) -> None:
    connect()
    operator.command("unbind")
    operator.wait("unbound")
    operator.wait("bind", 1)
    assert operator.screen(BEGIN, CODE)["text"].startswith("Welcome")


def test_tls_is_checked_against_the_operators_own_authority(
    package: Path, shop: Shop, services: Services, tmp_path: Path
) -> None:
    authority = Authority()
    authority.certify(tmp_path / "operator.pem", "localhost")
    both = (tmp_path / "operator.pem").read_text()
    side = OperatorSide(package, {"key": both, "cert": both, "tls": True})
    try:
        url = f"smpps://localhost:{side.port}"
        trusted = channel_to(side.port, shop, url=url, authority=authority.pem)
        channel_to(side.port, shop, url=url)
        with serving(services):
            side.wait("bind")
            eventually(lambda: "the operator's certificate is not trusted" in _reasons())
            binds = {each.channel_id: each.binds for each in services.channels.list(OPERATOR) if each.smpp_url}
            assert [bind.state for bind in binds[trusted.channel_id]] == ["bound"]
        assert side.count("bind") == 1
    finally:
        side.stop()
