"""What is edited at the database prompt is refused by the database, or named by the check of the books."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from peewee import IntegrityError, InternalError

from tests.conftest import MovableClock
from tests.services.operations.conftest import Scene
from tests.support.books import check_everything
from tests.support.example_client import ExampleClient
from tests.support.money import deposit, operator
from tests.support.unguarded import without_triggers
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import database, dialect, unit_of_work
from ussd_server.models.clients import AuditEvent
from ussd_server.models.keys import ApiKey
from ussd_server.models.ledger import BankAccount
from ussd_server.models.statements import ClosedDay
from ussd_server.services.bank.messages import ProposeSettlements, SetSettlementTerms, StateBankAccount
from ussd_server.services.clients.keys.messages import RotateApiKey, UpdateApiKey
from ussd_server.services.operations.book_check.history_digests import OTHER_PAST, OTHER_TRAIL
from ussd_server.services.signatures import UNSIGNED
from ussd_server.status import ServiceError

pytestmark = pytest.mark.both_databases

REFUSED = "refused"
EDITS = [
    ("UPDATE bank_accounts SET number = '666' WHERE client_id = '{client}'", REFUSED),
    ("UPDATE bank_accounts SET number = '666', confirmed_at = NULL, confirmed_by = NULL WHERE client_id = '{client}'",
     UNSIGNED),
    ("UPDATE bank_accounts SET keep_cents = 1 WHERE client_id = '{client}'", UNSIGNED),
    ("UPDATE payment_codes SET account = '+256770000000' WHERE code = 'SCH1'", UNSIGNED),
    ("UPDATE payment_codes SET client_id = '{other}' WHERE code = 'SCH1'", REFUSED),
    ("UPDATE payment_codes SET used_at = NULL WHERE code = 'SCH1'", REFUSED),
    ("UPDATE payment_code_prefixes SET prefix = 'XX' WHERE client_id = '{client}'", REFUSED),
    ("DELETE FROM payment_code_prefixes WHERE client_id = '{client}';; "
     "INSERT INTO payment_code_prefixes (client_id, prefix) VALUES ('{client}', 'XX')", UNSIGNED),
    ("UPDATE api_keys SET scopes = NULL WHERE id = '{api_key}'", UNSIGNED),
    ("UPDATE api_keys SET people = '' WHERE id = '{api_key}'", UNSIGNED),
    ("UPDATE api_keys SET daily_limit_cents = 1 WHERE id = '{api_key}'", UNSIGNED),
    ("UPDATE api_keys SET allowed_addresses = '10.0.0.0/8' WHERE id = '{api_key}'", UNSIGNED),
    ("UPDATE api_keys SET client_id = '{other}' WHERE id = '{api_key}'", REFUSED),
    ("UPDATE closed_days SET ours_cents = 1", REFUSED),
    ("UPDATE closed_days SET closed_by = 'Eve'", REFUSED),
    ("DELETE FROM closed_days", REFUSED),
    ("UPDATE movement_uses SET decided_by = 'Eve, Adam' WHERE movement_id = '{returned}'", REFUSED),
    ("UPDATE movements SET use_kind = 'own' WHERE id = '{held}'", REFUSED),
    ("UPDATE movements SET counterpart = '{held}' WHERE id = '{returned}'", REFUSED),
    ("INSERT INTO movement_uses (id, movement_id, number, kind, decided_by, reason, created_at) "
     "SELECT '{other}', id, 9, 'own', 'Eve, Adam', 'ours', created_at FROM movements WHERE id = '{held}'", UNSIGNED),
    ("INSERT INTO movement_uses (id, movement_id, number, kind, created_at) SELECT '{other}', id, 9, 'own', created_at "
     "FROM movements WHERE id = '{returned}'", REFUSED),
    ("UPDATE users SET password_seen_by = '{other}'", REFUSED),
    ("DELETE FROM audit_events", REFUSED),
    ("UPDATE audit_events SET decided_by = 'Eve'", REFUSED),
    ("DELETE FROM row_signatures", REFUSED),
    ("UPDATE transactions SET callback_url = 'https://evil.example' WHERE id = '{collection_01}'", REFUSED),
    ("UPDATE transactions SET due_at = created_at WHERE id = '{collection_00}'", REFUSED),
    ("UPDATE transactions SET due_at = created_at WHERE id = '{settled}'", REFUSED),
]  # fmt: skip
# The same with the triggers out of the way.
WITHOUT_TRIGGERS = [
    ("UPDATE bank_accounts SET number = '666' WHERE client_id = '{client}'", UNSIGNED),
    ("UPDATE payment_code_prefixes SET prefix = 'XX' WHERE client_id = '{client}'", UNSIGNED),
    ("UPDATE movement_uses SET decided_by = 'Eve, Adam' WHERE movement_id = '{returned}'", UNSIGNED),
    ("DELETE FROM row_signatures WHERE substr(id, 1, 9) = 'api_keys/'", UNSIGNED),
    ("DELETE FROM audit_events WHERE action = 'bank_account.confirmed'", OTHER_TRAIL),
    ("UPDATE audit_events SET decided_by = 'Eve' WHERE action = 'bank_account.confirmed'", OTHER_TRAIL),
    ("UPDATE transactions SET callback_url = 'https://evil.example' WHERE id = '{collection_01}'", OTHER_PAST),
    ("UPDATE transaction_events SET provider_call = NULL WHERE transaction_id = '{collection_01}'", OTHER_PAST),
    ("UPDATE transactions SET due_at = created_at WHERE id = '{deposit}'", "is complete and due again"),
]  # fmt: skip


@pytest.fixture
def books(services: Services, scene: Scene, clock: MovableClock, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """The scene with a key and a closed day, when the day of all this is over."""
    api_key = ExampleClient(services, "Keys").create_key("balance:read").id
    closed = {"account": "mtn", "day": "2026-11-01", "ours_cents": 5, "theirs_cents": 5, "bridge": []}
    ClosedDay.insert(**closed, closed_by="Ann", closed_at=clock.now()).execute()
    clock.advance(26 * 3600)
    services.history_digests.write()
    # The check is made within the transaction that does the harm, so that the harm can be taken back.
    monkeypatch.setattr(dialect(), "snapshot", nullcontext)
    return scene | {"api_key": api_key}


def outcome_of(services: Services, statement: str, books: Scene, *, with_triggers: bool = True) -> set[str]:
    """What the check names after an edit, or that the database refuses it."""
    try:
        with unit_of_work() as harm:
            with nullcontext() if with_triggers else without_triggers():
                for each in statement.split(";; "):
                    database.execute_sql(each.format_map(books))
            rules = {each.rule for each in check_everything(vault=services.runtime.vault)}
            harm.rollback()
    except (IntegrityError, InternalError):
        return {REFUSED}
    return rules


def test_every_edit_is_refused_or_named(services: Services, books: Scene) -> None:
    assert outcome_of(services, "SELECT 1", books) == set()
    outcomes = [(edit, expected, outcome_of(services, edit, books)) for edit, expected in EDITS]
    unlike = [each for each in outcomes if each[1] not in each[2]]
    assert not unlike, "\n".join(map(str, unlike))


def test_every_edit_without_triggers_is_named(services: Services, books: Scene) -> None:
    outcomes = [
        (edit, expected, outcome_of(services, edit, books, with_triggers=False)) for edit, expected in WITHOUT_TRIGGERS
    ]
    unlike = [each for each in outcomes if each[1] not in each[2]]
    assert not unlike, "\n".join(map(str, unlike))


def test_what_the_service_changes_stays_signed(services: Services) -> None:
    client = ExampleClient(services)
    key = client.create_key("balance:read")
    services.api_keys.change(UpdateApiKey(key.id, scopes=("menus:read",)), client.call())
    services.api_keys.rotate(RotateApiKey(key.id), client.call())
    services.api_keys.set_active(key.id, False, operator())
    services.api_keys.list(client.at_console())
    services.master_keys.add(operator())
    services.master_keys.rekey(operator())
    services.master_keys.retire(operator())
    assert check_everything(vault=services.runtime.vault) == []
    services.api_keys.delete(key.id, client.call())
    services.master_keys.add(operator())
    services.master_keys.rekey(operator())
    services.master_keys.retire(operator())
    assert check_everything(vault=services.runtime.vault) == []


def test_an_edited_row_is_named_until_two_operators_sign_it_again(services: Services) -> None:
    key = ExampleClient(services).create_key("balance:read")
    ApiKey.update(scopes="menus:read").where(ApiKey.id == key.id).execute()
    (violation,) = check_everything(vault=services.runtime.vault)
    assert str(violation) == f"API key {key.id} {UNSIGNED}."
    with pytest.raises(ServiceError, match="Two different people"):
        services.signatures.sign_again("Ann", "Ann", "Compared", operator())
    services.signatures.sign_again("Ann", "Ben", "Compared", operator())
    assert check_everything(vault=services.runtime.vault) == []
    (event,) = AuditEvent.select().where(AuditEvent.action == "rows.signed_again")
    assert (event.decided_by, event.reason) == ("Ann, Ben", "Compared")


def test_an_edit_stays_named_when_the_service_changes_the_row_later(services: Services) -> None:
    client = ExampleClient(services)
    key = client.create_key("balance:read")
    services.bank_accounts.state(StateBankAccount("Stanbic", "9030", "ACME Ltd"), client.at_console())
    ApiKey.update(scopes=None).where(ApiKey.id == key.id).execute()
    BankAccount.update(number="666", confirmed_by="Eve", confirmed_at=services.clock.now()).execute()
    services.api_keys.list(client.at_console())
    services.api_keys.change(UpdateApiKey(key.id, name="Till"), client.call())
    services.api_keys.rotate(RotateApiKey(key.id), client.call())
    services.bank_accounts.set_terms(SetSettlementTerms(client.id, 0, 0), operator())
    assert {each.id for each in check_everything(vault=services.runtime.vault)} == {key.id, client.id}
    deposit(services, client.at_console(), 5000)
    with pytest.raises(ServiceError, match="an owner has to state it again"):
        services.bank_settlements.propose(ProposeSettlements("Ann"), operator())
    services.bank_accounts.state(StateBankAccount("Stanbic", "9030", "ACME Ltd"), client.at_console())
    assert {each.id for each in check_everything(vault=services.runtime.vault)} == {key.id}
