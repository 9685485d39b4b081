"""Steps that are written together: each under its own condition, on both databases."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.shop import PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import database, unit_of_work
from ussd_server.models.ussd import Channel, SubscriberLanguage, UssdSession
from ussd_server.services.ussd.messages import BeginSession
from ussd_server.services.ussd.sessions import StepWrite, WriteCondition, write_steps
from ussd_server.values import new_id


def begun(shop: Shop, **changes: Any) -> UssdSession:
    """A session that has answered its first step, read back and then changed."""
    channel_id = Channel.get().id
    session_id = shop.services.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call).session_id
    changed = UssdSession.update(channel_id=channel_id, provider_session_id=session_id, **changes)
    changed.where(UssdSession.id == session_id).execute()
    row: UssdSession = UssdSession.get_by_id(session_id)
    return row


def stepped(row: UssdSession, node: str, proof: WriteCondition = WriteCondition.READ, **others: Any) -> StepWrite:
    """The next step of a session, which leads to `node`."""
    after = copy.deepcopy(row)
    after.node, after.turn = node, row.turn + 1
    return StepWrite(after, proof, turn_read=row.turn, **others)


def test_of_two_steps_from_the_same_turn_one_is_written(services: Services) -> None:
    row = begun(Shop(services))
    steps = [stepped(row, "first"), stepped(row, "second")]
    write_steps(steps)
    assert [step.is_written for step in steps] == [True, False]
    kept = UssdSession.get_by_id(row.id)
    assert (kept.node, kept.turn) == ("first", 1)


def test_steps_of_several_sessions_are_judged_one_by_one(services: Services) -> None:
    shop = Shop(services)
    rows = [begun(shop) for _ in range(3)]
    steps = [stepped(row, f"node{number}") for number, row in enumerate(rows)]
    steps[1].turn_read = 5
    write_steps(list(reversed(steps)))
    assert [step.is_written for step in steps] == [True, False, True]
    assert [UssdSession.get_by_id(row.id).node for row in rows] == ["node0", "root", "node2"]


def test_a_session_that_is_there_already_is_not_begun_again(services: Services) -> None:
    row = begun(Shop(services))
    twin = copy.deepcopy(row)
    twin.id = new_id(services.clock.now())
    step = StepWrite(twin, WriteCondition.NEW)
    write_steps([step])
    assert not step.is_written
    assert UssdSession.select().count() == 1


def test_a_claimed_session_is_written_only_with_the_token_of_the_claim(services: Services) -> None:
    row = begun(Shop(services), working_token="mine")
    others, own = (stepped(row, "there", WriteCondition.CLAIMED, my_token=token) for token in ("another", "mine"))
    write_steps([others, own])
    assert (others.is_written, own.is_written) == (False, True)


def test_what_follows_a_step_is_written_with_it_or_not_at_all(services: Services) -> None:
    row = begun(Shop(services))
    write_steps([stepped(row, "there", language="lg"), stepped(row, "there", language="sw")])
    assert [kept.language for kept in SubscriberLanguage.select()] == ["lg"]


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
@pytest.mark.parametrize("is_analysed", [False, True])
def test_a_step_reads_no_other_session_however_small_the_table_was(services: Services, is_analysed: bool) -> None:
    shop = Shop(services)
    rows = [begun(shop) for _ in range(20)]
    counted = "SELECT seq_scan, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'ussd_sessions'"
    with unit_of_work():
        if is_analysed:
            database.execute_sql("ANALYZE ussd_sessions")
        (before,) = database.execute_sql(counted)
        write_steps([stepped(rows[7], "there")])
        (after,) = database.execute_sql(counted)
    assert (after[0], after[1]) == (before[0], before[1] + 1)
