"""Limits against guessing passwords and codes."""

from __future__ import annotations

from ussd_server.limits.decisions import RateLimitDecision
from ussd_server.limits.limiter import Limiter
from ussd_server.status import Code, ServiceError


class Guesses:
    """Failed logins of one address: for one e-mail address, and altogether.

    RATE_LIMIT_EXCEEDED (429) when a count is used up.
    """

    def __init__(self, limiter: Limiter, network: str, email: str) -> None:
        self._limiter = limiter
        self._counts = [("login-address", network), ("login-pair", f"{network} {email}")]

    def add(self, policy: str, identity: str) -> None:
        """Count failures under another policy too."""
        self._counts.append((policy, identity))

    def refuse_when_used_up(self) -> None:
        """Refuse when no failure more is allowed."""
        for policy, identity in self._counts:
            self._refuse_unless_accepted(self._limiter.peek(policy, identity))

    def count_failure(self) -> None:
        """Count a failure."""
        for policy, identity in self._counts:
            self._refuse_unless_accepted(self._limiter.hit(policy, identity))

    def forgive(self) -> None:
        """Reset the failures of this e-mail address after a login that succeeded."""
        self._limiter.clear(*self._counts[1])

    def _refuse_unless_accepted(self, decision: RateLimitDecision) -> None:
        if not decision.accepted:
            raise ServiceError(
                Code.RATE_LIMIT_EXCEEDED,
                "Too many login attempts",
                retry_after_seconds=decision.retry_after_seconds,
            )
