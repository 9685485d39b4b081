"""What a step costs the database, in numbers, so that it never creeps back."""

from __future__ import annotations

from tests.shop import PHONE, Shop
from ussd_server.house import Services
from ussd_server.messages.ussd import BeginSession, EnterText
from ussd_server.models.base import database, is_postgres
from ussd_server.models.ussd import UssdSession


def test_a_step_changes_no_index(house: Services) -> None:
    shop = Shop(house)
    session_id = house.ussd.begin(BeginSession(PHONE, shop.code), shop.call).session_id
    begun = UssdSession.get_by_id(session_id).__data__
    for entry in ("1", "5000", "0"):
        house.ussd.enter(EnterText(session_id, entry), shop.call)
    stepped = UssdSession.get_by_id(session_id).__data__
    changed = {name for name, value in stepped.items() if value != begun[name]}
    assert {"turn", "expires_at"} <= changed
    indexed = {column for index in database.get_indexes("ussd_sessions") for column in index.columns}
    assert not changed & indexed
    if is_postgres():
        database.execute_sql("SELECT pg_stat_force_next_flush()")
        updates = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'ussd_sessions'"
        assert database.execute_sql(updates).fetchone() == (3, 3)
