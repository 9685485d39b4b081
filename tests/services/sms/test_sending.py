"""Messages: sent once each, tried again only where nothing left, and shared fairly between clients."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import MovableClock
from tests.services.sms.conftest import ScriptedSender, Send
from tests.support.money import a_client
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.models.sending import Sms
from ussd_server.senders.messages import SendOutcome, SendResult, SmsFailure
from ussd_server.services.sms.messages import CreateSms, ListSms, SmsStatus, SmsView
from ussd_server.services.sms.sending import SmsSending
from ussd_server.status import Code, ServiceError

PHONE = "+256772123456"


@pytest.fixture
def message(services: Services, call: RequestContext) -> SmsView:
    return services.sms.create(CreateSms(PHONE, "Your order is ready", "order-7"), call).message


def shown(services: Services, message: SmsView, call: RequestContext) -> SmsView:
    return services.sms.get(message.message_id, call)


def test_a_message_is_queued_sent_and_delivered(
    services: Services, message: SmsView, call: RequestContext, sender: ScriptedSender, send_due: Send
) -> None:
    assert (message.status, message.parts, message.completed_at) == (SmsStatus.QUEUED, 1, None)
    send_due()
    send_due()
    assert sender.sent == [(PHONE, "Your order is ready")]
    assert shown(services, message, call).status is SmsStatus.DELIVERED


def test_the_same_message_again_is_the_same_message_and_another_is_refused(
    services: Services, message: SmsView, call: RequestContext
) -> None:
    repeated = services.sms.create(CreateSms(PHONE, "Your order is ready", "order-7"), call)
    assert repeated == (message, True)
    with pytest.raises(ServiceError) as refused:
        services.sms.create(CreateSms(PHONE, "Your order is late", "order-7"), call)
    assert refused.value.code is Code.IDEMPOTENCY_KEY_REUSED


def test_a_message_whose_answer_was_lost_is_unknown_and_never_sent_again(
    services: Services,
    message: SmsView,
    call: RequestContext,
    sender: ScriptedSender,
    send_due: Send,
    clock: MovableClock,
) -> None:
    sender.answer = SendResult(SendOutcome.UNKNOWN)
    send_due()
    clock.advance(86_400)
    send_due()
    assert len(sender.sent) == 1
    assert shown(services, message, call).status is SmsStatus.UNKNOWN


def test_a_message_of_a_worker_that_ended_while_it_sent_is_unknown(
    services: Services,
    message: SmsView,
    call: RequestContext,
    sending: SmsSending,
    sender: ScriptedSender,
    send_due: Send,
    clock: MovableClock,
) -> None:
    (claimed,) = sending.claim(1)
    Sms.update(asked_at=clock.now()).where(Sms.id == claimed).execute()
    clock.advance(120)
    send_due()
    assert sender.sent == []
    assert shown(services, message, call).status is SmsStatus.UNKNOWN


def test_a_message_that_could_not_leave_is_tried_again_and_given_up_after_six_hours(
    services: Services,
    message: SmsView,
    call: RequestContext,
    sender: ScriptedSender,
    send_due: Send,
    clock: MovableClock,
) -> None:
    sender.answer = SendResult(SendOutcome.NOT_SENT)
    send_due()
    assert shown(services, message, call).status is SmsStatus.QUEUED
    clock.advance(6)
    send_due()
    assert len(sender.sent) == 2
    clock.advance(6 * 3600)
    send_due()
    failed = shown(services, message, call)
    assert (failed.status, failed.failure and failed.failure.code) == (SmsStatus.FAILED, SmsFailure.SENDER_AWAY)


def test_a_refused_message_says_why(
    services: Services, message: SmsView, call: RequestContext, sender: ScriptedSender, send_due: Send
) -> None:
    sender.answer = SendResult(SendOutcome.FAILED, failure=SmsFailure.NUMBER_BLOCKED)
    send_due()
    failure = shown(services, message, call).failure
    assert failure is not None
    assert (failure.code, failure.message) == ("NUMBER_BLOCKED", "The subscriber does not want messages")


def test_the_many_messages_of_one_client_do_not_delay_those_of_another(
    services: Services, call: RequestContext, sending: SmsSending
) -> None:
    for number in range(10):
        services.sms.create(CreateSms(PHONE, "News", f"news-{number}"), call)
    other = a_client("other")
    code = services.sms.create(CreateSms(PHONE, "Your code is 1234", "code-1"), other).message
    assert code.message_id in sending.claim(4)


def test_a_client_sees_its_own_messages_alone(services: Services, message: SmsView, call: RequestContext) -> None:
    stranger = a_client("other")
    with pytest.raises(ServiceError) as refused:
        services.sms.get(message.message_id, stranger)
    assert refused.value.code is Code.NOT_FOUND
    assert services.sms.list(ListSms(), stranger).items == ()
    assert services.sms.list(ListSms(phone_number=PHONE), call).items == (message,)
    assert services.sms.list(ListSms(status=SmsStatus.SENT), call).items == ()


@pytest.mark.parametrize("change", [{"text": "a" * 766}, {"reference": "receipt/1"}, {"reference": "ussd/1"}])
def test_a_message_of_six_parts_and_a_reference_of_ours_are_refused(
    services: Services, call: RequestContext, change: dict[str, str]
) -> None:
    with pytest.raises(ServiceError) as refused:
        services.sms.create(replace(CreateSms(PHONE, "Hello", "hello-1"), **change), call)
    assert refused.value.code is Code.INVALID_REQUEST
    assert not Sms.select().exists()


def test_without_a_sender_a_message_is_refused_and_nothing_recorded(services: Services, call: RequestContext) -> None:
    silent = Services(other_runtime(services, sms_sender=None))
    with pytest.raises(ServiceError) as refused:
        silent.sms.create(CreateSms(PHONE, "Hello", "hello-1"), call)
    assert refused.value.code is Code.INVALID_REQUEST
    assert not Sms.select().exists()
