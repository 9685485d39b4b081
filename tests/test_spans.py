"""Spans: with a collector, calls and requests to other servers are exported; without one, traces pass on unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.services.webhooks.receivers import Receiver, deliver, subscribe
from tests.support.program import Program
from tests.support.span_collector import collecting_spans
from ussd_server.bootstrap import Services
from ussd_server.logs import now_about
from ussd_server.spans import end_export

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PAYMENT = {"type": "collection", "phone_number": "+256770000000", "amount": 500, "reference": "spans"}

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with collecting_spans(monkeypatch, "web") as receiver:
        yield receiver
        now_about()


def exported(collector: Receiver) -> list[Any]:
    """End the export; give each span that arrived."""
    end_export()
    assert {call.path for call in collector.calls} == {"/v1/traces"}
    requests = [ExportTraceServiceRequest.FromString(call.body) for call in collector.calls]
    return [span for each in requests for of in each.resource_spans for kind in of.scope_spans for span in kind.spans]


def test_a_payment_and_its_webhook_are_spans_of_the_callers_trace(
    services: Services, web: FlaskClient, collector: Receiver
) -> None:
    program = Program(services, web)
    with Receiver() as receiver:
        subscribe(services, program.call, receiver.url, "transaction.created")
        paid = program.post("/api/transactions", PAYMENT, {"traceparent": TRACE})
        deliver(services)
        (received,) = receiver.calls
    call, webhook = exported(collector)
    attributes = {each.key: each.value.string_value or each.value.int_value for each in call.attributes}
    assert (paid.status_code, call.name, webhook.name) == (201, "transactions.create_transaction", "POST")
    assert attributes == {
        "ussd.status": 201,
        "ussd.code": "OK",
        "ussd.request_id": paid.headers["X-Request-Id"],
    }
    assert {span.trace_id.hex() for span in (call, webhook)} == {TRACE.split("-")[1]}
    assert (call.parent_span_id.hex(), webhook.parent_span_id) == (TRACE.split("-")[2], call.span_id)
    assert received.headers["traceparent"].split("-")[2] == webhook.span_id.hex()


def test_a_call_without_a_trace_begins_one_and_no_span_holds_a_secret(web: FlaskClient, collector: Receiver) -> None:
    web.get("/ussd/africastalking/s3cr3t-of-a-channel?text=1234", headers={"x-api-secret": "s3cr3t-of-a-key"})
    (span,) = exported(collector)
    assert (len(span.trace_id), span.parent_span_id) == (16, b"")
    assert not any(b"s3cr3t" in call.body for call in collector.calls)
