"""One plain sentence about a transaction: where its money is now, and what happens next."""

from __future__ import annotations

from datetime import datetime

from ussd_server.providers.failures import Retry
from ussd_server.providers.registry import short_name
from ussd_server.services.transactions.messages import (
    TransactionHistory,
    TransactionStatus,
    TransactionType,
    TransactionView,
)
from ussd_server.values import KAMPALA, written_amount

_NEXT_STEPS = {
    Retry.NO: "the same payment would fail again",
    Retry.NEW_ATTEMPT: "a new payment can be made",
    Retry.AFTER_USER_ACTION: "a new payment can be made once this is put right",
    Retry.WAIT: "a new payment can be made later",
}
_OPERATOR_DECIDES = "an operator is finding out what happened"


def explain(view: TransactionView, *, is_in_review: bool) -> str:
    """Say where the money of a transaction is and what happens next.

    `is_in_review` says whether an operator must look at it. Times are Kampala time.
    """
    where = _leaving(view) if view.type in _LEAVES else _ELSE.get(view.type, _arriving)(view)
    ending = _next_step(view, is_in_review=is_in_review)
    return f"{where[0].upper()}{where[1:]}" + (f"; {ending}." if ending else ". Complete.")


def _arriving(view: TransactionView) -> str:
    """Where the money of a collection is."""
    provider, amount = _provider(view), written_amount(view.amount_cents)
    match view.status:
        case TransactionStatus.CREATED:
            return f"{amount} is still with the payer and nothing was sent to {provider} yet"
        case TransactionStatus.SUBMITTED:
            return (
                f"The request was sent to {provider} {_since(view)} without an answer so far, and no money has arrived"
            )
        case TransactionStatus.PENDING:
            return (
                f"{provider} accepted the payment {_since(view)} and waits for the payer to approve it; "
                f"{amount} is still with the payer"
            )
        case TransactionStatus.AMBIGUOUS:
            return f"{provider} has not said whether it took {amount} from the payer, and none of it has arrived here"
        case TransactionStatus.FAILED:
            return f"{_failure(view)}, so {amount} stayed with the payer"
        case TransactionStatus.REVERSED:
            return f"{amount} was collected and all of it was refunded to the payer"
    less_fee = f", less a fee of {written_amount(view.fee_cents)}" if view.fee_cents else ""
    late = f" although {provider} had reported a failure before" if view.late else ""
    back = ""
    if view.refunded_amount_cents:
        back = f"; {written_amount(view.refunded_amount_cents)} of it was refunded or is being refunded"
    return f"{amount} arrived in the {_account(view)} {_since(view)}{less_fee}{late}{back}"


def _leaving(view: TransactionView) -> str:
    """Where the money of a disbursement or a refund is."""
    provider, amount, account = _provider(view), written_amount(view.amount_cents), _account(view)
    receiver = "payer" if view.type is TransactionType.REFUND else "payee"
    match view.status:
        case TransactionStatus.CREATED:
            return f"{amount} is reserved in the {account} and nothing was sent to {provider} yet"
        case TransactionStatus.SUBMITTED:
            return (
                f"The request was sent to {provider} {_since(view)} without an answer so far; "
                f"{amount} stays reserved in the {account}"
            )
        case TransactionStatus.PENDING:
            return (
                f"{provider} accepted the payment {_since(view)} and has not finished it; "
                f"{amount} stays reserved in the {account}"
            )
        case TransactionStatus.AMBIGUOUS:
            return (
                f"{provider} has not said whether the {receiver} got {amount}, "
                f"which stays reserved in the {account} until it does"
            )
        case TransactionStatus.FAILED:
            return f"{_failure(view)}, so the {receiver} got nothing and {amount} is available in the {account} again"
    late = f" although {provider} had reported a failure before" if view.late else ""
    return f"{amount} left the {account} and reached the {receiver} {_since(view)}{late}"


def _transfer(view: TransactionView) -> str:
    if view.status is not TransactionStatus.SUCCEEDED:
        return f"{written_amount(view.amount_cents)} has not moved"
    return (
        f"{written_amount(view.amount_cents)} moved from the {_account(view)} "
        f"to the account of {view.to_phone_number} {_since(view)}"
    )


def _deposit(view: TransactionView) -> str:
    if view.status is not TransactionStatus.SUCCEEDED:
        return f"{written_amount(view.amount_cents)} is not credited yet"
    return f"{written_amount(view.amount_cents)} was credited to the {_account(view)} by the operator {_since(view)}"


def _settlement(view: TransactionView) -> str:
    return f"{written_amount(view.amount_cents)} left the {_account(view)} for the bank, as recorded {_since(view)}"


_LEAVES = (TransactionType.DISBURSEMENT, TransactionType.REFUND)
_ELSE = {
    TransactionType.TRANSFER: _transfer,
    TransactionType.DEPOSIT: _deposit,
    TransactionType.SETTLEMENT: _settlement,
}


def _next_step(view: TransactionView, *, is_in_review: bool) -> str:
    """What happens next, empty when the transaction is complete."""
    provider, next_check_at = _provider(view), view.next_check_at
    asks = f"{provider} is asked again {_at(next_check_at)}" if next_check_at is not None else ""
    if is_in_review:
        return f"{_OPERATOR_DECIDES}, and {asks}" if asks else _OPERATOR_DECIDES
    if view.status is TransactionStatus.CREATED and view.provider is not None:
        return f"it is sent as soon as {provider} takes it"
    if view.status is TransactionStatus.FAILED:
        last_check = f"{provider} is asked once more {_at(next_check_at)}" if next_check_at else ""
        retry = _NEXT_STEPS[view.failure.retry] if view.failure is not None else ""
        return ", and ".join(filter(None, (last_check, retry)))
    return asks


def _failure(view: TransactionView) -> str:
    return view.failure.message if view.failure is not None else "The payment failed"


def _provider(view: TransactionView) -> str:
    return short_name(view.provider or "")


def _account(view: TransactionView) -> str:
    return "main account" if view.account == "main" else f"account of {view.account}"


def _since(view: TransactionView) -> str:
    """When the transaction got the status that it has now."""
    if isinstance(view, TransactionHistory) and view.events:
        return _at(view.events[-1].created_at)
    return _at(view.completed_at or view.updated_at)


def _at(moment: datetime | None) -> str:
    return f"at {moment.astimezone(KAMPALA):%H:%M:%S on %-d %B %Y} (Kampala)" if moment is not None else "later"
