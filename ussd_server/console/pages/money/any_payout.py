"""Payouts of any client: operators see them and cancel what was not sent. Only the client approves."""

from __future__ import annotations

from typing import Any

from flask import Response

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.links import acting_for, acting_for_owner
from ussd_server.console.pages.money.payouts import cancel, live_part, payout_page, payouts_page, results_file
from ussd_server.context import RequestContext


@console.page("GET", "/operator/clients/<client_id>/payouts", who="operator")
def list_any_payouts(context: RequestContext, client_id: str) -> Response:
    """The payouts of one client, newest first."""
    client = services().clients.find(client_id, context)
    return payouts_page(acting_for(client, context), client)


@console.page("GET", "/operator/payouts/<payout_id>", who="operator")
def show_any_payout(context: RequestContext, payout_id: str) -> Response:
    """One payout of any client."""
    client, for_client = acting_for_owner("payout", payout_id, context)
    return payout_page(payout_id, for_client, client)


@console.page("GET", "/operator/payouts/<payout_id>/live", who="operator")
def show_any_payout_live(context: RequestContext, payout_id: str) -> Response:
    """The part of the page that refreshes by itself."""
    client, for_client = acting_for_owner("payout", payout_id, context)
    return live_part(payout_id, for_client, client)


@console.page("GET", "/operator/payouts/<payout_id>/results.csv", who="operator")
def download_any_payout(context: RequestContext, payout_id: str) -> Response:
    """Every row with its result, as a file."""
    _, for_client = acting_for_owner("payout", payout_id, context)
    return results_file(payout_id, for_client)


@console.page("POST", "/operator/payouts/<payout_id>/cancel", who="operator")
def cancel_any_payout(context: RequestContext, payout_id: str) -> Any:
    """Cancel what was not sent. The client reads it in its audit trail."""
    client, for_client = acting_for_owner("payout", payout_id, context)
    return cancel(payout_id, for_client, client)
