"""Corrections of drafts of payouts: invalid rows typed anew, or a corrected file under the same reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flask import render_template, request

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done, shown_again
from ussd_server.console.pages.money.payouts import FORM_BYTES
from ussd_server.context import RequestContext
from ussd_server.services.payouts.messages import FIELDS, LARGEST_FILE_BYTES, MOST_CORRECTED, ReplacePayout
from ussd_server.status import Code, ServiceError

_TITLES = {name: name.replace("_", " ").capitalize() for name in FIELDS}


@console.page("GET", "/payouts/<payout_id>/correct", needs="payouts:write")
def show_payout_corrections(context: RequestContext, payout_id: str) -> str:
    """The form with the invalid rows of a draft, and that of a corrected file."""
    return _form(payout_id, context)


@console.page(
    "POST", "/payouts/<payout_id>/correct", needs="payouts:write", max_body_bytes=LARGEST_FILE_BYTES + FORM_BYTES
)
def correct_payout(context: RequestContext, payout_id: str) -> Any:
    """Put a corrected draft in the place of a draft, and show it."""
    file = request.files.get("file")
    with shown_again(lambda error: _form(payout_id, context, error), Code.INSUFFICIENT_SCOPE):
        if file is not None and not file.filename:
            raise ServiceError(Code.INVALID_REQUEST, "Choose a file.")
        content = None if file is None else file.read()
        replaced = services().payouts.replace(ReplacePayout(payout_id, content, _corrections()), context).payout
    if replaced.payout_id == payout_id:
        return done("Nothing was changed.", "show_payout", tone="warn", payout_id=payout_id)
    return done(
        "Every row is checked again. Nothing is sent before another person approves it.",
        "show_payout",
        payout_id=replaced.payout_id,
    )


def _form(payout_id: str, context: RequestContext, error: ServiceError | None = None) -> str:
    """The page with what was typed, else with what the rows hold."""
    payout = services().payouts.get(payout_id, context)
    typed = _corrections()
    rows = [
        replace(row, fields=typed.get(row.line, row.fields))
        for row in services().payouts.invalid_rows(payout_id, context)
    ]
    return render_template("console/payouts/correct.html", payout=payout, rows=rows, titles=_TITLES, error=error)


def _corrections() -> dict[int, dict[str, str]]:
    """What was typed into the fields of each line."""
    prefix = "phone_number-"
    lines = [name.removeprefix(prefix) for name in request.form if name.startswith(prefix)]
    return {
        int(line): {name: request.form.get(f"{name}-{line}", "").strip() for name in FIELDS}
        for line in lines[:MOST_CORRECTED]
        if line.isascii() and line.isdigit() and len(line) < 8
    }
