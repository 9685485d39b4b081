"""Delivery reports: by a secret path, for their own message and number, and only forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from flask.testing import FlaskClient

from simulators.africastalking import AfricasTalkingSms
from simulators.server import serving
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext, operator_context
from ussd_server.models.sending import Sms
from ussd_server.senders.messages import SmsAccess
from ussd_server.services.sms.messages import CreateSms, SmsStatus
from ussd_server.settings import Settings

PHONE = "+256772123456"
Report = Callable[..., int]


@pytest.fixture
def stand_in() -> AfricasTalkingSms:
    return AfricasTalkingSms()


@pytest.fixture
def settings(settings: Settings, stand_in: AfricasTalkingSms):  # type: ignore[no-untyped-def]
    with serving(stand_in.application()) as base_url:
        yield replace(settings, sms=SmsAccess("africastalking", base_url, "sandbox", "sms-key", "ACME"))


@pytest.fixture
def path(services: Services) -> str:
    (path,) = services.sms_reports.paths(operator_context())
    return path.path


@pytest.fixture
def report(web: FlaskClient, path: str) -> Report:
    """Post a delivery report; gives the status of the answer."""

    def post(message_id: str, status: str = "Success", phone: str = PHONE, to: str = path) -> int:
        return web.post(to, data={"id": message_id, "status": status, "phoneNumber": phone}).status_code

    return post


def sent(services: Services, call: RequestContext, phone: str = PHONE, reference: str = "order-7") -> str:
    """Send a message to the stand-in; gives its id."""
    message = services.sms.create(CreateSms(phone, "Your order is ready", reference), call).message
    for claimed in services.sms_sending.claim(1):
        services.sms_sending.send(claimed)
    return message.message_id


def status_of(services: Services, message_id: str, call: RequestContext) -> SmsStatus:
    return services.sms.get(message_id, call).status


def test_a_report_for_its_message_and_number_counts_once(
    services: Services, call: RequestContext, stand_in: AfricasTalkingSms, report: Report
) -> None:
    message_id = sent(services, call)
    (known,) = stand_in.sent
    assert known["from"] == "ACME"
    assert status_of(services, message_id, call) is SmsStatus.SENT
    assert report("ATXid_of_another") == 200
    assert report(known["id"], phone="+256772000000") == 200
    assert report(known["id"], "Buffered") == 200
    assert status_of(services, message_id, call) is SmsStatus.SENT
    assert report(known["id"]) == 200
    assert status_of(services, message_id, call) is SmsStatus.DELIVERED
    assert report(known["id"], "Failed") == 200
    assert status_of(services, message_id, call) is SmsStatus.DELIVERED


def test_a_report_that_arrives_before_the_senders_answer_counts(
    services: Services,
    call: RequestContext,
    stand_in: AfricasTalkingSms,
    report: Report,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    phone = "+256772123405"

    def deliver(fields: dict[str, str]) -> None:
        report("ATXid_of_another", "Failed", phone)
        report(fields["id"], "Failed", PHONE)
        report(fields["id"], "Success", phone)
        report(fields["id"], "Failed", phone)

    stand_in.callback_url = path
    monkeypatch.setattr(stand_in, "report", deliver)
    message_id = sent(services, call, phone)
    assert status_of(services, message_id, call) is SmsStatus.DELIVERED
    assert Sms.get_by_id(message_id).early_reports is None


def test_a_report_to_another_path_is_refused(
    services: Services, call: RequestContext, stand_in: AfricasTalkingSms, report: Report
) -> None:
    message_id = sent(services, call)
    for path in ("/callbacks/africastalking/guessed", services.runtime.tokens.callback_path("mtn")):
        assert report(stand_in.sent[0]["id"], to=path) == 404
    assert status_of(services, message_id, call) is SmsStatus.SENT


@pytest.mark.parametrize(
    ("ending", "status"), [("01", SmsStatus.FAILED), ("03", SmsStatus.SENT), ("04", SmsStatus.UNKNOWN)]
)
def test_the_stand_in_answers_by_the_number(
    services: Services, call: RequestContext, ending: str, status: SmsStatus
) -> None:
    assert status_of(services, sent(services, call, f"+2567721234{ending}"), call) is status
