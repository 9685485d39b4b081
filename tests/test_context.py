"""The call context: grants, and request ids."""

from __future__ import annotations

import re

import pytest

from ussd_server.context import Caller, CallerKind, RequestContext, operator_context, request_id_from
from ussd_server.status import Code, ServiceError


def call(*grants: str) -> RequestContext:
    return RequestContext(Caller(CallerKind.KEY, client_id="a-client", grants=frozenset(grants)))


def test_a_grant_is_held_by_name_by_star_or_by_having_no_limits() -> None:
    assert call("ussd:read").may("ussd:read")
    assert call("ussd:*").may("ussd:read")
    assert RequestContext(Caller(CallerKind.KEY, grants=None)).may("anything:write")
    for grants in ([], ["ussd:write"], ["ussd"], ["*:read"], ["ussd_more:*"], ["uss:*"]):
        assert not call(*grants).may("ussd:read")


def test_a_missing_grant_is_refused_in_the_given_words() -> None:
    call("ussd:read").require("ussd:read")
    with pytest.raises(ServiceError, match="Not you") as refusal:
        call("ussd:read").require("ussd:write", "Not you")
    assert refusal.value.code is Code.INSUFFICIENT_SCOPE


def test_only_the_operator_passes_for_one() -> None:
    operator_context().require_operator()
    for kind in CallerKind:
        if kind is not CallerKind.OPERATOR:
            with pytest.raises(ServiceError):
                RequestContext(Caller(kind, grants=None)).require_operator()


def test_a_context_without_a_client_has_no_client_id() -> None:
    assert operator_context("a-client").client_id == "a-client"
    with pytest.raises(AssertionError):
        _ = operator_context().client_id


def test_a_good_request_id_is_kept_and_any_other_replaced() -> None:
    for good in ("a", "A-1._b", "x" * 64):
        assert request_id_from(good) == good
    for bad in (
        None,
        "",
        "x" * 65,
        "a b",
        "a\n",
        "é",
        "a/b",
        "१",
        "ussdsk_abc",
        "x-whsec_abc",
        "eyJhbGci.e30",
        "WyIw.x",
    ):
        assert re.fullmatch(r"[0-9a-f]{32}", request_id_from(bad))
    assert request_id_from(None) != request_id_from(None)
