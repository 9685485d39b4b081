"""Callbacks of providers. Their content is not trusted; they only bring our own enquiry forward."""

from __future__ import annotations

from ussd_server.context import RequestContext
from ussd_server.runtime import Runtime, Service
from ussd_server.services.settlement.messages import Callback, CallbackPath
from ussd_server.services.settlement.settlement import Settlement
from ussd_server.status import Code, ServiceError


class CallbackService(Service):
    """Receives callbacks of providers."""

    def __init__(self, runtime: Runtime, settlement: Settlement) -> None:
        super().__init__(runtime)
        self._settlement = settlement

    def receive(self, callback: Callback) -> None:
        """Make the enquiry about the payment that a callback names due now. Repeated and late callbacks do no harm.

        Raises NOT_FOUND for an unknown path. The sender learns nothing else, not even whether the payment exists.
        """
        provider = self._providers.get(callback.provider)
        if provider is None or not self._tokens.is_callback_secret(callback.provider, callback.secret):
            raise ServiceError(Code.NOT_FOUND, "Not found")
        reference = provider.reference_in(callback.body)
        if reference is not None and self._settlement.bring_forward(reference):
            self._wake_worker()

    def paths(self, context: RequestContext) -> list[CallbackPath]:
        """The callback path of every provider that is switched on and reports, for the operator to register there."""
        context.require_operator()
        return [
            CallbackPath(provider.name, self._tokens.callback_path(provider.name))
            for provider in self._providers
            if provider.sends_callbacks
        ]
