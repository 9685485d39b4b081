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


def methods_for_callers(services: Services) -> Iterator[tuple[str, str, inspect.Signature]]:
    for service, instance in vars(services).items():
        for name, function in inspect.getmembers(type(instance), inspect.isfunction):
            signature = inspect.signature(function)
            if not name.startswith("_") and "context" in signature.parameters:
                yield service, name, signature


def test_a_caller_without_rights_is_refused_by_every_method_before_anything_else(services: Services) -> None:
    nobody = RequestContext(Caller(CallerKind.KEY, client_id=ExampleClient(services).id))
    methods = list(methods_for_callers(services))
    assert len(methods) > 300
    for service, name, signature in methods:
        if name in _NEED_NO_RIGHT.get(service, set()) | _ASK_LATER.get(service, set()):
            continue
        needed = [each for each in signature.parameters.values() if each.default is each.empty and each.name != "self"]
        values = {each.name: nobody if each.name == "context" else object() for each in needed}
        with pytest.raises(ServiceError) as refused:
            getattr(getattr(services, service), name)(**values)
        assert refused.value.code is Code.INSUFFICIENT_SCOPE, f"{service}.{name}"
