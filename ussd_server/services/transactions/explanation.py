"""One plain sentence about a transaction: where its money is now, and what happens next."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ussd_server.languages import gettext, marked
from ussd_server.providers.failures import Retry
from ussd_server.providers.registry import short_name
from ussd_server.services.transactions.messages import (
    Effect,
    TransactionHistory,
    TransactionStatus,
    TransactionType,
    TransactionView,
)
from ussd_server.values import KAMPALA, written_amount

_NEXT_STEPS = {
    Retry.NO: marked("the same payment would fail again"),
    Retry.NEW_ATTEMPT: marked("a new payment can be made"),
    Retry.AFTER_USER_ACTION: marked("a new payment can be made once this is put right"),
    Retry.WAIT: marked("a new payment can be made later"),
}


def explain(view: TransactionView, *, is_in_review: bool, is_unsent: bool = False, is_taken_back: bool = False) -> str:
    """Say where the money of a transaction is and what happens next.

    `is_in_review` says whether an operator must look at it. `is_unsent`: the provider could not be asked yet, and
    certainly got nothing. `is_taken_back`: its money counts nowhere. Times are Kampala time.
    """
    if is_unsent and view.status is TransactionStatus.SUBMITTED:
        view = replace(view, status=TransactionStatus.CREATED)
    if is_taken_back:
        where = _taken_back(view)
    else:
        where = _leaving(view) if view.type in _LEAVES else _ELSE.get(view.type, _arriving)(view)
    ending = _next_step(view, is_in_review=is_in_review)
    return f"{where[0].upper()}{where[1:]}" + (f"; {ending}." if ending else gettext(". Complete."))


def _taken_back(view: TransactionView) -> str:
    if view.same_money_as:
        return gettext(
            "The provider reported %(amount)s twice; it counts as transaction %(other)s and was taken back here",
            other=view.same_money_as,
            **_values(view),
        )
    return gettext("Operators took %(amount)s out of the books again %(since)s; its history says why", **_values(view))


def _arriving(view: TransactionView) -> str:
    values = _values(view)
    match view.status:
        case TransactionStatus.CREATED:
            text = gettext("%(amount)s is still with the payer and nothing was sent to %(provider)s yet", **values)
        case TransactionStatus.SUBMITTED:
            text = gettext(
                "The request was sent to %(provider)s %(since)s without an answer so far, and no money has arrived",
                **values,
            )
        case TransactionStatus.PENDING:
            text = gettext(
                "%(provider)s accepted the payment %(since)s and waits for the payer to approve it; "
                "%(amount)s is still with the payer",
                **values,
            )
        case TransactionStatus.AMBIGUOUS:
            text = gettext(
                "%(provider)s has not said whether it took %(amount)s from the payer, and none of it has arrived here",
                **values,
            )
        case TransactionStatus.FAILED:
            text = gettext("%(failure)s, so %(amount)s stayed with the payer", failure=_failure(view), **values)
        case TransactionStatus.REVERSED:
            text = gettext("%(amount)s was collected and all of it was refunded to the payer", **values)
        case _:
            text = gettext("%(amount)s arrived in the %(account)s %(since)s", **values)
            if view.fee_cents:
                text += gettext(", less a fee of %(fee)s", fee=written_amount(view.fee_cents))
            text += _although_failed(view)
            if view.refunded_amount_cents:
                back = written_amount(view.refunded_amount_cents)
                text += gettext("; %(amount)s of it was refunded or is being refunded", amount=back)
    return text


def _leaving(view: TransactionView) -> str:
    values = _values(view)
    values["receiver"] = gettext("payer") if view.type is TransactionType.REFUND else gettext("payee")
    match view.status:
        case TransactionStatus.CREATED:
            return gettext(
                "%(amount)s is reserved in the %(account)s and nothing was sent to %(provider)s yet",
                **values,
            )
        case TransactionStatus.SUBMITTED:
            return gettext(
                "The request was sent to %(provider)s %(since)s without an answer so far; "
                "%(amount)s stays reserved in the %(account)s",
                **values,
            )
        case TransactionStatus.PENDING:
            return gettext(
                "%(provider)s accepted the payment %(since)s and has not finished it; "
                "%(amount)s stays reserved in the %(account)s",
                **values,
            )
        case TransactionStatus.AMBIGUOUS:
            return gettext(
                "%(provider)s has not said whether the %(receiver)s got %(amount)s, "
                "which stays reserved in the %(account)s until it does",
                **values,
            )
        case TransactionStatus.FAILED:
            return gettext(
                "%(failure)s, so the %(receiver)s got nothing and %(amount)s is available in the %(account)s again",
                failure=_failure(view),
                **values,
            )
    text = gettext("%(amount)s left the %(account)s and reached the %(receiver)s %(since)s", **values)
    return text + _although_failed(view)


def _although_failed(view: TransactionView) -> str:
    return gettext(" although %(provider)s had reported a failure before", **_values(view)) if view.late else ""


def _transfer(view: TransactionView) -> str:
    values = _values(view)
    if view.status is not TransactionStatus.SUCCEEDED:
        return gettext("%(amount)s has not moved", **values)
    return gettext(
        "%(amount)s moved from the %(account)s to the account of %(number)s %(since)s",
        number=view.to_phone_number,
        **values,
    )


def _deposit(view: TransactionView) -> str:
    values = _values(view)
    if view.status is not TransactionStatus.SUCCEEDED:
        return gettext("%(amount)s is not credited yet", **values)
    return gettext("%(amount)s was credited to the %(account)s by the operator %(since)s", **values)


def _settlement(view: TransactionView) -> str:
    values = _values(view)
    match view.status:
        case TransactionStatus.CREATED:
            return gettext("%(amount)s is reserved in the %(account)s for a transfer to the bank", **values)
        case TransactionStatus.FAILED:
            return gettext(
                "The settlement was cancelled, so %(amount)s is available in the %(account)s again", **values
            )
        case TransactionStatus.REVERSED:
            return gettext("The bank sent %(amount)s back, which returned to the %(account)s %(since)s", **values)
    return gettext("%(amount)s left the %(account)s for the bank, as recorded %(since)s", **values)


def _correction(view: TransactionView) -> str:
    values = _values(view)
    if view.provider is None and view.reference.startswith("fill/"):
        return gettext("%(amount)s left the %(account)s %(since)s and filled a shortfall", **values)
    if view.effect is Effect.CREDIT:
        return gettext("%(amount)s was added to the %(account)s by operators %(since)s", **values)
    return gettext("%(amount)s was taken from the %(account)s by operators %(since)s", **values)


_LEAVES = (TransactionType.DISBURSEMENT, TransactionType.REFUND)
_ELSE = {
    TransactionType.TRANSFER: _transfer,
    TransactionType.DEPOSIT: _deposit,
    TransactionType.SETTLEMENT: _settlement,
    TransactionType.CORRECTION: _correction,
}


def _next_step(view: TransactionView, *, is_in_review: bool) -> str:
    """The sentence about the next step; empty when the transaction is complete."""
    if view.type is TransactionType.SETTLEMENT:
        waits = view.status is TransactionStatus.CREATED
        return gettext("the operator records it when the bank has paid") if waits else ""
    provider, next_check_at = _provider(view), view.next_check_at
    asks = ""
    if next_check_at is not None:
        asks = gettext("%(provider)s is asked again %(at)s", provider=provider, at=_at(next_check_at))
    if is_in_review:
        decides = gettext("an operator is finding out what happened")
        return gettext("%(first)s, and %(second)s", first=decides, second=asks) if asks else decides
    if view.status is TransactionStatus.CREATED and view.provider is not None:
        return gettext("it is sent as soon as %(provider)s takes it", provider=provider)
    if view.status is TransactionStatus.FAILED:
        retry = gettext(_NEXT_STEPS[view.failure.retry]) if view.failure is not None else ""
        if next_check_at is None:
            return retry
        last_check = gettext("%(provider)s is asked once more %(at)s", provider=provider, at=_at(next_check_at))
        return gettext("%(first)s, and %(second)s", first=last_check, second=retry) if retry else last_check
    return asks


def _values(view: TransactionView) -> dict[str, str]:
    """The values that most sentences name."""
    return {
        "amount": written_amount(view.amount_cents),
        "provider": _provider(view),
        "account": _account(view),
        "since": _since(view),
    }


def _failure(view: TransactionView) -> str:
    return gettext(view.failure.message if view.failure is not None else "The payment failed")


def _provider(view: TransactionView) -> str:
    return gettext(short_name(view.provider or ""))


def _account(view: TransactionView) -> str:
    return gettext("main account") if view.account == "main" else gettext("account of %(name)s", name=view.account)


def _since(view: TransactionView) -> str:
    if isinstance(view, TransactionHistory) and view.events:
        return _at(view.events[-1].created_at)
    return _at(view.completed_at or view.updated_at)


def _at(moment: datetime | None) -> str:
    if moment is None:
        return gettext("later")
    local = moment.astimezone(KAMPALA)
    return gettext("at %(time)s on %(day)s (Kampala)", time=f"{local:%H:%M:%S}", day=f"{local:%d %b %Y}")
