"""Forms: what people type into them and into filters, read as the services take it, and how they are answered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from flask import Response, flash, g, make_response, redirect, request, url_for

from ussd_server import values
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.status import Code, ServiceError
from ussd_server.values import KAMPALA, bounds_of_day

_ANY_SUM = Decimal(10_000_000_000_000)
_SUM = re.compile(r"(?:[0-9]{1,12}|[0-9]{1,3}(?:,[0-9]{3}){1,3})(?:\.[0-9]{1,2})?", re.ASCII)
# Before the nine digits: the country's code in any spelling, a zero, or nothing.
_NUMBER_START = re.compile(r"^(?:(?:\+|00)?256|0)?(?=[0-9]{9}$)", re.ASCII)
FAULTS = tuple(code for code in Code if code.http_status == Code.INVALID_REQUEST.http_status)
"""Refusals of what a form says."""
_AMOUNT = re.compile(r"(?:[0-9]{1,6}|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]{1,2})?", re.ASCII)


def fault_of(field: str, text: str) -> ServiceError:
    """The refusal of what a field of the form says, which the page shows beside the field."""
    return ServiceError(Code.INVALID_REQUEST, f"{field}: {text}")


def done(text: str, view: str, *, tone: str = "good", **variables: Any) -> Any:
    """Answer a form that did what it says: lead to the page of `view`, which shows `text`."""
    flash(text, tone)
    return redirect(url_for(f"console.{view}", **variables), 303)


def typed(form: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was typed into a form that is shown again; else `form`."""
    return request.form if g.get("refusal") else form


def refused(page: str | Response, error: ServiceError) -> Response:
    """The answer to a form that was refused: its page, with the status of the refusal.

    htmx shows a part of a page for an answer of success alone.
    """
    response = make_response(page, 200 if "HX-Request" in request.headers else error.code.http_status)
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response


def cents(text: str, field: str = "amount") -> int | None:
    """An amount such as `5000`, `5,000` or `99.50`, in cents; None for an empty text.

    Raises INVALID_REQUEST, which names `field`, for anything else, and unless it is above 0 and below UGX 1,000,000.
    """
    if not (text := values.without_marks(text).strip()):
        return None
    if _AMOUNT.fullmatch(text) and (amount := values.cents_of(text.replace(",", ""))):
        return amount
    raise fault_of(field, "Give the amount in shillings, such as 5000, or leave it empty.")


def any_sum(text: str, field: str) -> int | None:
    """As `cents`, without the upper bound of an amount; `field` has the text."""
    if not (text := values.without_marks(text).strip()):
        return None
    if _SUM.fullmatch(text) and (amount := values.cents_of(text.replace(",", ""), below=_ANY_SUM)):
        return amount
    raise fault_of(field, "Give the sum in shillings, such as 2000000, or leave it empty.")


def phone_number(text: str) -> str | None:
    """A phone number as the services know it, also from `0772 123 456`, `772123456` and `00256772123456`.

    Other texts stay as they are and match none.
    """
    plain = re.sub(r"[\s()./-]", "", values.without_marks(text, spaces_too=True))
    return values.phone_number(_NUMBER_START.sub("0", plain)) or text or None


def client_id(text: str, context: RequestContext) -> str:
    """The id of the client that the field `client` names by its name or id. Raises INVALID_REQUEST for no such one."""
    try:
        return services().clients.find(text.strip(), context).client_id
    except ServiceError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        raise fault_of("client", error.message) from None


def day(text: str, *, is_last: bool = False) -> datetime | None:
    """The beginning of a day in Kampala, or with `is_last` its end; None for an empty text.

    Raises INVALID_REQUEST for a text that names no day.
    """
    named = date_of(text)
    return None if named is None else bounds_of_day(named)[is_last]


def today() -> date:
    """The present day in Kampala."""
    return services().clock.now().astimezone(KAMPALA).date()


def date_of(text: str) -> date | None:
    """A date such as `2026-11-22`; None for an empty text. Raises INVALID_REQUEST unless it is of 2000 to 2999."""
    if not (text := text.strip()):
        return None
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=KAMPALA).date()
    except ValueError:
        day = date.min
    if not 2000 <= day.year < 3000:
        raise ServiceError(Code.INVALID_REQUEST, "Give the day as a date, such as 2026-11-22.")
    return day


def local_moment(text: str) -> datetime | None:
    """A date and time in Kampala, as a browser's field gives it; None for an empty text.

    Raises INVALID_REQUEST for any other text.
    """
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            return at.replace(tzinfo=KAMPALA)
    except ValueError:
        pass
    raise ServiceError(Code.INVALID_REQUEST, "Give a date and a time, such as 2026-11-22T14:30.")
