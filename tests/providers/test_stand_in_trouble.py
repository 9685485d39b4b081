"""What holds for every adapter beside the stand-in of its provider, whatever goes wrong between them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.providers.meetings import SHORT_SECONDS, Meeting, meet_airtel, meet_mtn, payment_of
from ussd_server.providers.messages import Outcome, PaymentOrder

Met = tuple[Meeting, PaymentOrder]


@pytest.fixture(params=["mtn", "airtel"])
def met(request: pytest.FixtureRequest) -> Iterator[Met]:
    """An adapter beside its stand-in, and a payment for them."""
    if request.param == "mtn":
        with meet_mtn() as meeting:
            yield meeting, payment_of("+256772123456", 500_000)
    else:
        with meet_airtel("v1") as meeting:
            yield meeting, payment_of("+256700123123", 50_000)


@pytest.mark.parametrize(
    "trouble",
    [
        {"silent_before_accept": True},
        {"silent_after_accept": True},
        {"garbage": True},
        {"endless": True},
        {"html_error": True},
        {"error_status": 500},
        {"error_status": 503},
        {"drip_seconds": 0.2},
        {"slow_seconds": 2.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("carried_out", [True, False])
def test_trouble_on_the_wire_is_never_called_a_failure_and_an_enquiry_settles_it(
    met: Met, trouble: dict[str, object], carried_out: bool
) -> None:
    meeting, request = met
    # The adapter has its token then, and all of the short time is the payment's.
    meeting.query_status(request)
    meeting.flick(calls=["submit"], carried_out=carried_out, **trouble)
    outcomes = (Outcome.UNKNOWN, Outcome.PENDING) if meeting.provider.name == "mtn" else (Outcome.UNKNOWN,)
    assert meeting.send(request, SHORT_SECONDS).outcome in outcomes
    reported = meeting.query_status(request)
    assert reported.outcome is (Outcome.SUCCEEDED if meeting.known(request) else Outcome.NOT_FOUND)


@pytest.mark.parametrize(
    "trouble",
    [{"garbage": True}, {"html_error": True}, {"error_status": 500}, {"error_status": 400}, {"endless": True}],
    ids=str,
)
def test_trouble_with_an_enquiry_proves_nothing(met: Met, trouble: dict[str, object]) -> None:
    meeting, request = met
    meeting.send(request)
    meeting.flick(calls=["status"], **trouble)
    assert meeting.query_status(request, SHORT_SECONDS).outcome is Outcome.UNKNOWN


def test_success_after_failure_is_seen(met: Met) -> None:
    meeting, request = met
    meeting.flick(success_after_failure=True)
    meeting.send(request)
    assert meeting.query_status(request).outcome is Outcome.FAILED
    meeting.stand_in.advance(60)
    assert meeting.query_status(request).outcome is Outcome.SUCCEEDED


def test_the_callback_names_the_reference(met: Met) -> None:
    meeting, request = met
    meeting.send(request)
    kept = meeting.stand_in.book.find(request.provider_reference)
    assert kept is not None
    body = meeting.stand_in.callback(kept, kept.steps[-1], meeting.stand_in.switches.now)
    assert meeting.provider.reference_in(json.dumps(body).encode()) == request.provider_reference
