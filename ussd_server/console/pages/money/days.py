"""Closed days: the bridge from our sum of a day of an account to that of its statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response, render_template, request, url_for

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import NO_PAGE, console
from ussd_server.console.forms import done
from ussd_server.console.links import who
from ussd_server.console.pages.money.reconciliation import VERDICTS
from ussd_server.console.pages.service.proposals import proposal_about, propose
from ussd_server.console.tables import ACCOUNT, Column, DataTable, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext, marked
from ussd_server.services.reconciliation.messages import CloseDay, DayState
from ussd_server.status import Code, ServiceError

_STEPS = {verdict.value: title for verdict, title in VERDICTS.items()} | marked(
    {
        "held": "Held",
        "late_change": "Late change",
        "timing": "Dated around midnight",
        "other_day": "Dated on another day",
    }
)


def _of_closed(name: str) -> Callable[[DayState], Any]:
    return lambda day: getattr(day.closed, name) if day.closed else None


_DAY_COLUMNS = (
    Column("date", "Day", "day", link=lambda day: url_for("console.show_day", account=day.account, date=day.date)),
    ACCOUNT,
    Column("ours", "Ours", "money", value=_of_closed("ours_cents")),
    Column("theirs", "Theirs", "money", value=_of_closed("theirs_cents")),
    Column("difference", "Difference", "money", value=_of_closed("difference_cents")),
    Column("state", "State", "status", value=lambda day: "closed" if day.closed else "open", where="page"),
    Column("about", "What is known", "sentence", value=lambda day: _about(day), where="page"),
    Column("closed_by", "By", where="files", value=_of_closed("closed_by")),
    Column("confirmed_by", "Confirmed", where="files", value=_of_closed("confirmed_by")),
    Column("closed_at", "When", "moment", where="files", value=_of_closed("closed_at")),
)


@console.page("GET", "/operator/days", who="operator")
def list_days(context: RequestContext) -> Response:
    table = DataTable(
        "The past 31 days, newest first",
        _DAY_COLUMNS,
        services().days.list(context),
        empty_title="No day is over yet",
        empty_text="Each day appears here when it is over.",
    )
    return show_table("console/reconciliation/days.html", table)


@console.page("GET", "/operator/days/<account>/<date>", who="operator")
def show_day(context: RequestContext, account: str, date: str) -> str:
    """A day: both sums, the bridge between them, what is open, and the button that closes it."""
    closing = _wanted(account, date, context)
    seen = services().days.page(closing, context)
    bridge, statement_id = seen.bridge, seen.statement_id
    return render_template(
        "console/reconciliation/day.html",
        day=closing,
        closed=seen.closed,
        bridge=seen.closed or bridge,
        shown=bridge and _sums(bridge),
        takes_two=bridge is not None and bool(bridge.steps_for_two),
        is_ready=bridge is not None and not (bridge.missing or bridge.open_count or bridge.undecided_count),
        statement=statement_id and services().provider_statements.show(statement_id, context),
        is_proposed=statement_id and proposal_about(statement_id, context),
        may_be_empty=seen.may_be_empty,
        refusal=seen.refusal,
        steps=_STEPS,
    )


@console.page("POST", "/operator/days/<account>/<date>/close", who="operator", form_on="show_day")
def close_day(context: RequestContext, account: str, date: str) -> Any:
    """Close a day, if its sums are still those that were shown."""
    closing = _wanted(account, date, context)
    shown, bridge = request.form.get("shown"), services().days.bridge(closing, context)
    if not bridge.missing and shown != _sums(bridge):
        raise ServiceError(Code.INVALID_REQUEST, "The sums of the day have changed. Look at them again.")
    services().days.close(closing, context)
    return done(gettext("%(day)s is closed.", day=closing.date), "list_days")


@console.page("POST", "/operator/days/<account>/<date>/propose", who="operator", form_on="show_day")
def propose_closing(context: RequestContext, account: str, date: str) -> Any:
    return propose("day.close", f"{account} {_wanted(account, date, context).date}", context)


def _wanted(account: str, date: str, context: RequestContext) -> CloseDay:
    """The closing that a page is about. NOT_FOUND for what is no day."""
    try:
        day = forms.date_of(date)
    except ServiceError:
        day = None
    if day is None:
        raise ServiceError(Code.NOT_FOUND, NO_PAGE)
    return CloseDay(day, account, context.caller.operator or "", request.form.get("is_empty") == "yes")


def _sums(bridge: Any) -> str:
    """What a form carries of the sums that its page showed."""
    return f"{bridge.ours_cents} {bridge.theirs_cents}"


def _about(day: DayState) -> str:
    if day.closed:
        return gettext("by %(name)s", name=who(day.closed.closed_by, day.closed.confirmed_by))
    return gettext("a statement covers it") if day.is_covered else gettext("no statement covers it yet")
