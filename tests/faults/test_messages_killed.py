"""A worker is killed while it sends a message: the message leaves once at most, and its status never claims more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulators.africastalking import AfricasTalkingSms
from simulators.server import serving
from tests.conftest import MovableClock
from tests.faults.workers import services_of, work_until_killed
from tests.support.money import a_client
from ussd_server.database.unit_of_work import release_connection
from ussd_server.senders.messages import SmsAccess
from ussd_server.services.sms.messages import CreateSms, SmsStatus
from ussd_server.settings import Settings


@pytest.mark.parametrize(
    ("kill_point", "left", "status", "sent"),
    [
        ("sms.claimed", 0, SmsStatus.SENT, 1),
        ("sms.asked", 0, SmsStatus.UNKNOWN, 0),
        ("sms.sent", 1, SmsStatus.UNKNOWN, 1),
    ],
)
def test_a_message_leaves_once_at_most_and_is_never_forgotten(
    settings: Settings, clock: MovableClock, kill_point: str, left: int, status: SmsStatus, sent: int
) -> None:
    stand_in = AfricasTalkingSms()
    with serving(stand_in.application()) as url:
        access = SmsAccess("africastalking", url, stand_in.username, stand_in.api_key)
        with services_of(replace(settings, sms=access), clock) as services:
            call = a_client()
            message_id = services.sms.create(CreateSms("+256772123456", "Ready", "order-7"), call).message.message_id
            release_connection()
            work_until_killed(replace(services.settings, kill_point=kill_point))
            assert len(stand_in.sent) == left
            assert services.sms.get(message_id, call).status is SmsStatus.QUEUED
            # The lease began by the clock of the killed process, which may have taken long to start.
            clock.advance(600)
            for claimed in services.sms_sending.claim(10):
                services.sms_sending.send(claimed)
            assert services.sms_sending.claim(10) == []
            assert services.sms.get(message_id, call).status is status
            assert len(stand_in.sent) == sent
