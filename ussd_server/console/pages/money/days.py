"""Days of providers: which are closed, and closing one."""

from __future__ import annotations

from typing import Any

from flask import render_template, request

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done, shown_again
from ussd_server.console.pages.money.reconciliation import VERDICTS
from ussd_server.context import RequestContext
from ussd_server.languages import gettext, marked
from ussd_server.services.reconciliation.messages import CloseDay
from ussd_server.status import Code, ServiceError

_STEPS = {verdict.value: title for verdict, title in VERDICTS.items()} | marked(
    {"late_change": "Late change", "timing": "Dated on a neighbouring day"}
)


@console.page("GET", "/operator/days", who="operator")
def list_days(context: RequestContext) -> str:
    """The past days of each provider."""
    return _page(context)


@console.page("POST", "/operator/days", who="operator")
def close_day(context: RequestContext) -> Any:
    """Close a day."""
    form = request.form
    day, is_empty = forms.date_of(form.get("date", "")), form.get("is_empty") == "yes"
    wanted = None if day is None else CloseDay(day, form.get("provider", ""), context.caller.operator or "", is_empty)
    with shown_again(lambda error: _page(context, error, wanted)):
        if wanted is None:
            raise ServiceError(Code.INVALID_REQUEST, "Choose a day.")
        services().days.close(wanted, context)
    return done(gettext("%(day)s is closed.", day=day), "list_days")


def _page(context: RequestContext, error: ServiceError | None = None, refused: CloseDay | None = None) -> str:
    return render_template(
        "console/reconciliation/days.html",
        days=services().days.list(context),
        steps=_STEPS,
        error=error,
        empty=refused if refused and services().days.may_be_empty(refused, context) else None,
    )
