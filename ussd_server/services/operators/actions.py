"""The decisions that take two operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from typing import TypeVar

from ussd_server.context import RequestContext
from ussd_server.models.clients import Client
from ussd_server.models.transactions import Transaction
from ussd_server.services.bank.messages import SettlementLine
from ussd_server.services.bank.settlements import BankSettlementService
from ussd_server.services.movements.corrections import CorrectionService
from ussd_server.services.movements.messages import (
    AssignMovement,
    CorrectMovement,
    EndMovement,
    MovementView,
    UndonePayment,
)
from ussd_server.services.movements.releases import ReleaseService
from ussd_server.services.movements.uses import MovementUseService
from ussd_server.services.operators.messages import ProposalView, ProposedEffect
from ussd_server.services.operators.proposals import TwoPersonAction
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.processing.review import ReviewService
from ussd_server.services.reconciliation.closed_days import DayService
from ussd_server.services.reconciliation.differences import DifferenceService
from ussd_server.services.reconciliation.messages import (
    CloseDay,
    ConcludeFromStatement,
    CoverDays,
    DifferenceView,
    UndoImport,
)
from ussd_server.services.reconciliation.statements import ProviderStatementService
from ussd_server.services.transactions.messages import Effect, OperatorRefund
from ussd_server.services.transactions.refunds import RefundService
from ussd_server.services.transactions.transactions import find_any
from ussd_server.values import written_amount

_Request = TypeVar("_Request")


class TwoPersonActions:
    """The effect and the act of each decision. An effect raises the refusal of its service."""

    def __init__(
        self,
        review: ReviewService,
        refunds: RefundService,
        differences: DifferenceService,
        statements: ProviderStatementService,
        settlements: BankSettlementService,
        uses: MovementUseService,
        days: DayService,
        corrections: CorrectionService,
        releases: ReleaseService,
    ) -> None:
        self._review, self._refunds, self._differences, self._statements = review, refunds, differences, statements
        self._settlements, self._uses, self._days = settlements, uses, days
        self._corrections, self._releases = corrections, releases

    def by_name(self) -> Mapping[str, TwoPersonAction]:
        """The actions by name.

        The object is a transaction, a statement, its difference, a held movement, or an account and a day.
        """
        end_of_review = TwoPersonAction(self._effect_of_review, _as(EndReview), self._review.end)
        end, concluded = _as(EndMovement), _as(ConcludeFromStatement)
        return {
            "review.settle": end_of_review,
            "review.close": end_of_review,
            "transaction.refund": TwoPersonAction(
                self._effect_of_refund, self._refund_of, self._refunds.create_by_operators
            ),
            "difference.conclude": TwoPersonAction(self._effect_of_conclusion, concluded, self._differences.conclude),
            "statement.undo": TwoPersonAction(self._effect_of_undoing, _as(UndoImport), self._statements.undo),
            "statement.cover": TwoPersonAction(self._effect_of_covering, _covering_of, self._statements.cover),
            "day.close": TwoPersonAction(self._effect_of_closing, _day_of, self._days.close),
            "settlement.record": TwoPersonAction(self._effect_of_settlement, _settlement_of, self._record_settlement),
            "movement.assign": TwoPersonAction(self._effect_of_assignment, _assignment_of, self._uses.assign),
            "movement.return": TwoPersonAction(self._effect_of_return, end, self._uses.mark_returned),
            "movement.own": TwoPersonAction(self._effect_of_own, end, self._uses.take_as_own),
            "movement.correct": TwoPersonAction(
                self._effect_of_correction, _as(CorrectMovement), self._corrections.correct
            ),
            "movement.release": TwoPersonAction(self._effect_of_release, end, self._releases.release),
            "transaction.unmoved": TwoPersonAction(
                self._effect_of_unmoved, _as(UndonePayment), self._releases.end_unmoved
            ),
        }

    def _effect_of_review(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """Settling a transaction without an outcome (parameter `has_succeeded`), or closing the review of another."""
        has_succeeded = proposal.parameters.get("has_succeeded")
        receipt = proposal.parameters.get("receipt")
        row = self._review.require_open(proposal.object_id, has_succeeded, context, receipt)
        after = row.status if has_succeeded is None else "succeeded" if has_succeeded else "failed"
        if has_succeeded:
            after = f"{after} with the receipt {receipt}" if receipt else f"{after} without a receipt"
        state = f"{row.status}, under review: {_why_reviewed(row)}"
        return _effect(row, state, f"{after}, review closed")

    def _effect_of_refund(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """Refunding a collection (parameter `amount_cents`, None: what is left)."""
        seen = self._refunds.preview(proposal.object_id, proposal.parameters.get("amount_cents"), context)
        row = find_any(proposal.object_id)
        collected = written_amount(seen.collected_cents)
        now, after = map(written_amount, (seen.refunded_cents, seen.refunded_cents + seen.amount_cents))
        state = f"{row.status}, {{}} of {collected} refunded"
        return _effect(row, state.format(now), state.format(after), amount_cents=seen.amount_cents)

    def _refund_of(self, proposal: ProposalView, second: str) -> OperatorRefund:
        return OperatorRefund(
            proposal.object_id,
            proposal.reason,
            proposal.proposed_by,
            second,
            amount_cents=proposal.parameters.get("amount_cents"),
            number=self._refunds.next_number(proposal.object_id),
        )

    def _effect_of_conclusion(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """Setting the payment of a difference to succeeded, as the provider's statement says."""
        line = self._differences.require_conclusive(proposal.object_id, context)
        row = find_any(line.transaction_id or "", locked=True)
        return _effect(row, str(row.status), "succeeded", statement_line=_written_line(line))

    def _effect_of_undoing(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """Taking the import of a statement back, with its differences."""
        statement = self._statements.show(proposal.object_id, context)
        return ProposedEffect(
            state_now=f"imported; differences: {statement.difference_count:,}",
            state_after="removed, as if it had never been imported",
            statement_line=f"{statement.file_name}, {statement.account}",
        )

    def _effect_of_covering(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """Stating that a statement has every line of some days (parameters `first` and `last`)."""
        first, last = _days_of(proposal)
        statement = self._statements.require_coverable(proposal.object_id, (first, last), context)
        return ProposedEffect(
            state_now="compared with the lines that it has",
            state_after=f"said to have every line from {first} to {last}",
            statement_line=f"{statement.file_name}, {statement.account}",
        )

    def _effect_of_closing(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """Closing a day whose bridge takes two operators; the object is the provider and the day."""
        bridge = self._days.preview(_day_of(proposal, None), context)
        sums = map(written_amount, (bridge.ours_cents, bridge.theirs_cents))
        steps = (f"{step.verdict} {written_amount(step.amount_cents)}" for step in bridge.steps if step.amount_cents)
        return ProposedEffect(
            state_now=f"{proposal.object_id} is open",
            state_after=f"closed: ours {next(sums)}, theirs {next(sums)}; {', '.join(steps) or 'nothing differs'}",
        )

    def _effect_of_settlement(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """Recording what the bank has paid to a client; the parameters are those of a `SettlementLine`."""
        line = SettlementLine(**proposal.parameters)
        status = self._settlements.require_recordable(line, context)
        row = Transaction.get_or_none(Transaction.id == line.settlement_id)
        client = Client.get_by_id(line.client_id)
        unknown = ProposedEffect(status, "succeeded", None, client.id, client.name, amount_cents=line.amount_cents)
        return replace(
            unknown if row is None else _effect(row, status, "succeeded"),
            bank_account=f"{line.bank}, {line.number}, {line.name}",
            bank_reference=line.bank_reference,
        )

    def _record_settlement(self, settlement: tuple[SettlementLine, str, str], context: RequestContext) -> object:
        return self._settlements.record_line(*settlement, context)

    def _effect_of_assignment(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """Booking a held movement for the client of a payment code (parameter `code`)."""
        movement, code, client_id = self._uses.require_assignable(
            proposal.object_id, proposal.parameters["code"], context
        )
        return replace(
            _effect_on_held(movement, f"booked for {code.code}, {code.description}, on the account {code.account}"),
            client_id=client_id,
            client=Client.get_by_id(client_id).name,
        )

    def _effect_of_return(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """Marking a movement for return, and naming what gives it back (parameter `other_id`)."""
        movement, other = self._uses.preview_return(_as(EndMovement)(proposal, ""), context)
        if other is None:
            return _effect_on_held(movement, "to be given back; the operator gives it back at the provider")
        return _effect_on_held(movement, f"given back by movement {other.movement_id}, {_receipt_of(other)}")

    def _effect_of_own(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        movement = self._uses.require_held(proposal.object_id, context)
        return _effect_on_held(movement, "the operator's own; no client has it")

    def _effect_of_correction(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """Booking a held movement as a correction (parameters `client_id`, `account`, `payment`)."""
        seen = self._corrections.preview(_as(CorrectMovement)(proposal, ""), context)
        is_credit = seen.effect is Effect.CREDIT
        after = f"added to the account {seen.account}" if is_credit else f"taken from the account {seen.account}"
        after = f"{after} as a correction"
        if seen.payment_id is not None:
            after = f"{after} of transaction {seen.payment_id}"
        if seen.payment_after is not None:
            after = f"{after}, which ends as {seen.payment_after}"
        effect = _effect_on_held(seen.movement, after)
        client_id = proposal.parameters["client_id"]
        return replace(effect, client_id=client_id, client=seen.client)

    def _effect_of_release(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        movement = self._releases.preview(proposal.object_id, context)
        user = movement.use and movement.use.transaction_id
        then = "still counts, without this movement and its receipts" if movement.reference else "is reversed"
        after = f"held; transaction {user} {then}" if user else "held"
        if movement.same_as is not None:
            after = f"held, as other money than movement {movement.same_as}"
        if movement.counterpart is not None:
            then = "to be given back again" if movement.use and movement.use.other_id else "held too"
            after = f"{after}; movement {movement.counterpart} is {then}"
        return replace(_effect_on_held(movement, after), state_now=f"used: {movement.state}")

    def _effect_of_unmoved(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        self._releases.preview_unmoved(proposal.object_id, context)
        row = find_any(proposal.object_id)
        return _effect(row, str(row.status), "reversed: it never moved, and counts nowhere")


def _as(message: Callable[..., _Request]) -> Callable[[ProposalView, str], _Request]:
    """Make the request `message` of a proposal, whose parameters are fields of it, and of a second operator."""

    def request(proposal: ProposalView, second: str) -> _Request:
        names = {"by": proposal.proposed_by, "second": second, "reason": proposal.reason}
        return message(proposal.object_id, **names, **proposal.parameters)

    return request


def _covering_of(proposal: ProposalView, second: str) -> CoverDays:
    return CoverDays(proposal.object_id, *_days_of(proposal), proposal.proposed_by, second)


def _settlement_of(proposal: ProposalView, second: str) -> tuple[SettlementLine, str, str]:
    return SettlementLine(**proposal.parameters), proposal.proposed_by, second


def _assignment_of(proposal: ProposalView, second: str) -> AssignMovement:
    return AssignMovement(proposal.object_id, proposal.parameters["code"], proposal.proposed_by, second)


def _effect(
    row: Transaction, now: str, after: str, *, amount_cents: int | None = None, statement_line: str | None = None
) -> ProposedEffect:
    client = Client.get_by_id(row.client_id)
    return ProposedEffect(
        client_id=client.id,
        client=client.name,
        transaction_id=row.id,
        type=row.type,
        reference=row.reference,
        phone_number=row.phone_number,
        amount_cents=row.amount_cents if amount_cents is None else amount_cents,
        state_now=now,
        state_after=after,
        statement_line=statement_line,
    )


def _why_reviewed(row: Transaction) -> str:
    """Why a transaction is under review, with the payment that may have the same money."""
    if row.contested_id is None:
        return str(row.review_reason)
    other = find_any(row.contested_id)
    client = Client.get_by_id(other.client_id).name
    return f"{row.review_reason}. Transaction {other.id} of {client}, which may be the same money, is {other.status}"


def _days_of(proposal: ProposalView) -> tuple[date, date]:
    return date.fromisoformat(proposal.parameters["first"]), date.fromisoformat(proposal.parameters["last"])


def _day_of(proposal: ProposalView, second: str | None) -> CloseDay:
    account, _, day = proposal.object_id.partition(" ")
    return CloseDay(date.fromisoformat(day), account, proposal.proposed_by, second=second)


def _effect_on_held(movement: MovementView, after: str) -> ProposedEffect:
    """The effect on a movement: why it is listed, with what its payer typed, and what becomes of it."""
    state = movement.state if movement.use else f"held: {movement.held_because}"
    return ProposedEffect(
        phone_number=movement.phone_number,
        amount_cents=movement.amount_cents,
        state_now=f"{state}. Typed: {movement.code}" if movement.code else f"{state}. Nothing was typed",
        state_after=after,
        receipt=_receipt_of(movement),
    )


def _receipt_of(movement: MovementView) -> str:
    return f"{movement.account} {', '.join(movement.receipts)}"


def _written_line(line: DifferenceView) -> str:
    line_number = "no line" if line.line is None else f"line {line.line}"
    parts = [line.provider_id, line.reference, line.dated, line.party]
    return f"{line.file_name}, {line_number}: {line.theirs}, here {line.ours}; {', '.join(filter(None, parts))}"
