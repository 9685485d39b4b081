"""Payment codes: with which payers pay the client by themselves, each with a sheet to print."""

from __future__ import annotations

from typing import Any

import segno
from flask import Response, render_template, request, url_for

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done, fault_of
from ussd_server.console.tables import Column, DataTable, pages, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext
from ussd_server.services.incoming.messages import CODE_DESCRIPTION, PaymentCodeView, PutPaymentCode
from ussd_server.values import KAMPALA, ungrouped, written_amount
from ussd_server.wire import ListPage


def amounts_of(code: PaymentCodeView) -> str:
    """The amounts that a code takes, in words."""
    if code.amount_cents is not None:
        return written_amount(code.amount_cents)
    least, most = code.min_amount_cents, code.max_amount_cents
    bounds = []
    if least:
        bounds.append(gettext("at least %(amount)s", amount=written_amount(least)))
    if most:
        bounds.append(gettext("at most %(amount)s", amount=written_amount(most)))
    return ", ".join(bounds) or gettext("any amount")


def state_of(code: PaymentCodeView) -> str:
    """Whether a code takes payments now, as a status."""
    if code.single_use and code.used_at:
        return "used"
    return "expired" if code.expires_at and code.expires_at <= services().clock.now() else "active"


_COLUMNS = (
    Column("code", "Code", "code", link=lambda code: url_for("console.show_payment_code", code=code.code)),
    Column("description", "For"),
    Column("amounts", "Takes", value=amounts_of),
    Column("account", "Credits", "word"),
    Column("state", "State", "status", value=state_of),
    Column("expires_at", "Expires", "moment", missing="never"),
    Column("used_at", "First paid", "moment", missing="not yet"),
    Column("created_at", "Created", "moment", where="files"),
)


@console.page("GET", "/payment-codes", needs="collection:read")
def list_payment_codes(context: RequestContext) -> Response:
    page = pages(services().payment_codes.list, ListPage(cursor=request.args.get("cursor")), context)
    prefix = services().payment_codes.prefix(context)
    table = DataTable(
        "Payment codes, newest first",
        _COLUMNS,
        page,
        empty_title="No payment code yet",
        empty_text=gettext("Codes begin with %(prefix)s. Payers type one as the reason of a payment.", prefix=prefix)
        if prefix
        else "The operator first gives your codes the letters with which they begin.",
    )
    return show_table(
        "console/payment_codes/list.html", table, prefix=prefix, held=services().movements.list_alike(context)
    )


@console.page("GET", "/payment-codes/new", needs="collection:write")
def new_payment_code(context: RequestContext) -> str:
    form = forms.typed({"code": services().payment_codes.prefix(context) or ""})
    return render_template("console/payment_codes/edit.html", form=form, code=None)


@console.page("POST", "/payment-codes/new", needs="collection:write", form_on="new_payment_code")
def create_payment_code(context: RequestContext) -> Any:
    return _save(request.form.get("code", ""), context)


@console.page("GET", "/payment-codes/<code>", needs="collection:read", shows="payment_code")
def show_payment_code(context: RequestContext, code: str) -> str:
    """The sheet of a code, to print and to hang up."""
    view = services().payment_codes.get(code, context)
    qr_code = segno.make(view.code, micro=False).svg_data_uri(scale=8, border=4, light="white")
    return render_template(
        "console/payment_codes/code.html", code=view, qr_code=qr_code, amounts=amounts_of(view), state=state_of(view)
    )


@console.page("GET", "/payment-codes/<code>/edit", needs="collection:write")
def edit_payment_code(context: RequestContext, code: str) -> str:
    view = services().payment_codes.get(code, context)
    amounts = {
        name: ungrouped(cents)
        for name in ("amount", "min_amount", "max_amount")
        if (cents := getattr(view, f"{name}_cents")) is not None
    }
    expires_at = f"{view.expires_at.astimezone(KAMPALA):%Y-%m-%dT%H:%M}" if view.expires_at else ""
    form = {"description": view.description, "account": view.account, "expires_at": expires_at, **amounts}
    form["single_use"] = "yes" if view.single_use else ""
    return render_template("console/payment_codes/edit.html", form=forms.typed(form), code=view.code)


@console.page("POST", "/payment-codes/<code>/edit", needs="collection:write", form_on="edit_payment_code")
def change_payment_code(context: RequestContext, code: str) -> Any:
    services().payment_codes.get(code, context)
    return _save(code, context)


@console.page("POST", "/payment-codes/<code>/delete", needs="collection:write")
def delete_payment_code(context: RequestContext, code: str) -> Any:
    services().payment_codes.delete(code, context)
    return done("The code is deleted. What comes with it from now on is held for the operator.", "list_payment_codes")


def _save(code: str, context: RequestContext) -> Any:
    saved = services().payment_codes.put(_typed(code), context)
    return done("The code is saved. Print its sheet, or tell payers to type it.", "show_payment_code", code=saved.code)


def _typed(code: str) -> PutPaymentCode:
    form = request.form
    description = " ".join(form.get("description", "").split())
    if not 0 < len(description) <= CODE_DESCRIPTION.longest or not description.isprintable():
        raise fault_of("description", "Say in at most 100 characters what is paid with the code.")
    account = form.get("account", "").strip()
    number = forms.phone_number(account)
    if account not in ("", "main") and not str(number).startswith("+256"):
        raise fault_of("account", "The account is main, or the phone number of a subscriber.")
    return PutPaymentCode(
        code,
        description,
        "main" if account in ("", "main") else str(number),
        forms.cents(form.get("amount", "")),
        forms.cents(form.get("min_amount", ""), "min_amount"),
        forms.cents(form.get("max_amount", ""), "max_amount"),
        forms.local_moment(form.get("expires_at", "")),
        single_use=form.get("single_use") == "yes",
    )
