"""Raw requests of gateways, and what holds of each that is refused."""

from __future__ import annotations

import pytest

from ussd_server.gateways.messages import AS_DOCUMENTED, ChannelOptions, Gateway, GatewayRequest, UnreadableError


def get(query: bytes) -> GatewayRequest:
    """A request with parameters."""
    return GatewayRequest("GET", query_string=query)


def post(body: bytes) -> GatewayRequest:
    """A request with a body."""
    return GatewayRequest("POST", body=body)


def assert_refused(gateway: Gateway, request: GatewayRequest, options: ChannelOptions = AS_DOCUMENTED) -> None:
    """Assert that a request is refused without repeating 4321, which was typed, and without the error that read it."""
    with pytest.raises(UnreadableError) as refusal:
        gateway.read(request, options)
    assert "4321" not in repr(refusal.value)
    assert refusal.value.__cause__ is refusal.value.__context__ is None
