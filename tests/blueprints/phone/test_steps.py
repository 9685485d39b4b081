"""The number of statements that a step of a conversation executes, so that it does not grow unnoticed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import psycopg
import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.support.shop import CODE, OPERATOR, PHONE, Shop
from ussd_server.app import create_app
from ussd_server.bootstrap import Services, build_services
from ussd_server.database.unit_of_work import database, is_postgres
from ussd_server.models.clients import Client
from ussd_server.models.ussd import UssdSession
from ussd_server.services.ussd.gateways import SessionCache
from ussd_server.settings import Settings

pytestmark = pytest.mark.both_databases

READ, WRITE = "read", "write"


def kind_of(sql: str) -> str:
    """Whether a statement reads or writes; any other is its first keyword."""
    if "ussd_step(" in sql:
        return WRITE
    keyword = sql.split()[0]
    return {"SELECT": READ, "INSERT": WRITE, "UPDATE": WRITE}.get(keyword, keyword)


@contextmanager
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The kind of every statement that the database driver executes, `BEGIN` and `COMMIT` included."""
    kinds: list[str] = []
    if not is_postgres():
        statements: list[str] = []
        connection = database.connection()
        connection.set_trace_callback(statements.append)
        yield kinds
        connection.set_trace_callback(None)
        # A trigger repeats the statement that fired it.
        kinds += [kind_of(sql) for before, sql in pairwise(["", *statements]) if sql != before]
        return
    execute = psycopg.Cursor.execute

    def note(cursor: psycopg.Cursor, sql: str, *others: object, **options: object) -> psycopg.Cursor:
        kinds.append(kind_of(sql))
        return execute(cursor, sql, *others, **options)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", note)
        yield kinds


class Process:
    """A web process: posts a step to it and returns the statements that it executed."""

    def __init__(self, services: Services, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._web = create_app(services).test_client()
        self._path = path
        self._monkeypatch = monkeypatch
        self._web.post(path, data={})  # From here on the channel is known.

    def __call__(self, text: str, answer: str, session: str = "ATUid_1") -> list[str]:
        form = {"sessionId": session, "phoneNumber": PHONE, "networkCode": "64110", "serviceCode": CODE, "text": text}
        with recorded(self._monkeypatch) as kinds:
            reply = self._web.post(self._path, data=form)
            assert reply.text.startswith(answer), reply.text
        return kinds


@pytest.fixture
def send(services: Services, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Process:
    """The process that gets most steps."""
    return Process(services, shop.channel.gateway_path, monkeypatch)


@pytest.fixture
def elsewhere(
    send: Process, settings: Settings, clock: MovableClock, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Process]:
    """Another process of the same service."""
    services = build_services(settings, clock)
    yield Process(services, shop.channel.gateway_path, monkeypatch)
    services.close()


# PostgreSQL writes the event of the end in the same statement, SQLite in one of its own.
def last_write() -> list[str]:
    return [WRITE] if is_postgres() else ["BEGIN", WRITE, WRITE, "COMMIT"]


def test_a_step_is_one_read_and_one_write_from_the_first_to_the_last(send: Process, elsewhere: Process) -> None:
    send("", "CON Welcome", session="ATUid_0")
    send("1", "CON Enter amount", session="ATUid_0")
    assert send("", "CON Welcome") == [READ, WRITE]
    assert elsewhere("4", "CON Enter your voucher") == [READ, WRITE]
    assert send("4*1234", "CON Your voucher was noted") == [READ, WRITE]
    assert elsewhere("4*1234*1", "END Goodbye") == [READ, *last_write()]


def test_a_step_that_comes_to_the_same_process_again_is_one_write(send: Process) -> None:
    send("", "CON Welcome", session="ATUid_0")
    assert send("", "CON Welcome") == [READ, WRITE]
    assert send("4", "CON Enter your voucher") == [WRITE]
    assert send("4*1234", "CON Your voucher was noted") == [WRITE]
    assert send("4*1234*1", "END Goodbye") == last_write()


def test_a_step_with_an_action_is_read_before_it_is_claimed(send: Process) -> None:
    for text in ("", "1", "1*5000"):
        send(text, "CON")
    assert send("1*5000*1", "END Approve")[:2] == [READ, WRITE]


def test_what_another_process_answered_is_never_answered_twice(send: Process, elsewhere: Process) -> None:
    send("", "CON Welcome")
    send("1", "CON Enter amount")
    elsewhere("1*5000", "CON Pay UGX 5,000?")
    assert send("1*5000", "CON Pay UGX 5,000?") == [WRITE, READ], "the write that found it changed wrote nothing"
    elsewhere("1*5000*0", "CON Enter amount")
    assert send("1*5000*0*700", "CON Pay UGX 700?") == [READ, WRITE]
    assert UssdSession.get().turn == 4


@pytest.mark.parametrize("which", ["client", "channel"])
def test_a_cached_session_ends_with_its_client_and_its_channel(
    which: str, send: Process, shop: Shop, web: FlaskClient, services: Services
) -> None:
    send("", "CON Welcome")
    if which == "client":
        Client.update(is_active=False).where(Client.id == shop.client_id).execute()
    else:
        services.channels.set_active(shop.channel.channel_id, False, OPERATOR)
    before = UssdSession.get().turn
    assert send("1", "END Sorry" if which == "client" else '{"success":false,"error":"NOT_FOUND"') == [WRITE, READ]
    assert UssdSession.get().turn == before


def test_only_so_many_sessions_are_cached() -> None:
    cache = SessionCache(most=2)
    for number in range(3):
        cache.keep(UssdSession(channel_id="c", provider_session_id=str(number), phone_number=PHONE))
    assert [cache.take("c", str(number), PHONE) is None for number in range(3)] == [True, False, False]
    assert cache.take("c", "2", PHONE) is None, "a session that was taken is no longer cached"


def test_a_repeat_is_one_read_and_that_of_a_dial_two(send: Process) -> None:
    send("", "CON Welcome")
    send("1", "CON Enter amount")
    assert send("1", "CON Enter amount") == [READ]
    assert send("", "CON Welcome") == [READ, READ], "a dial looks for a session, and reads it only when there is one"


def test_a_call_that_may_be_continued_costs_one_read_more(send: Process, clock: MovableClock) -> None:
    for text in ("", "1", "1*5000"):
        send(text, "CON")
    clock.advance(181)
    first = send("", "CON Continue", session="ATUid_2")
    assert first == [READ, READ, READ, WRITE], "the session itself, and whether it ordered a payment"


def session_updates() -> list[int]:
    """How many rows of sessions were updated, and how many of these without a new entry in an index."""
    database.execute_sql("SELECT pg_stat_force_next_flush()")
    query = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'ussd_sessions'"
    return list(database.execute_sql(query).fetchone())


def test_a_step_changes_no_index(send: Process) -> None:
    send("", "CON Welcome")
    begun, updates = UssdSession.get().__data__, session_updates() if is_postgres() else []
    for text in ("1", "1*5000", "1*5000*0"):
        send(text, "CON")
    stepped = UssdSession.get().__data__
    changed = {name for name, value in stepped.items() if value != begun[name]}
    assert {"turn", "expires_at"} <= changed
    indexed = {column for index in database.get_indexes("ussd_sessions") for column in index.columns}
    assert not changed & indexed
    if is_postgres():
        assert [after - before for before, after in zip(updates, session_updates(), strict=True)] == [3, 3]
