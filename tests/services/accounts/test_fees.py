"""Fees: how they are worked out, that they are transfers of their own, and how an operator agrees them."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
from click.testing import CliRunner

from tests.conftest import MovableClock
from tests.support.books import check_everything
from tests.support.money import a_client, agree_fee, balances, deposit, operator, request, work
from ussd_server.bootstrap import Services
from ussd_server.cli import main
from ussd_server.models.clients import AuditEvent
from ussd_server.services.accounts.ledger import fee_cents, list_fees, set_fee
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.transactions.messages import CreateRefund, GetTransaction, TransactionType
from ussd_server.settings import Settings
from ussd_server.status import Code, ServiceError


@pytest.mark.parametrize(
    ("fixed_cents", "share_basis_points", "amount_cents", "expected_cents"),
    [
        (0, 0, 100, 0),
        (50, 0, 100, 50),
        (0, 100, 10_000, 100),
        (0, 150, 33, 0),  # 0.495 of a cent
        (0, 150, 34, 1),  # 0.51
        (0, 5_000, 1, 1),  # exactly half a cent goes up
        (0, 5_000, 3, 2),
        (10, 150, 99_999_999, 1_500_010),
        (50_000, 0, 100, 100),  # never more than the amount
        (0, 10_000, 99_999_999, 99_999_999),
        (99_999_999, 10_000, 1, 1),
    ],
)
def test_a_fee_is_a_fixed_part_and_a_share_rounded_half_up(
    fixed_cents: int, share_basis_points: int, amount_cents: int, expected_cents: int
) -> None:
    agreed = FeeTerms("a client", TransactionType.COLLECTION, fixed_cents, share_basis_points)
    assert fee_cents(agreed, amount_cents) == expected_cents


def test_every_type_pays_its_fee_as_a_transfer_of_its_own(services: Services, clock: MovableClock) -> None:
    call = a_client()
    for number, kind in enumerate(("collection", "disbursement", "transfer", "refund"), 1):
        agree_fee(FeeTerms(call.client_id, TransactionType(kind), number * 100, 0))
    deposit(services, call, 1000)
    collected = services.transactions.create(request("collection", shillings=500), call).transaction
    services.transactions.create(request("collection", shillings=100, account="+256770000000"), call)
    work(services, clock)
    services.transactions.create(request("disbursement", shillings=200), call)
    services.transactions.create(request("disbursement", "+256770000001", 200), call)
    services.transactions.create(request("transfer", shillings=50, to_phone_number="+256770000002"), call)
    work(services, clock)
    services.refunds.create(CreateRefund(collected.transaction_id, "back"), call)
    work(services, clock)
    assert balances(call.client_id) == {
        "main": (100_000 + 50_000 - 100 - 20_000 - 200 - 50_000 - 400, 0),
        "+256770000000": (10_000 - 100 - 5_000 - 300, 0),
        "+256770000002": (5_000, 0),
        "fees": (100 + 100 + 200 + 300 + 400, 0),
        "provider:sandbox": (-50_000 - 10_000 + 20_000 + 50_000, 0),
        "deposits": (-100_000, 0),
    }
    assert check_everything() == []


def test_a_late_success_whose_fee_cannot_be_paid_takes_what_is_there_and_a_shortfall(
    services: Services, clock: MovableClock
) -> None:
    call = a_client()
    agree_fee(FeeTerms(call.client_id, TransactionType.DISBURSEMENT, 100, 0))
    deposit(services, call, 501)
    late = services.transactions.create(request("disbursement", "+256770000009", 500), call).transaction.transaction_id
    work(services, clock, 2)
    agree_fee(FeeTerms(call.client_id, TransactionType.DISBURSEMENT, 0, 0))
    services.transactions.create(request("disbursement", shillings=1), call)
    work(services, clock, 10)
    assert services.transactions.get(GetTransaction(late), call).late
    assert balances(call.client_id)["main"] == (0, 0)
    assert balances(call.client_id)["shortfall"] == (-100, 0)
    assert check_everything() == []


def test_the_fee_of_a_disbursement_must_be_there_too(services: Services) -> None:
    call = a_client()
    agree_fee(FeeTerms(call.client_id, TransactionType.DISBURSEMENT, 1, 0))
    deposit(services, call, 100)
    with pytest.raises(ServiceError) as refusal:
        services.transactions.create(request("disbursement", shillings=100), call)
    assert refusal.value.code is Code.INSUFFICIENT_BALANCE


def test_a_fee_agreed_later_changes_no_existing_transaction(services: Services, clock: MovableClock) -> None:
    call = a_client()
    created = services.transactions.create(request(shillings=500), call).transaction
    agree_fee(FeeTerms(call.client_id, TransactionType.COLLECTION, 100, 0))
    work(services, clock)
    assert services.transactions.create(request(shillings=500), call).transaction.fee_cents == created.fee_cents == 0
    assert balances(call.client_id)["main"] == (50_000, 0)


def test_every_type_of_transaction_and_each_payment_of_a_menu_pays_what_is_agreed(
    services: Services, clock: MovableClock
) -> None:
    call, payee = a_client(), "+256770000002"
    deposit(services, call, 20_000)
    create = services.transactions.create
    collected = create(request(), call).transaction.transaction_id
    create(request(account="+256770000000", reference="funds"), call)
    work(services, clock)
    free = (TransactionType.DEPOSIT, TransactionType.SETTLEMENT, TransactionType.CORRECTION)
    kinds = [kind for kind in TransactionType if kind not in free]
    for number, cents in enumerate((100, 70, 0)):
        for kind in kinds:
            agree_fee(FeeTerms(call.client_id, kind, cents, 0))
        place = ("channel", "session", "node")
        made = [
            create(request(reference=f"menu {number}", menu_step=place), call),
            create(request("disbursement", shillings=100, reference=f"out {number}"), call),
            create(request("transfer", shillings=100, to_phone_number=payee, reference=f"over {number}"), call),
            services.refunds.create(CreateRefund(collected, f"back {number}", 10_000), call),
        ]
        assert {each.transaction.type for each in made} == set(kinds)
        assert [each.transaction.fee_cents for each in made] == [cents] * 4
    assert check_everything() == []


def test_a_fee_out_of_its_bounds_is_refused(services: Services) -> None:
    for kind, fixed_cents, share_basis_points in (
        ("deposit", 0, 0),
        ("collection", -1, 0),
        ("collection", 100_000_000, 0),
        ("refund", 0, -1),
        ("refund", 0, 10_001),
    ):
        with pytest.raises(ServiceError) as refusal:
            agree_fee(FeeTerms(a_client().client_id, TransactionType(kind), fixed_cents, share_basis_points))
        assert refusal.value.code is Code.INVALID_REQUEST
    assert list_fees(operator()) == ()


def test_only_an_operator_agrees_fees_and_only_for_clients_that_exist(services: Services) -> None:
    call = a_client()
    with pytest.raises(ServiceError):
        set_fee(FeeTerms(call.client_id, TransactionType.COLLECTION, 0, 0), call, datetime.now(UTC))
    with pytest.raises(ServiceError) as refusal:
        agree_fee(FeeTerms("00000000-0000-0000-0000-000000000000", TransactionType.COLLECTION, 0, 0))
    assert refusal.value.code is Code.NOT_FOUND


def test_fees_are_set_and_listed_at_the_command_line(
    services: Services, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_id = a_client().client_id
    monkeypatch.setenv("USSD_DATABASE_URL", settings.database_url)
    monkeypatch.setenv("USSD_REDIS_URL", settings.redis_url)
    monkeypatch.setenv("USSD_DATA_DIR", str(settings.data_dir))

    def run(*arguments: str, exit_code: int = 0) -> str:
        result = CliRunner().invoke(main, ["fees", *arguments])
        assert result.exit_code == exit_code, result.output
        return result.output

    assert run("list") == "No fees were agreed.\n"
    run("set", "--client", "ACME", "--type", "collection", "--fixed", "12.5", "--share-basis-points", "150")
    run("set", "--client", client_id, "--type", "collection", "--fixed", "100", "--share-basis-points", "125")
    assert run("list") == f"{client_id}  collection    UGX 100 and 1.25 percent\n"
    agreed = {"client_id": client_id, "type": "collection", "fixed": 100, "share_basis_points": 125}
    assert orjson.loads(run("list", "--json")) == {"items": [agreed]}
    run("set", "--client", "nobody", "--type", "collection", exit_code=1)
    run("set", "--client", client_id, "--type", "collection", "--fixed", "1000000", exit_code=1)
    for wrong in ("-1", "1.005", "1e3", "١"):
        run("set", "--client", client_id, "--type", "collection", "--fixed", wrong, exit_code=2)


def test_the_audit_trail_of_the_client_shows_each_fee_that_was_agreed(services: Services) -> None:
    call = a_client()
    agree_fee(FeeTerms(call.client_id, TransactionType.DISBURSEMENT, 150_050, 150))
    event = AuditEvent.get(AuditEvent.client_id == call.client_id)
    assert (event.action, event.actor, event.reason) == (
        "fee.agreed",
        "operator",
        "disbursement: UGX 1,500.50 and 1.5 percent",
    )
