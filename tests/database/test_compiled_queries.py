"""Compiled queries return the same as the queries they were made from, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.support.shop import PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.database.tables import CompiledQuery, param
from ussd_server.models.clients import Client
from ussd_server.models.ussd import UssdSession
from ussd_server.services.ussd.messages import BeginSession

_FIND = CompiledQuery(
    lambda: (
        UssdSession.select(UssdSession, Client.name.alias("client_name"))
        .join(Client, on=(Client.id == UssdSession.client_id))
        .where(UssdSession.phone_number == param(UssdSession.phone_number), UssdSession.turn == 0)
    )
)
_SEE = CompiledQuery(
    lambda: UssdSession.update({UssdSession.last_seen_at: param(UssdSession.last_seen_at)}).where(
        UssdSession.id == param(UssdSession.id), UssdSession.last_seen_at < param(UssdSession.last_seen_at, "before")
    )
)
_NAMES = CompiledQuery(lambda: Client.select(Client.id, Client.name).where(Client.id == param(Client.id)))


def test_rows_are_those_of_the_query_with_what_was_joined_beside(services: Services) -> None:
    shop = Shop(services)
    begun = services.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call)
    (row,) = _FIND.rows(UssdSession, phone_number=PHONE)
    assert row.__data__ == UssdSession.get_by_id(begun.session_id).__data__
    assert row.client_name == "ACME *384*123#"
    assert _FIND.first(UssdSession, phone_number="+256770000009") is None


def test_tuples_are_what_the_database_says_with_ids_as_text(services: Services) -> None:
    client_id = Shop(services).client_id
    assert _NAMES.tuples(id=client_id) == [(client_id, "ACME *384*123#")]


def test_values_are_converted_as_their_fields_convert_them(services: Services) -> None:
    shop = Shop(services)
    session_id = services.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call).session_id
    later = datetime(2040, 1, 2, 3, 4, 5, 678000, UTC)
    seen = {"id": session_id, "last_seen_at": later, "before": later}
    assert [_SEE.run(**seen), _SEE.run(**seen)] == [1, 0]
    assert UssdSession.get_by_id(session_id).last_seen_at == later


def test_a_parameter_without_a_value_is_an_error(services: Services) -> None:
    with pytest.raises(KeyError, match="phone_number"):
        _FIND.rows(UssdSession)
