"""The console's navigation: one line for each page group, in the order of the menu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flask import request, url_for

from ussd_server.context import RequestContext, SignedInPerson
from ussd_server.languages import gettext, marked


@dataclass(frozen=True, slots=True)
class NavigationItem:
    """A page group: its name, the view of its first page and the permission to see it."""

    title: str
    view: str
    needs: str | None = None


_GROUPS: Mapping[str, Sequence[NavigationItem]] = {
    "": (NavigationItem("Overview", "show_overview"),),
    marked("Money"): (
        NavigationItem("Transactions", "list_transactions", "transactions:read"),
        NavigationItem("Payouts", "list_payouts", "payouts:read"),
        NavigationItem("Payment codes", "list_payment_codes", "collection:read"),
        NavigationItem("Statements", "show_statement", "statements:read"),
        NavigationItem("Daily report", "show_report", "statements:read"),
        NavigationItem("Bank account", "show_bank_account", "statements:read"),
    ),
    marked("USSD"): (
        NavigationItem("Phone", "show_phone", "ussd:write"),
        NavigationItem("Menus", "list_menus", "menus:read"),
        NavigationItem("Sessions", "list_sessions", "ussd:read"),
        NavigationItem("Messages", "list_messages", "messages:read"),
    ),
    marked("Developers"): (
        NavigationItem("API keys", "list_api_keys", "api_keys:list"),
        NavigationItem("Requests", "list_requests", "api_keys:list"),
        NavigationItem("Webhooks", "list_webhooks", "webhooks:read"),
        NavigationItem("Events", "list_events", "webhooks:read"),
    ),
    marked("Team"): (
        NavigationItem("People", "list_people", "team:read"),
        NavigationItem("Audit trail", "list_audit_events", "audit_events:read"),
    ),
}

_OF_OPERATORS: Mapping[str, Sequence[NavigationItem]] = {
    "": (NavigationItem("Overview", "show_operator_overview"),),
    marked("Money"): (
        NavigationItem("Reviews", "list_reviews"),
        NavigationItem("Proposals", "list_proposals"),
        NavigationItem("Unexplained money", "list_movements"),
        NavigationItem("Reconciliation", "list_reconciliations"),
        NavigationItem("Differences", "list_differences"),
        NavigationItem("Days", "list_days"),
        NavigationItem("Settlements", "list_settlements"),
    ),
    marked("Service"): (
        NavigationItem("Providers", "list_providers"),
        NavigationItem("Clients", "list_clients"),
        NavigationItem("API keys", "find_any_api_key"),
        NavigationItem("Channels", "list_channels"),
        NavigationItem("System", "show_system"),
        NavigationItem("Operators", "list_operators"),
        NavigationItem("Mails", "list_mails"),
        NavigationItem("Audit trail", "list_operator_actions"),
    ),
}


@dataclass(frozen=True, slots=True)
class ShownItem:
    title: str
    address: str
    is_current: bool


def groups_for(person: SignedInPerson) -> list[tuple[str, list[ShownItem]]]:
    """The groups that this person may see, each with its pages."""
    may = RequestContext(person.caller).may
    groups = [
        (gettext(title), [_shown(item) for item in items if item.needs is None or may(item.needs)])
        for title, items in (_OF_OPERATORS if person.is_operator else _GROUPS).items()
    ]
    return [(title, items) for title, items in groups if items]


def title_of(view: str) -> str:
    """What the navigation calls a page."""
    items = (item for groups in (_GROUPS, _OF_OPERATORS) for group in groups.values() for item in group)
    return gettext(next(item.title for item in items if item.view == view))


def _shown(item: NavigationItem) -> ShownItem:
    address = url_for(f"console.{item.view}")
    is_root = address in (url_for("console.show_overview"), url_for("console.show_operator_overview"))
    is_current = request.path == address or (not is_root and request.path.startswith(f"{address}/"))
    return ShownItem(gettext(item.title), address, is_current)
