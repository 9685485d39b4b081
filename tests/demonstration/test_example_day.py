"""The example data of a first start: what a newcomer finds in it, and that the books agree."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.faults.workers import services_of
from tests.support.books import check_everything
from tests.support.example_client import PASSWORD
from tests.support.stand_ins import mtn_settings
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.demonstration.client import prepare_demonstration
from ussd_server.models.operations import read_service_clock, set_service_time
from ussd_server.models.payouts import Payout
from ussd_server.models.sending import Delivery, Webhook
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.accounts.messages import GetStatement
from ussd_server.services.clients.messages import LogIn
from ussd_server.services.operator_names import require_two_names
from ussd_server.services.operators.messages import CreateOperator
from ussd_server.services.request_log.messages import ListRequests
from ussd_server.services.sms.messages import ListSms
from ussd_server.settings import Settings
from ussd_server.status import ServiceError
from ussd_server.wire import ListPage

pytestmark = pytest.mark.slow

URL = "http://127.0.0.1:8000"


def test_a_first_start_has_a_day_of_everything_and_clean_books(services: Services) -> None:
    began_at = services.clock.now()
    made = prepare_demonstration(services, URL)
    context = operator_context(made.client_id)

    rows = list(Transaction.select())
    outcomes = Counter((row.type, row.status) for row in rows)
    assert {
        ("collection", "succeeded"), ("collection", "failed"), ("collection", "pending"), ("collection", "ambiguous"),
        ("disbursement", "succeeded"), ("transfer", "succeeded"), ("refund", "succeeded"), ("deposit", "succeeded"),
    } <= outcomes.keys()  # fmt: skip
    assert len({row.failure_code for row in rows if row.status == "failed"}) >= 4
    assert [row.late for row in rows if row.review_opened_at and row.status == "succeeded"] == [True]
    assert any(row.review_opened_at and row.status == "ambiguous" for row in rows)

    sessions = list(UssdSession.select())
    assert {"completed", "timed_out", "ended_by_user"} <= {row.status for row in sessions}
    assert {"en", "lg"} <= {row.language for row in sessions}
    drop_offs = services.replays.drop_offs("savings-group", context)
    assert sum(item.drop_offs > 0 for item in drop_offs.items) >= 4

    assert {row.status: row.invalid_count for row in Payout.select()} == {"completed": 0, "draft": 1}
    assert Webhook.select().where(Webhook.url.is_null(False)).count() == 1
    # The worker of the running service sends these.
    assert {row.status for row in Delivery.select()} == {"waiting"}

    (key,) = services.key_reader.list(context)
    assert key.name == "Web shop (example)"
    assert services.payment_codes.prefix(context) == "DEMO"
    assert [code.code for code in services.payment_codes.list(ListPage(), context).items] == ["DEMOFEES1"]
    # A payment to a code that is not known, and two lines of the statement.
    assert services.movements.count_held(operator_context()) == 3
    (proposal,) = services.proposals.list_open(operator_context())
    assert proposal.proposed_by == made.operator_email
    assert services.bank_accounts.count_waiting(operator_context()) == 1
    assert services.differences.count(operator_context()) == 1
    (calls,) = services.call_history.get(None, operator_context()).values()
    assert sum(quarter.good_share is not None for quarter in calls) >= 20
    assert len(services.sms.list(ListSms(), context).items) == 2
    calls_of_key = services.request_log.list(ListRequests(), context).items
    assert Counter(call.status for call in calls_of_key) == {201: 2, 400: 2}

    # Each of the last 24 hours but some of the night, none later than now, and the ledger agrees.
    hours = {(began_at - row.created_at) // timedelta(hours=1) for row in rows}
    assert len(hours) >= 14
    assert {hour >= -1 for hour in hours} == {True}
    lines = list(services.statements.stream(GetStatement("main"), context).lines)
    first, last = datetime.fromisoformat(lines[0].at), datetime.fromisoformat(lines[-1].at)
    assert last - first > timedelta(hours=20)
    assert last < began_at + timedelta(minutes=5)
    assert read_service_clock().ahead == timedelta()
    assert check_everything() == []

    # The second start keeps all and adds nothing.
    assert prepare_demonstration(services, URL) == made
    assert (Transaction.select().count(), UssdSession.select().count()) == (len(rows), len(sessions))


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_an_operator_of_the_demonstration_signs_in_with_the_code_that_a_command_prints(services: Services) -> None:
    made = prepare_demonstration(services, URL, with_examples=False)
    local = replace(operator_context(), address="127.0.0.1")
    for email, password in (
        (made.operator_email, made.operator_password), (made.second_operator_email, made.second_operator_password)
    ):  # fmt: skip
        code = services.operators.present_code(email, operator_context())
        assert services.operator_logins.begin(LogIn(email, password, code), local)
    # Commands take any two names, as the documents show them, until an operator of one's own exists.
    assert require_two_names("Ann", "Bob") == ("Ann", "Bob")
    services.operators.create(CreateOperator("ann@ops.example", PASSWORD), operator_context())
    with pytest.raises(ServiceError):
        require_two_names("Ann", "Bob")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_examples_are_left_out_when_they_are_not_wanted_and_never_added_later(services: Services) -> None:
    prepare_demonstration(services, URL, with_examples=False)
    assert [row.type for row in Transaction.select()] == ["deposit"]
    prepare_demonstration(services, URL)
    assert [row.type for row in Transaction.select()] == ["deposit"]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_without_its_file_the_demonstration_gets_a_new_password_and_a_new_key(
    services: Services, web: FlaskClient, tmp_path: Path
) -> None:
    first = prepare_demonstration(services, URL, with_examples=False)
    (tmp_path / "demo.json").unlink()
    second = prepare_demonstration(services, URL)
    assert (second.password != first.password, second.apikey != first.apikey) == (True, True)
    login = {"email": second.email, "password": second.password}
    assert web.post("/api/clients/login", json=login).status_code == 200
    headers = {"x-api-key": second.apikey, "x-api-secret": second.apisecret}
    assert web.get("/api/balance", headers=headers).status_code == 200


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_no_example_payment_is_sent_to_another_provider(settings: Settings, clock: MovableClock) -> None:
    with services_of(settings, clock, **mtn_settings("http://127.0.0.1:9")) as services:
        prepare_demonstration(services, URL)
        assert [row.type for row in Transaction.select()] == ["deposit"]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_time_is_right_after_a_start_that_was_killed_among_the_examples(services: Services, tmp_path: Path) -> None:
    set_service_time(services.clock.now() - timedelta(hours=7))
    (tmp_path / "examples.unfinished").touch()
    prepare_demonstration(services, URL, with_examples=False)
    assert abs(read_service_clock().ahead) < timedelta(seconds=1)
    assert not (tmp_path / "examples.unfinished").exists()
