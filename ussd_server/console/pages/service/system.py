"""System: the state of the installation, the doctor, the check of the books, and the operators."""

from __future__ import annotations

from typing import Any

from flask import Response, redirect, request, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.live import show_live
from ussd_server.console.pages.service.overview import QUEUES
from ussd_server.console.tables import Column, DataTable, show_table
from ussd_server.context import RequestContext
from ussd_server.services.operations.messages import rows_in_words

_OPERATORS = (
    Column("email", "E-mail"),
    Column("state", "State", "status", value=lambda operator: "active" if operator.is_active else "disabled"),
    Column("recovery_codes_left", "Recovery codes left", "number"),
    Column("created_at", "Created", "moment"),
    Column("operator_id", "Id", "id"),
)


@console.page("GET", "/operator/system", who="operator")
def show_system(context: RequestContext) -> Response:
    return _page(context)


@console.page("POST", "/operator/system/doctor", who="operator")
def run_doctor(context: RequestContext) -> Any:
    """Run the doctor; its findings stay on the page."""
    services().system.doctor(context)
    return redirect(url_for("console.show_system"), 303)


@console.page("POST", "/operator/system/check", who="operator")
def check_books(context: RequestContext) -> Response:
    """Check the books for some seconds and show what was found."""
    return _page(context, checked=services().system.check(request.form.get("mark") or None, context))


@console.page("GET", "/operator/operators", who="operator")
def list_operators(context: RequestContext) -> Response:
    table = DataTable("Operators, oldest first", _OPERATORS, services().operators.list(context))
    return show_table("console/operator/operators.html", table)


def _page(context: RequestContext, **values: Any) -> Response:
    service = services().system
    system = service.show(context)
    waiting = {measure.name: measure.value for measure in system.queues}
    return show_live(
        "console/system/system.html",
        "console/system/parts.html",
        system=system,
        queues=[(title, round(waiting[name], 1), unit) for name, (title, unit) in QUEUES.items() if name in waiting],
        settings=service.settings(context),
        last=service.last(context),
        rows_in_words=rows_in_words,
        **values,
    )
