"""Single payments by hand: asking a payer for one, and paying one person, which another person approves."""

from __future__ import annotations

from secrets import token_hex
from typing import Any

from flask import Response, abort, render_template, request

from schemas.payouts import CreatePayoutQuery
from schemas.transactions import CreateTransactionBody
from ussd_server import values
from ussd_server.api.requests import load, services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done
from ussd_server.context import RequestContext
from ussd_server.services.payouts.messages import CreatePayout
from ussd_server.services.transactions.messages import (
    CreateTransaction,
    EqualPayment,
    GetTransaction,
    TransactionType,
)
from ussd_server.status import Code, ServiceError

_REFUSALS = (Code.IDEMPOTENCY_KEY_REUSED, Code.TRANSACTION_FAILED)
_LONGEST_NAME = 100
_ROW = "1"
"""The reference of the only row of a payout to one person."""


@console.page("GET", "/collect", needs="transactions:write")
def new_collection(context: RequestContext) -> str:
    """The form that asks a payer for a payment, with `?like=` filled in as that payment was."""
    return render_template("console/transactions/collect.html", **_form("collect", context))


@console.page("POST", "/collect", needs="transactions:write", form_on="new_collection", refusals=_REFUSALS)
def create_collection(context: RequestContext) -> Any:
    """Ask a payer for a payment. The same form sent twice asks once."""
    form = _typed()
    _ask_again(TransactionType.COLLECTION, form, context, "console/transactions/collect.html")
    fields = {"phone_number": _phone_number(form), "amount": values.ungrouped(_cents(form))}
    named: dict[str, Any] = {name: form[name] for name in ("reference", "description") if form[name]}
    if name := _name(form):
        named["metadata"] = {"name": name}
    body = load(CreateTransactionBody(), {"type": TransactionType.COLLECTION.value, **fields, **named})
    created = services().transactions.create(CreateTransaction(**body), context)
    transaction_id = created.transaction.transaction_id
    if created.replayed:
        return done(
            "This payment was asked for before.", "show_transaction", tone="warn", transaction_id=transaction_id
        )
    return done("The payer is asked to approve the payment.", "show_transaction", transaction_id=transaction_id)


@console.page("GET", "/pay", needs="payouts:write")
def new_payment(context: RequestContext) -> str:
    """The form that pays one person, with `?like=` filled in as that payment was."""
    return render_template("console/payouts/pay.html", **_form("pay", context))


@console.page("POST", "/pay", needs="payouts:write", form_on="new_payment", refusals=_REFUSALS)
def create_payment(context: RequestContext) -> Any:
    """Make a payout of one row, which another person approves. The same form sent twice makes one payout."""
    form = _typed()
    _ask_again(TransactionType.DISBURSEMENT, form, context, "console/payouts/pay.html")
    row = {"phone_number": _phone_number(form), "amount": values.ungrouped(_cents(form)), "reference": _ROW}
    description = {"description": form["description"]} if form["description"] else {}
    if name := _name(form):
        row["name"] = name
    about = load(CreatePayoutQuery(), {"reference": form["reference"], **description})
    created = services().payouts.create(CreatePayout(**about, items=(row | description,)), context)
    payout_id = created.payout.payout_id
    if created.replayed:
        return done("This payment was made before. Here it is.", "show_payout", tone="warn", payout_id=payout_id)
    return done("Nothing is sent before another person approves it.", "show_payout", payout_id=payout_id)


def _form(kind: str, context: RequestContext) -> dict[str, Any]:
    """What was typed, else the payment that `?like=` names, with a reference that no other form gets.

    The reference makes a form that is sent twice one payment.
    """
    reference = f"{kind}-{forms.today():%Y%m%d}-{token_hex(4)}"
    return {"form": forms.typed({"reference": reference} | _like(context))}


def _like(context: RequestContext) -> dict[str, str]:
    """The fields of the payment that the query names: its number, amount, name and description."""
    if not (transaction_id := request.args.get("like")):
        return {}
    view = services().transactions.get(GetTransaction(transaction_id), context)
    return {
        "phone_number": view.phone_number or "",
        "amount": values.ungrouped(view.amount_cents),
        "name": str((view.metadata or {}).get("name", "")),
        "description": view.description or "",
    }


def _typed() -> dict[str, str]:
    names = ("phone_number", "amount", "name", "description", "reference")
    return {name: " ".join(request.form.get(name, "").split()) for name in names}


def _ask_again(payment_type: TransactionType, form: dict[str, str], context: RequestContext, template: str) -> None:
    """Answer with the form and a warning where an equal payment is minutes old, unless the form says that it is meant.

    The same form sent twice has the same reference, and is one payment.
    """
    wanted = EqualPayment(payment_type, _phone_number(form), _cents(form))
    equal = services().transactions.equal_to(wanted, context)
    is_same_form = equal is not None and form["reference"] in (equal.reference, equal.reference.rpartition("/")[0])
    if equal and not is_same_form and request.form.get("is_meant") != "yes":
        abort(Response(render_template(template, form=form, equal=equal)))


def _phone_number(form: dict[str, str]) -> str:
    number = values.phone_number(forms.phone_number(form["phone_number"]) or "")
    if number is None:
        raise ServiceError(Code.INVALID_PHONE_NUMBER, "Give the phone number as 0772 123 456 or +256 772 123 456.")
    return number


def _cents(form: dict[str, str]) -> int:
    try:
        amount_cents = forms.cents(form["amount"])
    except ServiceError:
        amount_cents = None
    if amount_cents is None:
        raise ServiceError(Code.INVALID_AMOUNT, "Give the amount in shillings, such as 5000, below 1,000,000.")
    return amount_cents


def _name(form: dict[str, str]) -> str:
    if len(form["name"]) > _LONGEST_NAME or not form["name"].isprintable():
        raise ServiceError(Code.INVALID_REQUEST, "A name has at most 100 characters that can be printed.")
    return form["name"]
