"""Endpoints for payouts: for programs, and the same for people by their roles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import flask

from schemas.payouts import (
    ApprovePayoutBody,
    CancelPayoutBody,
    CreatePayoutBody,
    CreatePayoutQuery,
    ListPayoutItemsQuery,
    ListPayoutsQuery,
    RetryPayoutBody,
)
from ussd_server.api.endpoints import (
    ApiBlueprint,
    EndpointReply,
    authenticate_access_token,
    authenticate_api_key,
    created,
    csv_file,
)
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.payouts import messages
from ussd_server.status import Code
from ussd_server.wire import Page

payouts = ApiBlueprint(
    "payouts", authenticate_api_key, "Payouts", "Many disbursements at once: from a file, approved by another person."
)
client_payouts = ApiBlueprint(
    "client_payouts",
    authenticate_access_token,
    "Payouts, for users",
    "The payouts of a client, for the users who make and approve them.",
)
# References of all 5,000 rows, each of 64 characters.
_RETRY_BYTES = 512 * 1024
_BLUEPRINTS = ((payouts, "/api/payouts", "payout"), (client_payouts, "/api/clients/payouts", "client_payout"))

_View = TypeVar("_View", bound=Callable[..., Any])


def _endpoint(method: str, below: str, **options: Any) -> Callable[[_View], _View]:
    """Register a view in both blueprints, `below` the path of each, under a name with the noun of each."""

    def register(view: _View) -> _View:
        for blueprint, path, noun in _BLUEPRINTS:
            blueprint.call(method, path + below, name=view.__name__.replace("payout", noun), **options)(view)
        return view

    return register


def _reply(made: messages.CreatedPayout, path: str) -> EndpointReply[messages.PayoutView]:
    return created(
        made.payout, f"{path}/{made.payout.payout_id}", replayed=made.replayed, again="Payout already created"
    )


def _send_items(request: messages.ListPayoutItems, context: RequestContext) -> flask.Response:
    return csv_file(f"payout-{request.payout_id}.csv", services().payouts.csv(request, context))


@_endpoint(
    "POST",
    "",
    needs="payouts:write",
    takes=CreatePayoutBody,
    query=CreatePayoutQuery,
    refuses=(Code.IDEMPOTENCY_KEY_REUSED,),
    status=201,
    message="Payout created",
    max_body_bytes=messages.LARGEST_FILE_BYTES,
)
def create_payout(request: messages.CreatePayout, context: RequestContext) -> EndpointReply[messages.PayoutView]:
    """Judge every row of a payout, in JSON or in a file; nothing is sent before it is approved."""
    return _reply(services().payouts.create(request, context), flask.request.path)


@_endpoint(
    "POST",
    "/<payout_id>/retry",
    needs="payouts:write",
    takes=RetryPayoutBody,
    max_body_bytes=_RETRY_BYTES,
    refuses=(Code.NOT_FOUND,),
    status=201,
    message="Round opened",
)
def retry_payout(request: messages.RetryPayout, context: RequestContext) -> EndpointReply[messages.PayoutView]:
    """Open the next round of a payout: a draft of rows that failed, or were cancelled unsent."""
    made = services().payouts.retry(request, context)
    return created(
        made.payout, flask.request.path.rsplit("/", 1)[0], replayed=made.replayed, again="Round already open"
    )


@_endpoint("GET", "", needs="payouts:read", query=ListPayoutsQuery, message="Payouts")
def list_payouts(request: messages.ListPayouts, context: RequestContext) -> Page[messages.PayoutView]:
    """The client's payouts, newest first."""
    return services().payouts.list(request, context)


@_endpoint("GET", "/<payout_id>", needs="payouts:read", message="Payout")
def get_payout(payout_id: str, context: RequestContext) -> messages.PayoutStates:
    """One payout, with counts and sums of its rows by state."""
    return services().payouts.get(payout_id, context)


@_endpoint(
    "GET",
    "/<payout_id>/items",
    needs="payouts:read",
    query=ListPayoutItemsQuery,
    message="Rows",
    also={"text/csv": _send_items},
)
def list_payout_items(request: messages.ListPayoutItems, context: RequestContext) -> Page[messages.PayoutItemView]:
    """The rows of a payout in the order of their lines; with `Accept: text/csv` all of them."""
    return services().payouts.items(request, context)


@_endpoint(
    "POST",
    "/<payout_id>/approve",
    needs="payouts:approve",
    takes=ApprovePayoutBody,
    refuses=(Code.NOT_FOUND, Code.INSUFFICIENT_BALANCE, Code.DAILY_LIMIT_REACHED),
    message="Payout approved",
)
def approve_payout(request: messages.ApprovePayout, context: RequestContext) -> EndpointReply[messages.PayoutView]:
    """Reserve the sum and the fees of all ready rows and send them; by another key or person than the maker."""
    approved = services().payouts.approve(request, context)
    needs_more = approved.status is messages.PayoutStatus.DRAFT
    return EndpointReply(approved, message="Approval kept; the payout needs another one" if needs_more else None)


@_endpoint("POST", "/<payout_id>/cancel", needs="payouts:write", takes=CancelPayoutBody, message="Payout cancelled")
def cancel_payout(request: messages.CancelPayout, context: RequestContext) -> messages.PayoutView:
    """Cancel what was not sent and release its reservation."""
    return services().payouts.cancel(request, context)
