"""Forgotten passwords: a link to choose a new one is mailed."""

from __future__ import annotations

from datetime import timedelta

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.limits.networks import network_of
from ussd_server.runtime import Runtime
from ussd_server.services.clients.clients import checked_email
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import queue_mail
from ussd_server.status import Code, ServiceError

LINK_LIFE = timedelta(hours=1)


class ForgottenPasswordService:
    """Takes requests for a new password, from the public."""

    def __init__(self, runtime: Runtime) -> None:
        self._limiter = runtime.limiter
        self._clock = runtime.clock

    def request(self, email: str, context: RequestContext) -> None:
        """Have a link mailed, if the address belongs to a person who may sign in.

        Does the same for every address, so that a caller learns nothing: the worker looks for the person later. From
        the fourth request for an address within an hour, nothing is sent. INVALID_REQUEST for a malformed address;
        RATE_LIMIT_EXCEEDED (429) after too many requests from one network.
        """
        email = checked_email(email)
        decision = self._limiter.hit("forgotten-network", network_of(context.address))
        if not decision.accepted:
            raise ServiceError(
                Code.RATE_LIMIT_EXCEEDED, "Too many requests. Please wait a while.",
                retry_after_seconds=decision.retry_after_seconds,
            )  # fmt: skip
        if not self._limiter.hit("forgotten-person", email).accepted:
            return
        with unit_of_work():
            queue_mail(
                MailKind.PASSWORD_FORGOTTEN, email, {"address": context.address or "unknown"}, self._clock.now(),
                patience=LINK_LIFE,
            )  # fmt: skip
