"""Providers: how they do, and the operator's switch."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from flask import Response, request

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.charts import Point
from ussd_server.console.formats import local_time
from ussd_server.console.forms import done
from ussd_server.console.tables import Column, DataTable, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext
from ussd_server.providers.failures import FAILURES, FailureCode
from ussd_server.providers.registry import title_of_account
from ussd_server.services.providers.messages import (
    CALLS_KEPT_DAYS,
    OperatorProviderState,
    QuarterOfCalls,
    SwitchProvider,
    written_places,
)
from ussd_server.values import bounds_of_day

_COLUMNS = (
    Column("connection", "Connection", "word"),
    Column("account", "Account", "word"),
    Column("client", "Client"),
    Column("status", "State", "status"),
    Column("since", "Since", "moment"),
    Column("message", "Message"),
    Column("call_count", "Calls", "number"),
    Column("failed_count", "Failed", "number"),
    Column("unanswered_count", "Not answered", "number"),
    Column("median_seconds", "Median time of a call", "duration"),
    Column("float_amount", "Float", "money"),
    Column("float_at", "Float read at", "moment"),
    Column("float_low_since", "Float low since", "moment"),
    Column("last_error", "Last error", value=lambda state: last_error_in_words(state)),
    Column("last_error_at", "Last error at", "moment"),
)


@console.page("GET", "/operator/providers", who="operator")
def list_providers(context: RequestContext) -> Response:
    """Every provider with its state, limits, float and figures; a day's or the last 24 hours' calls as charts."""
    day = forms.date_of(request.args.get("day", ""))
    until = bounds_of_day(day)[1] - timedelta(seconds=1) if day else None
    today = forms.today()
    states = services().provider_states.list(context)
    recent = services().recent_payments.get(context)
    return show_table(
        "console/operator/providers.html",
        DataTable("Providers", _COLUMNS, states),
        states=states,
        attention_count=sum(state.is_troubled for state in states),
        day=day,
        days=[today - timedelta(days=back) for back in range(CALLS_KEPT_DAYS)],
        charts={name: _points(quarters) for name, quarters in services().call_history.get(until, context).items()},
        recent=recent,
        called=_called,
        last_error=last_error_in_words,
        written_places=written_places,
        changes=services().provider_states.changes(context),
    )


@console.page("POST", "/operator/providers/<connection>/switch", who="operator", form_on="list_providers")
def switch_provider(context: RequestContext, connection: str) -> Any:
    """Take a connection out of use for new payments, or into use again."""
    is_off = request.form.get("to") == "off"
    wanted = SwitchProvider(connection, is_off, request.form.get("reason", ""))
    name = _called(services().provider_states.switch(wanted, context))
    text = gettext("%(name)s is switched off." if is_off else "%(name)s is switched on.", name=name)
    return done(text, "list_providers", tone="warn" if is_off else "good")


def _called(state: OperatorProviderState) -> str:
    return title_of_account(state.connection, state.provider)


def _points(quarters: Iterable[QuarterOfCalls]) -> dict[str, list[Point]]:
    return {
        "good": [(local_time(each.began_at), each.good_share and each.good_share * 100) for each in quarters],
        "seconds": [(local_time(each.began_at), each.median_seconds) for each in quarters],
        "bad": [(local_time(each.began_at), each.bad_count) for each in quarters],
    }


def last_error_in_words(state: OperatorProviderState) -> str | None:
    """The last failure of a call: what our code means, and what the provider said."""
    code, _, rest = (state.last_error or "").partition(" ")
    if code not in FAILURES:
        return state.last_error
    return f"{FAILURES[FailureCode(code)].message} {rest}".strip()
