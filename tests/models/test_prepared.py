"""Prepared queries say the same as the queries they were made from, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.shop import PHONE, Shop
from ussd_server.house import Services
from ussd_server.messages.ussd import BeginSession
from ussd_server.models.clients import Client
from ussd_server.models.prepared import Prepared, blank
from ussd_server.models.ussd import UssdSession

_FIND = Prepared(
    lambda: (
        UssdSession.select(UssdSession, Client.name.alias("client_name"))
        .join(Client, on=(Client.id == UssdSession.client_id))
        .where(UssdSession.phone_number == blank(UssdSession.phone_number), UssdSession.turn == 0)
    )
)
_SEE = Prepared(
    lambda: UssdSession.update({UssdSession.last_seen_at: blank(UssdSession.last_seen_at)}).where(
        UssdSession.id == blank(UssdSession.id), UssdSession.last_seen_at < blank(UssdSession.last_seen_at, "before")
    )
)


def test_rows_are_those_of_the_query_with_what_was_joined_beside(house: Services) -> None:
    shop = Shop(house)
    begun = house.ussd.begin(BeginSession(PHONE, shop.code), shop.call)
    (row,) = _FIND.rows(UssdSession, phone_number=PHONE)
    assert row.__data__ == UssdSession.get_by_id(begun.session_id).__data__
    assert row.client_name == "ACME *384*123#"
    assert _FIND.first(UssdSession, phone_number="+256770000009") is None


def test_values_are_converted_as_their_fields_convert_them(house: Services) -> None:
    shop = Shop(house)
    session_id = house.ussd.begin(BeginSession(PHONE, shop.code), shop.call).session_id
    later = datetime(2040, 1, 2, 3, 4, 5, 678000, UTC)
    seen = {"id": session_id, "last_seen_at": later, "before": later}
    assert [_SEE.run(**seen), _SEE.run(**seen)] == [1, 0]
    assert UssdSession.get_by_id(session_id).last_seen_at == later


def test_a_blank_that_was_not_filled_in_is_an_error(house: Services) -> None:
    with pytest.raises(KeyError, match="phone_number"):
        _FIND.rows(UssdSession)
