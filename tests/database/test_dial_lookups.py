"""Dials that are read together: each gets its own row, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.support.shop import PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.models.ussd import Channel, SubscriberLanguage, UssdSession
from ussd_server.services.ussd.lookup import Dial, read_dials
from ussd_server.services.ussd.messages import BeginSession
from ussd_server.values import new_id

PAST = datetime(2000, 1, 1, tzinfo=UTC)


def test_each_of_several_dials_finds_what_it_finds_alone(services: Services) -> None:
    shop = Shop(services)
    channel_id = Channel.get().id
    begun = services.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call).session_id
    named = UssdSession.update(channel_id=channel_id, provider_session_id="known", turn=3)
    named.where(UssdSession.id == begun).execute()
    SubscriberLanguage.insert(client_id=shop.client_id, phone_number="+256700000001", language="lg").execute()

    def dial(session: str, phone_number: str = PHONE, channel: str = channel_id, code: str = shop.code) -> Dial:
        return Dial(
            {
                "channel_id": channel,
                "provider_session_id": session,
                "phone_number": phone_number,
                "dialled_code": code,
                "resumable_since": PAST,
                "paid_since": new_id(PAST),
            }
        )

    dials = [
        dial("new", channel=new_id(PAST)),
        dial("known"),
        dial("new"),
        dial("known", "+256700000001"),
        dial("new", code="*999#"),
    ]
    read_dials(dials)
    assert dials[0].row is None, "there is no such channel"
    found = [each.row for each in dials[1:]]
    assert [row.dialled_session_id and str(row.dialled_session_id) for row in found] == [begun, None, None, None]
    assert [row.chosen_language for row in found] == [None, None, "lg", None]
    assert [row.last_id and str(row.last_id) for row in found] == [begun, begun, None, None]
    assert [row.owner_id and str(row.owner_id) for row in found] == [*[shop.client_id] * 3, None]
