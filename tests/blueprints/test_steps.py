"""What a step of a phone conversation costs the database, in numbers, so that it never creeps back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import psycopg
import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.shop import CODE, PHONE, Shop
from ussd_server.house import Services
from ussd_server.models.base import database, is_postgres
from ussd_server.models.ussd import UssdSession

Send = Callable[..., list[str]]

READ, WRITE = "SELECT", "UPDATE"


@contextmanager
def overheard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The first word of every statement that the driver of the database is given, `BEGIN` and `COMMIT` included."""
    words: list[str] = []
    if not is_postgres():
        statements: list[str] = []
        connection = database.connection()
        connection.set_trace_callback(statements.append)
        yield words
        connection.set_trace_callback(None)
        # A trigger is told as the statement that set it off, once more.
        words += [sql.split()[0] for before, sql in pairwise(["", *statements]) if sql != before]
        return
    execute = psycopg.Cursor.execute

    def note(cursor: psycopg.Cursor, sql: str, *others: object, **options: object) -> psycopg.Cursor:
        words.append(sql.split()[0])
        return execute(cursor, sql, *others, **options)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", note)
        yield words


@pytest.fixture
def send(house: Services, web: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> Send:
    """Post a step and give what it asked of the database."""
    path = Shop(house).channel.gateway_path
    web.post(path, data={})  # From here on the channel is known.

    def post(text: str, answer: str, session: str = "ATUid_1") -> list[str]:
        form = {"sessionId": session, "phoneNumber": PHONE, "networkCode": "64110", "serviceCode": CODE, "text": text}
        with overheard(monkeypatch) as words:
            assert web.post(path, data=form).text.startswith(answer)
        return words

    return post


def test_a_step_is_one_read_and_one_write_from_the_first_to_the_last(send: Send) -> None:
    send("", "CON Welcome", session="ATUid_0")
    send("1", "CON Enter amount", session="ATUid_0")
    assert send("", "CON Welcome") == [READ, "INSERT"]
    assert send("4", "CON Enter your voucher") == [READ, WRITE]
    assert send("4*1234", "CON Your voucher was noted") == [READ, WRITE]
    # The news of the end goes along in PostgreSQL's one statement; in SQLite, which is no journey away, beside it.
    last = ["WITH"] if is_postgres() else ["BEGIN", WRITE, "INSERT", "COMMIT"]
    assert send("4*1234*1", "END Goodbye") == [READ, *last]


def test_a_repeat_is_one_read(send: Send) -> None:
    send("", "CON Welcome")
    send("1", "CON Enter amount")
    assert send("1", "CON Enter amount") == [READ]
    assert send("", "CON Welcome") == [READ]


def test_a_call_that_may_be_continued_costs_one_read_more(send: Send, clock: MovableClock) -> None:
    for text in ("", "1", "1*5000"):
        send(text, "CON")
    clock.advance(181)
    first = send("", "CON Continue", session="ATUid_2")
    assert first == [READ, READ, READ, "INSERT"], "the session itself, and whether it ordered a payment"


def test_a_step_changes_no_index(send: Send) -> None:
    send("", "CON Welcome")
    begun = UssdSession.get().__data__
    for text in ("1", "1*5000", "1*5000*0"):
        send(text, "CON")
    stepped = UssdSession.get().__data__
    changed = {name for name, value in stepped.items() if value != begun[name]}
    assert {"turn", "expires_at"} <= changed
    indexed = {column for index in database.get_indexes("ussd_sessions") for column in index.columns}
    assert not changed & indexed
    if is_postgres():
        database.execute_sql("SELECT pg_stat_force_next_flush()")
        updates = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'ussd_sessions'"
        assert database.execute_sql(updates).fetchone() == (3, 3)
