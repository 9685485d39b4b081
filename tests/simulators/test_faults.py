"""Faults between a provider and its client: every switch for them, against a real client."""

import threading
import uuid

import httpx2
import pytest

from simulators.mtn import MtnMomo
from simulators.server import run
from tests.simulators.callers import AirtelCaller, MtnCaller

TIMEOUT = httpx2.Timeout(10, read=0.2)


def submit_without_response(mtn: MtnCaller, reference: str) -> None:
    """Request a payment and receive no response."""
    headers = mtn.headers("collection", reference)
    with pytest.raises(httpx2.ReadTimeout):
        mtn.http.post("/collection/v1_0/requesttopay", headers=headers, json=mtn.body(), timeout=TIMEOUT)


@pytest.mark.parametrize(
    ("switches", "recorded"),
    [
        ({"silent_after_accept": True}, True),
        ({"silent_before_accept": True}, False),
        ({"slow_seconds": 3600, "calls": ["submit"]}, True),
    ],
)
def test_a_silent_provider_has_the_payment_or_not_and_responds_to_other_calls(
    mtn: MtnCaller, switches: dict[str, object], recorded: bool
) -> None:
    mtn.switch(**switches)
    reference = str(uuid.uuid4())
    submit_without_response(mtn, reference)
    assert mtn.counted("requesttopay", reference) == 1
    assert len(mtn.book(reference)["payments"]) == int(recorded)
    assert mtn.status(reference).status_code == (200 if recorded else 404)


def test_any_call_can_be_left_without_a_response(mtn: MtnCaller) -> None:
    reference = mtn.pay()
    mtn.switch(silent_before_accept=True, calls=["status"], times=1)
    with pytest.raises(httpx2.ReadTimeout):
        mtn.http.get(f"/collection/v1_0/requesttopay/{reference}", headers=mtn.headers("collection"), timeout=TIMEOUT)
    assert mtn.outcome(reference) == ("SUCCESSFUL", "")


def test_a_silence_ends_without_a_byte_when_the_provider_stops() -> None:
    errors: list[type[BaseException]] = []
    with run(MtnMomo()) as base_url:
        caller = MtnCaller(base_url).provision()
        caller.switch(silent_after_accept=True)
        reference = str(uuid.uuid4())
        headers = caller.headers("collection", reference)

        def wait_for_a_response() -> None:
            try:
                caller.http.post("/collection/v1_0/requesttopay", headers=headers, json=caller.body())
            except httpx2.TransportError as error:
                errors.append(type(error))

        waiting = threading.Thread(target=wait_for_a_response)
        waiting.start()
        with MtnCaller(base_url) as watcher:
            while not watcher.book(reference)["payments"]:
                pass
    waiting.join()
    caller.http.close()
    assert errors == [httpx2.RemoteProtocolError]


@pytest.mark.parametrize(
    ("switches", "status", "content_type", "code"),
    [
        ({"error_status": 503}, 503, "application/json", "SERVICE_UNAVAILABLE"),
        ({"error_status": 500}, 500, "application/json", "INTERNAL_PROCESSING_ERROR"),
        ({"error_status": 500, "error_code": "NOT_ALLOWED"}, 500, "application/json", "NOT_ALLOWED"),
        ({"error_status": 403, "error_code": "FORBIDDEN_IP"}, 403, "application/json", "FORBIDDEN_IP"),
        ({"html_error": True}, 502, "text/html", None),
        ({"html_error": True, "error_status": 504}, 504, "text/html", None),
        ({"garbage": True}, 200, "application/json", None),
    ],
)
@pytest.mark.parametrize("carried_out", [True, False])
def test_a_fault_replaces_the_response_whether_the_call_was_carried_out_or_not(
    mtn: MtnCaller,
    switches: dict[str, object],
    status: int,
    content_type: str,
    code: str | None,
    carried_out: bool,
) -> None:
    mtn.switch(**switches, carried_out=carried_out, calls=["submit"], times=1)
    reference = str(uuid.uuid4())
    response = mtn.submit(reference=reference)
    assert response.status_code == status
    assert response.headers["content-type"].partition(";")[0] == content_type
    if code:
        assert response.json()["code"] == code
    else:
        with pytest.raises(ValueError):
            response.json()
    assert len(mtn.book(reference)["payments"]) == int(carried_out)
    assert mtn.submit(reference=reference).status_code == (409 if carried_out else 202)


def test_airtels_errors_come_in_its_envelope(airtel: AirtelCaller) -> None:
    airtel.headers()
    airtel.switch(error_status=500, error_code="ESB000014", carried_out=False)
    response = airtel.push("txn-1")
    assert (response.status_code, response.json()["status"]["result_code"]) == (500, "ESB000014")
    airtel.switch(error_status=503, error_code="DP00800001024")
    assert airtel.push("txn-1").json()["status"]["response_code"] == "DP00800001024"


def test_a_response_can_drip(mtn: MtnCaller) -> None:
    reference = mtn.pay()
    whole = mtn.status(reference)
    mtn.switch(drip_seconds=0.0001, calls=["status"])
    dripped = mtn.status(reference)
    assert (dripped.status_code, dripped.content, dripped.headers["content-type"]) == (
        200,
        whole.content,
        "application/json",
    )
    mtn.switch(drip_seconds=3600)
    path = f"/collection/v1_0/requesttopay/{reference}"
    with pytest.raises(httpx2.ReadTimeout):
        mtn.http.get(path, headers=mtn.headers("collection"), timeout=TIMEOUT)


def test_faults_end_after_so_many_calls(mtn: MtnCaller) -> None:
    reference = mtn.pay()
    mtn.switch(error_status=503, times=2)
    assert [mtn.status(reference).status_code for _ in range(4)] == [503, 503, 200, 200]


def test_faults_affect_the_named_calls_only(mtn: MtnCaller) -> None:
    mtn.headers("collection")
    mtn.switch(error_status=503, calls=["token", "account"])
    assert mtn.request_token("collection").status_code == 503
    assert mtn.account("account/balance").status_code == 503
    assert mtn.outcome(mtn.pay()) == ("SUCCESSFUL", "")
    mtn.switch(calls=[])
    assert mtn.submit().status_code == 503


def test_a_payment_can_be_hidden_for_a_while(mtn: MtnCaller, airtel: AirtelCaller) -> None:
    mtn.switch(hidden_seconds=30)
    airtel.switch(hidden_seconds=30)
    reference = mtn.pay()
    airtel.push("txn-1")
    assert (mtn.status(reference).status_code, airtel.enquire("txn-1").status_code) == (404, 404)
    assert mtn.submit(reference=reference).status_code == 409
    mtn.advance(31)
    airtel.advance(31)
    assert (mtn.status(reference).status_code, airtel.enquire("txn-1").status_code) == (200, 200)
