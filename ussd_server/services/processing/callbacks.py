"""Callbacks of providers, which bring our own status queries forward."""

from __future__ import annotations

from ussd_server.context import RequestContext
from ussd_server.models.providers import TrialPayment
from ussd_server.services.processing.messages import Callback, CallbackPath
from ussd_server.services.processing.processor import PaymentProcessor
from ussd_server.services.runtime import Runtime
from ussd_server.status import Code, ServiceError


class CallbackService:
    """Receives callbacks of providers. Their content is not trusted; they only bring our own status query forward."""

    def __init__(self, runtime: Runtime, processor: PaymentProcessor) -> None:
        self._tokens, self._wake_worker = runtime.tokens, runtime.wake_up.send
        # Any connection reads them, a client's own too: they are about payments of all.
        self._providers = {each.name: each for each in runtime.providers.connections}
        self._processor, self._clock = processor, runtime.clock

    def receive(self, callback: Callback) -> None:
        """Make the status query of the payment in a callback due now. Repeated and late callbacks do no harm.

        Raises NOT_FOUND for an unknown path. The sender learns nothing else, not even whether the payment exists.
        """
        provider = self._providers.get(callback.provider)
        if provider is None or not self._tokens.is_callback_secret(callback.provider, callback.secret):
            raise ServiceError(Code.NOT_FOUND, "Not found")
        reference = provider.reference_in(callback.body)
        if reference is None:
            return
        if self._processor.bring_forward(reference):
            self._wake_worker()
            return
        is_first = (TrialPayment.provider_reference == reference) & TrialPayment.callback_at.is_null()
        if TrialPayment.select().where(is_first).exists():
            TrialPayment.update(callback_at=self._clock.now()).where(is_first).execute()

    def paths(self, context: RequestContext) -> list[CallbackPath]:
        """The callback path of every provider that is switched on and reports, for the operator to register there."""
        context.require_operator()
        return [
            CallbackPath(name, self._tokens.callback_path(name))
            for name, provider in self._providers.items()
            if provider.sends_callbacks
        ]
