"""Payouts as clients see them: drafts, reading, approval and cancellation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from peewee import Case, fn

from ussd_server.context import RequestContext
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import long_unit_of_work, release_connection
from ussd_server.logs import Logger
from ussd_server.models.payouts import Payout, PayoutItem
from ussd_server.models.providers import ProviderAccount
from ussd_server.models.transactions import Transaction
from ussd_server.services.operator_names import require_name, require_two_names
from ussd_server.services.pages import find_by_id, matching, page_of
from ussd_server.services.payouts import messages, records
from ussd_server.services.payouts.approval.approval import PayoutApproval
from ussd_server.services.payouts.approval.approvers import checked_note
from ussd_server.services.payouts.approval.digests import PayoutDigests
from ussd_server.services.payouts.approval.rules import approvals_needed
from ussd_server.services.payouts.approval.withdrawals import cancel_unsent
from ussd_server.services.payouts.attempts import has_begun, is_under_way
from ussd_server.services.payouts.drafts.drafts import PayoutDrafts
from ussd_server.services.payouts.holds import release, waiting_providers
from ussd_server.services.payouts.rounds import PayoutRounds
from ussd_server.services.providers.providers import Providers
from ussd_server.services.runtime import Runtime
from ussd_server.services.same_person import ids_of_same_person
from ussd_server.services.transactions.create import TransactionCreator
from ussd_server.spreadsheets.delimited import csv_parts, shillings_cell
from ussd_server.status import Code, ServiceError
from ussd_server.wire import Page

log = Logger(__name__)

# Other requests of the process go on between two reads.
_ITEMS_OF_STREAM = 100


class PayoutService:
    """Creates, shows, approves and cancels payouts. Calls no provider."""

    def __init__(self, runtime: Runtime, creator: TransactionCreator) -> None:
        self._outbox = runtime.mail_outbox
        self._clock, self._tokens, self._providers = runtime.clock, runtime.tokens, runtime.providers
        self._digests = PayoutDigests(runtime.vault)
        self._drafts = PayoutDrafts(runtime, creator.fees)
        self._approval, self._rounds = PayoutApproval(runtime, creator.gate), PayoutRounds(runtime)

    def create(self, request: messages.CreatePayout, context: RequestContext) -> messages.CreatedPayout:
        """Validate and keep every row, and send none (`PayoutDrafts.create`)."""
        return self._drafts.create(request, context)

    def retry(self, request: messages.RetryPayout, context: RequestContext) -> messages.CreatedPayout:
        """Open the next round of a payout (`PayoutRounds.retry`). NOT_FOUND as `get`."""
        context.require("payouts:write")
        return self._rounds.retry(_find(request.payout_id, context), request, context)

    def replace(self, request: messages.ReplacePayout, context: RequestContext) -> messages.CreatedPayout:
        """Put a corrected draft in the place of a draft (`PayoutDrafts.replace`). NOT_FOUND as `get`."""
        context.require("payouts:write")
        return self._drafts.replace(_find(request.payout_id, context), request, context)

    def get(self, payout_id: str, context: RequestContext) -> messages.PayoutStates:
        """One payout with the counts and sums of its rows by state. NOT_FOUND, also for another client's."""
        context.require("payouts:read")
        return records.payout_view(_find(payout_id, context))

    def details(self, payout_id: str, context: RequestContext) -> messages.PayoutDetails:
        """What the pages of a payout say beside its record. NOT_FOUND as `get`."""
        context.require("payouts:read")
        payout = _find(payout_id, context)
        is_draft = payout.status == messages.PayoutStatus.DRAFT
        return messages.PayoutDetails(
            replaced_by=payout.replaced_by,
            shortfalls=tuple(_shortfalls(payout, self._providers)),
            awaited=tuple(_providers_awaited(payout, self._providers)),
            unpaid_cents=_unpaid_cents(payout),
            name_matches=_name_matches(payout),
            counted_as_maker=ids_of_same_person(payout.client_id, records.people_of_payout(payout)),
            approvals_needed=approvals_needed(payout, self._digests) if is_draft else 0,
        )

    def equal_payment_count(self, payout_id: str, context: RequestContext) -> int:
        """How many rows of a draft equal a payment of another payout in the last seven days. NOT_FOUND as `get`."""
        context.require("payouts:read")
        payout = _find(payout_id, context)
        return len(records.equal_payments(payout)) if payout.status == messages.PayoutStatus.DRAFT else 0

    def list(self, request: messages.ListPayouts, context: RequestContext) -> Page[messages.PayoutStates]:
        """A page of the client's payouts without replaced drafts, newest first."""
        context.require("payouts:read")
        rows = Payout.select().where(Payout.client_id == context.client_id, Payout.replaced_by.is_null())
        rows = matching(rows, request, Payout.status, Payout.reference)
        return page_of(rows, Payout, request, self._tokens, records.payout_views)

    def items(self, request: messages.ListPayoutItems, context: RequestContext) -> Page[messages.PayoutItemView]:
        """A page of a payout's rows in the order of their lines. NOT_FOUND, also for another client's."""
        context.require("payouts:read")
        payout = _find(request.payout_id, context)
        kind, after = f"payout_items/{payout.id}", _BEGIN
        if request.cursor is not None:
            rank, line = self._tokens.read_cursor(kind, request.cursor).split("/")
            after = (int(rank), int(line))
        items = _items(payout, request, after, request.limit + 1, records.warnings_of(payout))
        has_next, items = len(items) > request.limit, items[: request.limit]
        place = "/".join(map(str, _place_of(items[-1], request))) if has_next else ""
        return Page(tuple(items), self._tokens.cursor(kind, place) if has_next else None)

    def stream_items(
        self, request: messages.ListPayoutItems, context: RequestContext
    ) -> Iterator[messages.PayoutItemView]:
        """Every row of a payout, of one state or of all. NOT_FOUND, before the first one, also for another client's."""
        context.require("payouts:read")
        return _stream(_find(request.payout_id, context), request)

    def csv(self, request: messages.ListPayoutItems, context: RequestContext) -> Iterator[bytes]:
        """Every row with its result as a CSV file, made while it is sent. Raises what `stream_items` raises."""
        rows = self.stream_items(request, context)
        further = _further_columns(request.payout_id)
        return csv_parts((*messages.RESULT_COLUMNS, *further), (_cells(row, further) for row in rows))

    def approve(self, request: messages.ApprovePayout, context: RequestContext) -> messages.PayoutStates:
        """Approve a payout, and reserve its money if it is due within a day (`PayoutApproval.approve`)."""
        context.require("payouts:approve")
        payout = _find(request.payout_id, context)
        short = tuple(_shortfalls(payout, self._providers))
        row = self._approval.approve(payout, request, context)
        for each in short:
            log.warning("a payout that is larger than the float was approved", provider=each.provider)
        return records.payout_view(row)

    def cancel(self, request: messages.CancelPayout, context: RequestContext) -> messages.PayoutStates:
        """Cancel what was not sent and release its reservation; again, nothing changes.

        Raises INVALID_REQUEST when every row was sent and for an invalid note, NOT_FOUND, also for another client's.
        """
        context.require("payouts:write")
        payout, note = _find(request.payout_id, context), checked_note(request.note)
        with long_unit_of_work():
            row = lock_row(Payout, payout.id)
            if row.status != messages.PayoutStatus.CANCELLED:
                row.cancel_note = note
                self._cancel(row, context, self._clock.now())
        return records.payout_view(row)

    def _cancel(self, row: Payout, context: RequestContext, now: datetime) -> None:
        has_left = has_begun(row)
        is_over = has_left and not is_under_way(row.id, unsent=True)
        if row.completed_at is not None or (not release(row) and is_over):
            raise ServiceError(Code.INVALID_REQUEST, "Every row of the payout was sent; nothing can be cancelled")
        cancel_unsent(row, self._outbox, now)
        records.write_payout_audit("payout.cancelled", row, row.cancel_note, context, now)


