"""Payouts: drafts, approval, sending, cancellation, and what they leave in the books."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import MovableClock
from tests.faults.workers import services_of
from tests.services.payouts.desk import PayoutDesk, code_of, row
from tests.support.books import check_everything
from tests.support.money import a_client, agree_fee, operator, request, work
from tests.support.stand_ins import airtel_settings, mtn_settings
from ussd_server.bootstrap import Services
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.payouts import Payout
from ussd_server.models.providers import ProviderAccount
from ussd_server.models.sending import Event
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Registration
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.payouts.attempts import make_attempts
from ussd_server.services.payouts.messages import ApprovePayout, ItemState, ListPayoutItems, ListPayouts, NameMatch
from ussd_server.services.providers.providers import Providers
from ussd_server.services.search.messages import Search
from ussd_server.services.transactions.create import TransactionCreator
from ussd_server.services.transactions.messages import ListTransactions, TransactionType
from ussd_server.settings import Settings
from ussd_server.status import Code, ServiceError


def test_a_payout_is_judged_approved_sent_and_completed(desk: PayoutDesk, services: Services) -> None:
    agree_fee(FeeTerms(desk.client_id, TransactionType.DISBURSEMENT, 5_000, 0))
    draft = desk.draft(
        row("a", amount=1000),
        row("b", "+256770000001", 2000),
        row("c", "0772"),
        row("d", amount="12.345"),
        row("e", "+256770000000", "70.5"),
        row("e"),
        row(""),
    )
    assert (draft.status, draft.item_count, draft.ready_count, draft.invalid_count) == ("draft", 7, 2, 5)
    assert (draft.total_amount_cents, draft.total_fee_cents) == (300_000, 10_000)
    assert [item.problems for item in desk.items(draft, ItemState.INVALID)] == [
        ("phone_number: Must be +256 followed by nine digits.",),
        ("amount: Must be greater than 0 and less than 1000000, with at most two decimals.",),
        ("reference: Used in rows 5 and 6; each must be unique.",),
        ("reference: Used in rows 5 and 6; each must be unique.",),
        ("reference: Missing.",),
    ]
    assert desk.main() == (50_000_000, 0)

    approved = desk.approve(draft)
    assert (approved.status, approved.approved_by) == ("approved", desk.approver.caller.key_id)
    assert approved.queued_count == 2
    assert desk.main() == (50_000_000, 310_000)
    assert desk.approve(draft).status == "approved"
    desk.tick()
    assert desk.see(draft).status == "running"
    desk.work(2)
    done = desk.see(draft)
    assert (done.status, done.succeeded_count, done.failed_count, done.queued_count) == ("completed", 1, 1, 0)
    # The fee of the failed row is released with its amount.
    assert desk.main() == (50_000_000 - 105_000, 0)
    items = desk.items(draft)
    assert [item.state for item in items] == ["succeeded", "failed", *["invalid"] * 5]
    assert (items[1].failure and items[1].failure.code) == "CLIENT_FLOAT_LOW"
    page = services.transactions.list(ListTransactions(payout_id=draft.payout_id), desk.maker)
    assert sorted(view.reference for view in page.items) == ["P1/a", "P1/b"]
    assert {view.payout_id for view in page.items} == {draft.payout_id}
    reported = Event.select().where(Event.object_id == draft.payout_id).order_by(Event.sequence)
    assert [(event.type, event.payload["status"]) for event in reported] == [
        ("payout.needs_approval", "draft"),
        ("payout.completed", "completed"),
    ]
    assert check_everything() == []


def test_a_draft_shows_the_fees_that_are_agreed_when_it_is_made(desk: PayoutDesk) -> None:
    assert desk.draft_of(2, "before").total_fee_cents == 0
    agree_fee(FeeTerms(desk.client_id, TransactionType.DISBURSEMENT, 5_000, 0))
    after = desk.draft_of(2, "after")
    assert (after.total_fee_cents, desk.items(after)[0].fee_cents) == (10_000, 5_000)


def test_a_draft_judges_what_its_providers_move(settings: Settings, clock: MovableClock) -> None:
    places = mtn_settings("http://127.0.0.1:9") | airtel_settings("http://127.0.0.1:9") | {"USSD_AIRTEL_PIN": ""}
    with services_of(settings, clock, **places) as services:
        desk = PayoutDesk(services, clock)
        amounts = (499, 500, "500.5", 999_999, "999999.99")
        rows = [row(f"m{place}", "+256772123456", amount) for place, amount in enumerate(amounts)]
        draft = desk.draft(*rows, row("a", "+256752123456", 500))
        whole, bounds = "amount: mtn moves whole shillings only.", "amount: mtn moves UGX 500 to 999,999 at a time."
        off = "phone_number: airtel is not set up for disbursements here."
        expected = [(bounds,), (), (whole,), (), (whole, bounds), (off,)]
        assert [item.problems for item in desk.items(draft)] == expected
        assert (draft.ready_count, draft.total_amount_cents) == (2, 100_049_900)


def test_the_maker_approves_nothing_and_an_approval_counts_once(desk: PayoutDesk, clock: MovableClock) -> None:
    draft = desk.draft(row())
    name = ApprovePayout(draft.payout_id)
    assert code_of(lambda: desk.payouts.approve(name, desk.maker)) is Code.INSUFFICIENT_SCOPE
    person = replace(desk.approver, caller=replace(desk.approver.caller, key_id=None, user_id=desk.client_id))
    assert desk.payouts.approve(name, person).approved_by == desk.client_id
    assert desk.payouts.approve(name, person).approved_by == desk.client_id
    assert code_of(lambda: desk.approve(draft)) is Code.INVALID_REQUEST
    assert code_of(lambda: desk.payouts.approve(name, desk.maker)) is Code.INSUFFICIENT_SCOPE
    for grants in ("payouts:read", "payouts:write", "transactions:*"):
        weak = replace(desk.approver, caller=replace(desk.approver.caller, grants=frozenset({grants})))
        assert code_of(lambda weak=weak: desk.payouts.approve(name, weak)) is Code.INSUFFICIENT_SCOPE
    other = desk.draft(row("x"), reference="P2")
    starred = replace(desk.approver, caller=replace(desk.approver.caller, grants=frozenset({"payouts:*"})))
    assert desk.payouts.approve(ApprovePayout(other.payout_id), starred).status == "approved"
    hollow = desk.draft(row("x", amount=0), reference="P3")
    assert code_of(lambda: desk.approve(hollow)) is Code.INVALID_REQUEST
    stranger = a_client("other")
    assert code_of(lambda: desk.payouts.get(draft.payout_id, stranger)) is Code.NOT_FOUND
    assert check_everything() == []


def test_wrong_fees_write_nothing_into_a_draft_that_shows_the_right_ones(desk: PayoutDesk, clock: MovableClock) -> None:
    draft = desk.draft_of(2)
    made_at = Payout.get_by_id(draft.payout_id).updated_at
    clock.advance(1)
    wrong = ApprovePayout(draft.payout_id, total_fee_cents=900)
    assert code_of(lambda: desk.payouts.approve(wrong, desk.approver)) is Code.INVALID_REQUEST
    assert Payout.get_by_id(draft.payout_id).updated_at == made_at


def test_too_little_money_reserves_nothing(desk: PayoutDesk) -> None:
    draft = desk.draft(*(row(f"r{place}", amount=200_000) for place in range(3)))
    assert code_of(lambda: desk.approve(draft)) is Code.INSUFFICIENT_BALANCE
    assert desk.main() == (50_000_000, 0)
    assert desk.see(draft).status == "draft"
    assert Transaction.select().where(Transaction.payout_id == draft.payout_id).count() == 0


def test_the_same_file_is_the_same_payout_and_a_used_reference_is_invalid(desk: PayoutDesk, services: Services) -> None:
    draft = desk.draft(row("a"), row("b", amount=5))
    assert desk.draft(row("a"), row("b", amount=5)).payout_id == draft.payout_id
    assert code_of(lambda: desk.draft(row("a"), row("b", amount=6))) is Code.IDEMPOTENCY_KEY_REUSED
    services.transactions.create(request("disbursement", reference="P1/b"), desk.maker)
    # A row whose reference was taken after the draft refuses the approval and names the line.
    with pytest.raises(ServiceError, match="these rows were used since the payout was created: 2"):
        desk.approve(draft)
    services.transactions.create(request("disbursement", reference="P2/b"), desk.maker)
    second = desk.draft(row("a"), row("b"), reference="P2")
    assert [item.problems for item in desk.items(second)] == [(), ("reference: Was used before.",)]
    assert check_everything() == []


def test_a_provider_that_is_away_leaves_rows_queued_and_cancellable(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    agree_fee(FeeTerms(desk.client_id, TransactionType.DISBURSEMENT, 1_000, 0))
    draft = desk.draft_of(5)
    desk.approve(draft)
    with monkeypatch.context() as away:
        away.setattr(Providers, "is_connection_away", lambda *_: True)
        desk.work(200)
    assert desk.states(draft) == ["queued"] * 5
    assert desk.see(draft).status == "approved"
    send_one(desk, draft.payout_id)
    assert sorted(desk.states(draft)) == ["queued"] * 4 + ["succeeded"]
    cancelled = desk.cancel(draft)
    assert (cancelled.status, cancelled.queued_count, cancelled.succeeded_count) == ("cancelled", 0, 1)
    assert cancelled.completed_at is not None
    assert sorted(desk.states(draft)) == ["cancelled"] * 4 + ["succeeded"]
    assert {item.transaction_id for item in desk.items(draft) if item.state == "cancelled"} == {None}
    assert desk.main() == (50_000_000 - 11_000, 0)
    assert desk.cancel(draft).status == "cancelled"
    assert code_of(lambda: desk.approve(draft)) is Code.INVALID_REQUEST
    desk.work(5)
    assert Event.select().where(Event.object_id == draft.payout_id, Event.type == "payout.completed").count() == 1
    assert check_everything() == []


def test_rows_of_a_disabled_client_wait_until_it_is_enabled_or_they_are_cancelled(desk: PayoutDesk) -> None:
    paid, stopped = desk.draft_of(2, "P1"), desk.draft_of(2, "P2")
    desk.approve(paid)
    desk.approve(stopped)
    clients = desk.services.clients
    clients.set_active(desk.client_id, False, operator(), "a stolen laptop")
    desk.work(5)
    assert desk.states(paid) == desk.states(stopped) == ["queued"] * 2
    assert desk.cancel(stopped).completed_at is not None
    clients.set_active(desk.client_id, True, operator(), "found again")
    desk.work(5)
    assert (desk.states(paid), desk.states(stopped)) == (["succeeded"] * 2, ["cancelled"] * 2)
    assert check_everything() == []


def send_one(desk: PayoutDesk, payout_id: str) -> None:
    with unit_of_work():
        payout = lock_row(Payout, payout_id)
        assert (
            make_attempts(
                TransactionCreator(desk.services.runtime),
                payout,
                desk.services.runtime.providers.accounts["sandbox"],
                1,
            )
            == 1
        )
    work(desk.services, desk.clock)


def test_a_draft_is_cancelled_without_a_trace_in_the_books(desk: PayoutDesk) -> None:
    draft = desk.draft(row(), row("bad", amount=-1))
    assert desk.cancel(draft).status == "cancelled"
    assert desk.states(draft) == ["cancelled", "invalid"]
    assert code_of(lambda: desk.approve(draft)) is Code.INVALID_REQUEST
    assert check_everything() == []


def test_a_completed_payout_cannot_be_cancelled(desk: PayoutDesk) -> None:
    draft = desk.draft(row())
    desk.approve(draft)
    desk.work(2)
    assert code_of(lambda: desk.cancel(draft)) is Code.INVALID_REQUEST
    assert desk.see(draft).status == "completed"


def test_payouts_and_rows_come_in_pages(desk: PayoutDesk) -> None:
    made = [desk.draft_of(3, f"P{place}").payout_id for place in range(5)]
    first = desk.payouts.list(ListPayouts(limit=3), desk.maker)
    rest = desk.payouts.list(ListPayouts(limit=3, cursor=first.next_cursor), desk.maker)
    assert [each.payout_id for each in (*first.items, *rest.items)] == made[::-1]
    assert rest.next_cursor is None
    page = desk.payouts.items(ListPayoutItems(made[0], limit=2), desk.maker)
    last = desk.payouts.items(ListPayoutItems(made[0], limit=2, cursor=page.next_cursor), desk.maker)
    assert [item.line for item in (*page.items, *last.items)] == [1, 2, 3]
    assert last.next_cursor is None
    assert code_of(lambda: desk.payouts.items(ListPayoutItems(made[1], cursor=page.next_cursor), desk.maker)) is (
        Code.INVALID_REQUEST
    )


def test_in_the_sandbox_a_name_is_the_registered_one_unless_the_number_is_one_that_differs(desk: PayoutDesk) -> None:
    rows = [row("a", "+256772123456", name="Grace Auma"), row("b", "+256770000042", name="Grace Auma")]
    draft = desk.draft(*rows)
    desk.work(1)
    items = desk.items(draft)
    assert [item.name_match for item in items] == ["same", "different"]
    assert [item.registered_name for item in items] == ["Grace Auma", "SANDBOX SUBSCRIBER 42"]


def test_names_are_looked_up_once_a_day_after_the_draft_is_kept(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, asked = desk.services.runtime.providers.get("sandbox"), list[str]()

    def look_up(number: str, _: float) -> Registration:
        asked.append(number)
        return Registration("Grace Auma", True) if number.endswith("00") else Registration(None, False)

    monkeypatch.setattr(provider, "look_up", look_up)
    rows = [row("a", name="GRACE AUMA"), row("b", name="Somebody Else"), row("c")]
    draft = desk.draft(*rows, row("d", "+256770000009", name="Grace Auma"))
    assert [item.name_match for item in desk.items(draft)] == ["unknown", "unknown", None, "unknown"]
    desk.work(1)
    assert [item.name_match for item in desk.items(draft)] == ["same", "different", None, "unknown"]
    desk.clock.advance(60)
    assert desk.services.payout_sender.claim(10) == [], "no name is left to look up"
    different = ListPayoutItems(draft.payout_id, name_match=NameMatch.DIFFERENT)
    assert [item.reference for item in desk.payouts.items(different, desk.maker).items] == ["b"]
    again = desk.draft(row("a", name="AUMA GRACE"), row("b", "+256770000009", name="X"), reference="P2")
    desk.work(1)
    assert [item.name_match for item in desk.items(again)] == ["same", "unknown"]
    assert asked == ["+256770000000", "+256770000009"]
    counts = [desk.payouts.details(each.payout_id, desk.maker).name_matches for each in (draft, again)]
    assert counts == [{"same": 1, "different": 1, "unknown": 1}, {"same": 1, "unknown": 1}]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_key_without_payouts_read_learns_nothing_about_a_payout(desk: PayoutDesk) -> None:
    draft, payouts = desk.draft(row()), desk.payouts
    blind = replace(desk.maker, caller=replace(desk.maker.caller, grants=frozenset({"transactions:*"})))
    for read in (payouts.get, payouts.details, payouts.equal_payment_count):
        assert code_of(lambda read=read: read(draft.payout_id, blind)) is Code.INSUFFICIENT_SCOPE, read
    for read in (payouts.items, payouts.stream_items, payouts.csv):
        wanted = ListPayoutItems(draft.payout_id)
        assert code_of(lambda read=read, wanted=wanted: read(wanted, blind)) is Code.INSUFFICIENT_SCOPE, read
    assert code_of(lambda: payouts.list(ListPayouts(), blind)) is Code.INSUFFICIENT_SCOPE


def test_a_payout_is_found_by_its_names_by_callers_that_may_read_payouts(desk: PayoutDesk, services: Services) -> None:
    draft = desk.draft(row(), reference="Salaries May")
    for grants, hits in (("payouts:read", [("payout", draft.payout_id)]), ("transactions:*", [])):
        caller = replace(desk.maker, caller=replace(desk.maker.caller, grants=frozenset({grants})))
        for text in ("Salaries May", draft.payout_id):
            assert [(hit.kind, hit.id) for hit in services.search.search(Search(text), caller).items] == hits


def test_an_approval_beyond_the_float_is_logged(desk: PayoutDesk, caplog: pytest.LogCaptureFixture) -> None:
    now = desk.clock.now()
    ProviderAccount.insert(
        account="sandbox", provider="sandbox", amount_cents=150_000, read_at=now, asked_at=now
    ).execute()
    desk.approve(desk.draft(row("a", amount=1500), reference="P1"))
    assert "larger than the float" not in caplog.text
    desk.approve(desk.draft(row("a", amount=1000), row("b", amount=501), reference="P2"))
    assert "a payout that is larger than the float was approved" in caplog.text
