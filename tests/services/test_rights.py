"""Every method of a service that acts for a caller asks for a right before it looks at anything."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from tests.support.example_client import ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.status import Code, ServiceError

# What everybody may do for themselves, and what answers a caller without the right by less, or by nothing.
_NEED_NO_RIGHT = {
    "client_settings": {"update"},
    "handsets": {"may_dial"},
    "key_reader": {"expiring", "known_to", "may_reveal", "own"},
    "logins": {"begin", "begin_for_console", "change_password", "end", "end_one", "open_of_caller", "refresh"},
    "mails": {"choices", "choose", "choose_language"},
    "notices": {"notify"},
    "operator_logins": {"authenticate", "begin"},
    "password_links": {"choose_password", "request"},
    "people": {"count_unconfirmed"},
    "search": {"recent", "search"},
    "second_factors": {"add", "is_required"},
    "transactions": {"wait_until_final"},
}
# The right depends on the request, or another method asks for it.
_ASK_LATER = {
    "bank_settlements": {"record"},
    "daily_reports": {"add_up"},
    "menus": {"difference", "draw", "fullest_screens", "make_script", "text", "walk"},
    "people": {"change_role", "invite"},
    "proposals": {"confirm", "propose_all"},
    "provider_statements": {"cover"},
    "refunds": {"create"},
    "transactions": {"create"},
}
# Methods for operators among others of their service, and services for operators alone.
_OF_OPERATORS = {
    "api_keys": {"import_key", "set_active"},
    "audit": {"list_of_operators"},
    "balances": {"list"},
    "bank_accounts": {"confirm", "count_waiting", "list", "set_terms"},
    "bank_settlements": {
        "cancel", "count_late", "due", "propose", "read", "record_line", "record_return", "require_recordable",
        "waiting",
    },
    "clients": {
        "change_password", "confirm_user", "count_readers", "create", "create_user", "find", "find_user",
        "has_password", "list", "list_users", "names", "page", "reason_of", "set_active", "set_user_active",
    },
    "menus": {"call_secrets"},
    "movements": {"count_held", "list", "of_payment", "show"},
    "payment_codes": {"set_prefix"},
    "proposals": {"list_open", "propose", "show", "show_open", "withdraw"},
    "provider_states": {"adopt", "changes", "switch"},
    "provider_statements": {"accounts", "list", "provider_of", "reconcile", "require_coverable", "show", "undo"},
    "refunds": {"create_by_operators", "preview"},
    "search": {"find", "owner_of"},
    "second_factors": {"remove_by_operator"},
    "subscriber_history": {"of_all_clients"},
}  # fmt: skip
_OF_OPERATORS_ALONE = {
    "call_history", "callbacks", "channels", "corrections", "days", "deposits", "differences", "key_explanations",
    "master_keys", "movement_uses", "operators", "own_connections", "personal_data", "recovery", "releases", "reviews",
    "signatures", "sms_reports", "statement_layouts", "system", "trials",
}  # fmt: skip


def methods_for_callers(services: Services) -> Iterator[tuple[str, str, inspect.Signature]]:
    for service, instance in vars(services).items():
        for name, function in inspect.getmembers(type(instance), inspect.isfunction):
            signature = inspect.signature(function)
            if not name.startswith("_") and "context" in signature.parameters:
                yield service, name, signature


def is_refused(services: Services, service: str, name: str, signature: inspect.Signature, who: RequestContext) -> bool:
    """Whether a method refuses a caller before it looks at anything."""
    needed = [each for each in signature.parameters.values() if each.default is each.empty and each.name != "self"]
    with pytest.raises(ServiceError) as refused:
        getattr(getattr(services, service), name)(**{each.name: object() for each in needed} | {"context": who})
    return refused.value.code is Code.INSUFFICIENT_SCOPE


def test_a_caller_without_rights_is_refused_by_every_method_before_anything_else(services: Services) -> None:
    nobody = RequestContext(Caller(CallerKind.KEY, client_id=ExampleClient(services).id))
    methods = list(methods_for_callers(services))
    assert len(methods) > 300
    for service, name, signature in methods:
        if name not in _NEED_NO_RIGHT.get(service, set()) | _ASK_LATER.get(service, set()):
            assert is_refused(services, service, name, signature, nobody), f"{service}.{name}"


def test_an_owner_of_a_client_is_refused_by_every_method_of_operators(services: Services) -> None:
    owner = ExampleClient(services).at_console()
    for service, name, signature in methods_for_callers(services):
        if service in _OF_OPERATORS_ALONE or name in _OF_OPERATORS.get(service, set()):
            assert is_refused(services, service, name, signature, owner), f"{service}.{name}"