def by_operators(context: RequestContext, *names: str) -> RequestContext:
    """The context of an operator who makes a payout by name, or of two who approve it; one of them may have made it.

    The names are in one order, so that a repeated approval is recognised. Raises what `require_name` raises, for two
    names what `require_two_names` raises.
    """
    context.require_operator()
    checked = require_two_names(*names) if len(names) > 1 else [require_name(*names)]
    return replace(context, caller=replace(context.caller, operator=" and ".join(sorted(checked))))


def _find(payout_id: str, context: RequestContext) -> Payout:
    own = Payout.select().where(Payout.client_id == context.client_id)
    return find_by_id(own, Payout, payout_id, "Payout")


def _of_round(payout: Payout) -> Any:
    """The condition of the ready rows of a payout's round."""
    return (PayoutItem.payout_id == payout.id) & PayoutItem.is_ready & (PayoutItem.round == payout.round)


def _providers_awaited(payout: Payout, providers: Providers) -> Iterator[messages.WaitingProvider]:
    if payout.status in (messages.PayoutStatus.CANCELLED, messages.PayoutStatus.COMPLETED):
        return
    names = waiting_providers(payout.id)
    if payout.reserved_at is None:
        ready: Any = PayoutItem.select(PayoutItem.provider).where(_of_round(payout))
        names = [name for (name,) in ready.distinct().tuples()]
    for name in sorted(names):
        if not providers.takes_payments(name, payout.client_id):
            yield messages.WaitingProvider(name, providers.is_off(name, payout.client_id))


def _unpaid_cents(payout: Payout) -> int:
    if not payout.invalid_count:
        return 0
    invalid = (PayoutItem.payout_id == payout.id) & ~PayoutItem.is_ready
    return int(PayoutItem.select(fn.SUM(PayoutItem.amount_cents)).where(invalid).scalar() or 0)


def _name_matches(payout: Payout) -> Mapping[messages.NameMatch | None, int]:
    rows: Any = (
        PayoutItem.select(PayoutItem.name_match, fn.COUNT(PayoutItem.line))
        .where(PayoutItem.payout_id == payout.id, *_has_name_to_match(payout))
        .group_by(PayoutItem.name_match)
    )
    return {match and messages.NameMatch(match): int(count) for match, count in rows.tuples()}


