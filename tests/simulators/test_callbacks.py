"""Callbacks of both providers: once or not at all, and with every fault that the switches offer."""

import base64
import hashlib
import hmac
import json

import pytest

from tests.simulators.callers import AirtelCaller, Listener, MtnCaller


def test_mtn_sends_the_status_body_once_and_only_to_a_callback_url(mtn: MtnCaller, listener: Listener) -> None:
    mtn.pay()
    reference = mtn.pay(url=listener.url)
    last = mtn.pay(url=listener.url)
    assert listener.next() == ("PUT", mtn.status(reference).json())
    assert listener.next() == ("PUT", mtn.status(last).json())
    assert listener.received.empty()


@pytest.mark.parametrize("kind", ["transfer", "deposit", "refund"])
def test_mtn_sends_callbacks_of_every_kind(mtn: MtnCaller, listener: Listener, kind: str) -> None:
    party = mtn.pay() if kind == "refund" else "46733123457"
    reference = mtn.pay(kind, party=party, url=listener.url)
    assert listener.next() == ("PUT", mtn.status(reference, kind).json())


def test_a_callback_that_is_not_received_is_not_repeated(mtn: MtnCaller, listener: Listener) -> None:
    lost = mtn.pay(url="http://127.0.0.1:9/hook")
    mtn.pay(url=listener.url)
    listener.next()
    assert [sent["answer"] for sent in mtn.book(lost)["callbacks"]] == ["ConnectError"]
    assert mtn.book()["callbacks_waiting"] == []


def test_nothing_is_sent_beyond_the_loopback_interface(mtn: MtnCaller, listener: Listener) -> None:
    away = mtn.pay(url="https://192.0.2.1/hook")
    named = mtn.pay(url="https://hooks.example.com/hook")
    mtn.pay(url=listener.url)
    listener.next()
    for reference in (away, named):
        assert [sent["answer"] for sent in mtn.book(reference)["callbacks"]] == ["not a loopback address"]


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_the_method_can_be_chosen(mtn: MtnCaller, airtel: AirtelCaller, listener: Listener, method: str) -> None:
    mtn.switch(callback_method=method)
    mtn.pay(url=listener.url)
    assert listener.next()[0] == method
    airtel.switch(callback_method=method)
    airtel.push("txn-1")
    assert listener.next()[0] == method


def test_callbacks_can_be_off_doubled_and_late(mtn: MtnCaller, listener: Listener) -> None:
    mtn.switch(callbacks=False)
    dropped = mtn.pay(url=listener.url)
    while not mtn.book(dropped)["callbacks"]:
        pass
    assert mtn.book(dropped)["callbacks"][0]["answer"] == "withheld"
    mtn.switch(callbacks=True, callback_copies=3)
    mtn.pay(url=listener.url, externalId="three times")
    assert [listener.next()[1]["externalId"] for _ in range(3)] == ["three times"] * 3
    mtn.switch(callback_copies=1, callback_delay_seconds=600)
    late = mtn.pay(url=listener.url, externalId="late")
    assert len(mtn.book(late)["callbacks_waiting"]) == 1
    assert mtn.outcome(late) == ("SUCCESSFUL", "")
    assert listener.received.empty()
    mtn.advance(601)
    assert listener.next()[1]["externalId"] == "late"


def test_callbacks_can_be_reordered(mtn: MtnCaller, listener: Listener) -> None:
    mtn.switch(reorder_callbacks=True)
    for name in ("first", "second", "third"):
        mtn.pay(url=listener.url, externalId=name)
    assert [listener.next()[1]["externalId"] for _ in range(2)] == ["second", "first"]
    mtn.switch(reorder_callbacks=False)
    assert listener.next()[1]["externalId"] == "third"


def test_a_callback_can_name_a_wrong_amount(mtn: MtnCaller, airtel: AirtelCaller, listener: Listener) -> None:
    mtn.switch(wrong_callback_amount=True)
    reference = mtn.pay(url=listener.url)
    assert listener.next()[1]["amount"] == "1501"
    assert mtn.status(reference).json()["amount"] == "1500"
    airtel.switch(wrong_callback_amount=True)
    airtel.push("txn-1")
    assert "UGX 501." in listener.next()[1]["transaction"]["message"]


def test_a_success_can_follow_a_failure_and_callbacks_report_both(mtn: MtnCaller, listener: Listener) -> None:
    mtn.switch(success_after_failure=True)
    reference = mtn.pay(url=listener.url)
    assert mtn.outcome(reference) == ("FAILED", "INTERNAL_PROCESSING_ERROR")
    assert listener.next()[1]["status"] == "FAILED"
    mtn.advance(61)
    assert mtn.outcome(reference) == ("SUCCESSFUL", "")
    assert listener.next()[1]["status"] == "SUCCESSFUL"


def test_a_failure_can_follow_a_success(mtn: MtnCaller, airtel: AirtelCaller, listener: Listener) -> None:
    for caller in (mtn, airtel):
        caller.switch(failure_after_success=True, second_thought_seconds=10)
    reference = mtn.pay(url=listener.url)
    airtel.push("txn-1")
    assert (mtn.outcome(reference)[0], airtel.outcome("txn-1")[0]) == ("SUCCESSFUL", "TS")
    mtn.advance(11)
    airtel.advance(11)
    assert (mtn.outcome(reference)[0], airtel.outcome("txn-1")[0]) == ("FAILED", "TF")
    assert not mtn.book(reference)["payments"][0]["paid"]


def test_a_reason_is_a_text_or_an_object(mtn: MtnCaller, listener: Listener) -> None:
    reference = mtn.pay(party="46733123455", url=listener.url)
    assert listener.next()[1]["reason"] == "PAYER_NOT_FOUND"
    mtn.switch(reason_as_object=True)
    reason = mtn.status(reference).json()["reason"]
    assert (reason["code"], set(reason)) == ("PAYER_NOT_FOUND", {"code", "message"})


def test_airtel_reports_a_settled_push_with_or_without_a_hash(airtel: AirtelCaller, listener: Listener) -> None:
    airtel.push("paid-1")
    method, body = listener.next()
    assert (method, set(body)) == ("POST", {"transaction"})
    assert (body["transaction"]["id"], body["transaction"]["status_code"]) == ("paid-1", "TS")
    assert body["transaction"]["message"].startswith("Paid UGX 500.")
    airtel.switch(callback_hash=True)
    airtel.push("refused", "750000008")
    body = listener.next()[1]
    assert body["transaction"]["status_code"] == "TF"
    text = json.dumps(body["transaction"], separators=(",", ":")).encode()
    expected = base64.b64encode(hmac.new(b"airtel-secret", text, hashlib.sha256).digest()).decode()
    assert body["hash"] == expected
