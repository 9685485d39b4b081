"""The page of one phone number: everything that happened with it, for the person who answers its subscriber."""

from __future__ import annotations

from flask import render_template, request

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.context import RequestContext
from ussd_server.services.subscribers.messages import GetHistory


@console.page("GET", "/subscribers/<phone_number>", needs="transactions:read")
def show_subscriber(context: RequestContext, phone_number: str) -> str:
    """The history of a phone number, newest first."""
    wanted = GetHistory(phone_number, cursor=request.args.get("cursor"))
    history = services().subscriber_history.get(wanted, context)
    return render_template("console/subscribers/history.html", history=history, phone_number=phone_number)
