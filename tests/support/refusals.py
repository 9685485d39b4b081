"""Refusals of services."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ussd_server.status import Code, ServiceError


def refusal(action: Callable[..., object], *given: object) -> tuple[Code, str]:
    """The code and the message with which a service refuses an action."""
    with pytest.raises(ServiceError) as refused:
        action(*given)
    return refused.value.code, refused.value.message