def _shortfalls(payout: Payout, providers: Providers) -> Iterator[messages.FloatShortfall]:
    if payout.status != messages.PayoutStatus.DRAFT:
        return
    rows: Any = (
        PayoutItem.select(PayoutItem.provider, fn.SUM(PayoutItem.amount_cents))
        .where(_of_round(payout))
        .group_by(PayoutItem.provider)
        .order_by(PayoutItem.provider)
    )
    floats = {row.account: row.amount_cents for row in ProviderAccount.select()}
    for provider, needed in rows.tuples():
        connection = providers.get(provider, payout.client_id)
        kept = floats.get(connection.account) if connection else None
        if kept is not None and needed > kept:
            yield messages.FloatShortfall(provider, int(needed), kept)


_BEGIN = (0, 0)
_UNPAID = (
    messages.ItemState.READY,
    messages.ItemState.INVALID,
    messages.ItemState.FAILED,
    messages.ItemState.CANCELLED,
)


def _place_of(item: messages.PayoutItemView, request: messages.ListPayoutItems) -> tuple[int, int]:
    """Where a row stands in the order of a list: by its rank, and its line."""
    return int(request.unpaid_first and item.state not in _UNPAID), item.line


def _items(
    payout: Payout,
    request: messages.ListPayoutItems,
    after: tuple[int, int],
    limit: int,
    warnings: Mapping[str, str],
) -> list[messages.PayoutItemView]:
    rows = records.rows_of_payouts(PayoutItem, Transaction, records.item_state().alias("state"))
    rows = rows.where(PayoutItem.payout_id == payout.id).order_by(PayoutItem.line).limit(limit)
    if request.unpaid_first:
        rank = Case(None, ((records.item_state().in_(_UNPAID), 0),), 1)
        rows = rows.where((rank > after[0]) | ((rank == after[0]) & (PayoutItem.line > after[1])))
        rows = rows.order_by(rank, PayoutItem.line)
    else:
        rows = rows.where(PayoutItem.line > after[1])
    if request.state is not None:
        rows = rows.where(records.item_state() == request.state)
    if request.name_match is not None:
        rows = rows.where(*_has_name_to_match(payout), PayoutItem.name_match == request.name_match)
    items = list(rows)
    lines = [row.line for row in items]
    equal = records.equal_payments(payout, min(lines), max(lines)) if lines else {}
    attempts = records.attempts_of(payout.id, lines)
    return [
        records.item_view(
            payout, row, messages.ItemState(row.state), _warning(row, warnings, equal), attempts.get(row.line, ())
        )
        for row in items
    ]


def _has_name_to_match(payout: Payout) -> list[Any]:
    """The conditions of a row whose match of names counts. The first two are those of the index."""
    conditions: list[Any] = [PayoutItem.name.is_null(False), PayoutItem.is_ready]
    is_draft = payout.status == messages.PayoutStatus.DRAFT
    return [*conditions, PayoutItem.round == payout.round] if is_draft else conditions


def _warning(row: Any, warnings: Mapping[str, str], equal: Mapping[int, str]) -> str | None:
    """The warning about a ready row, for its approver."""
    sentences = [warnings.get(row.phone_number), equal.get(row.line)] if row.is_ready else []
    return "; ".join(filter(None, sentences)) or None


def _further_columns(payout_id: str) -> list[str]:
    """The headings of the further columns that rows of a payout have, each once."""
    rows = PayoutItem.select(PayoutItem.metadata).where(
        PayoutItem.payout_id == payout_id, PayoutItem.metadata.is_null(False)
    )
    return list(dict.fromkeys(heading for row in rows.order_by(PayoutItem.line) for heading in row.metadata))


def _cells(row: messages.PayoutItemView, further: Sequence[str]) -> list[object]:
    failure = f"{row.failure.code}: {row.failure.message}" if row.failure else None
    return [
        row.line,
        row.phone_number,
        shillings_cell(row.amount_cents) if row.amount_text is None else row.amount_text,
        shillings_cell(row.fee_cents),
        row.reference,
        row.description,
        row.name,
        row.name_match,
        row.state,
        " ".join(row.problems),
        row.transaction_id,
        failure,
        row.registered_name,
        row.provider_transaction_id,
        row.warning,
        row.round,
        " ".join(map(_written, row.attempts)),
        *((row.metadata or {}).get(heading) for heading in further),
    ]


def _written(attempt: messages.AttemptView) -> str:
    """An attempt on one line: number, transaction, status and the code of its failure."""
    code = f":{attempt.failure.code}" if attempt.failure else ""
    return f"{attempt.number}:{attempt.transaction_id}:{attempt.status}{code}"


def _stream(payout: Payout, request: messages.ListPayoutItems) -> Iterator[messages.PayoutItemView]:
    after = _BEGIN
    try:
        warnings = records.warnings_of(payout)
        while items := _items(payout, request, after, _ITEMS_OF_STREAM, warnings):
            yield from items
            after = _place_of(items[-1], request)
    finally:
        # The stream runs after its request has released its database connection.
        release_connection()
