"""Closed days: the bridge from our sum of a provider's day to that of its statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response, request

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done, shown_again
from ussd_server.console.pages.money.reconciliation import VERDICTS
from ussd_server.console.pages.service.proposals import propose
from ussd_server.console.tables import PROVIDER, Column, DataTable, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext, marked
from ussd_server.services.reconciliation.messages import CloseDay, DayState
from ussd_server.status import Code, ServiceError

_STEPS = {verdict.value: title for verdict, title in VERDICTS.items()} | marked(
    {"late_change": "Late change", "timing": "Dated around midnight", "other_day": "Dated on another day"}
)


def _of_closed(name: str) -> Callable[[DayState], Any]:
    return lambda day: getattr(day.closed, name) if day.closed else None


_DAY_COLUMNS = (
    Column("date", "Day"),
    PROVIDER,
    Column("ours", "Ours", "money", value=_of_closed("ours_cents")),
    Column("theirs", "Theirs", "money", value=_of_closed("theirs_cents")),
    Column("difference", "Difference", "money", value=_of_closed("difference_cents")),
    Column("closed_by", "By", where="files", value=_of_closed("closed_by")),
    Column("confirmed_by", "Confirmed", where="files", value=_of_closed("confirmed_by")),
    Column("closed_at", "When", "moment", where="files", value=_of_closed("closed_at")),
)


@console.page("GET", "/operator/days", who="operator")
def list_days(context: RequestContext) -> Response:
    return _days_page(context)


@console.page("POST", "/operator/days", who="operator")
def close_day(context: RequestContext) -> Any:
    form = request.form
    day, is_empty = forms.date_of(form.get("date", "")), form.get("is_empty") == "yes"
    closing = None if day is None else CloseDay(day, form.get("provider", ""), context.caller.operator or "", is_empty)
    with shown_again(lambda error: _days_page(context, error, closing)):
        if closing is None:
            raise ServiceError(Code.INVALID_REQUEST, "Choose a day.")
        services().days.close(closing, context)
    return done(gettext("%(day)s is closed.", day=day), "list_days")


@console.page("POST", "/operator/days/propose", who="operator")
def propose_closing(context: RequestContext) -> Any:
    day, provider = forms.date_of(request.form.get("date", "")), request.form.get("provider", "")
    with shown_again(lambda error: _days_page(context, error)):
        if day is None:
            raise ServiceError(Code.INVALID_REQUEST, "Choose a day.")
        return propose("day.close", f"{provider} {day}", context)


def _days_page(context: RequestContext, error: ServiceError | None = None, refused: CloseDay | None = None) -> Response:
    return show_table(
        "console/reconciliation/days.html",
        DataTable("The past 31 days, newest first", _DAY_COLUMNS, services().days.list(context)),
        steps=_STEPS,
        error=error,
        for_two=refused if refused and services().days.takes_two(refused, context) else None,
        empty=refused if refused and services().days.may_be_empty(refused, context) else None,
    )
