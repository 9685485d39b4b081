"""Callbacks of money companies: believed never, they only bring our own next question forward."""

from __future__ import annotations

from collections.abc import Callable

from ussd_server.context import RequestContext
from ussd_server.messages.callbacks import Callback, CallbackPath
from ussd_server.security.tokens import Tokens
from ussd_server.services.transactions.providers import Providers
from ussd_server.services.transactions.settlement import Settlement
from ussd_server.status import Code, ServiceError


class CallbackService:
    """Hears what companies call back about."""

    def __init__(
        self, providers: Providers, settlement: Settlement, tokens: Tokens, wake_worker: Callable[[], None]
    ) -> None:
        """`wake_worker` is called when a payment was hurried; it must not raise."""
        self._providers = providers
        self._settlement = settlement
        self._tokens = tokens
        self._wake_worker = wake_worker

    def hear(self, callback: Callback) -> None:
        """Ask the company about the payment that a callback names, now rather than later.

        NOT_FOUND for a path that is not ours. What the callback is about, and whether there is such a payment, makes no
        difference to whoever sent it; twice and late are as good as once.
        """
        provider = self._providers.get(callback.company)
        if provider is None or not self._tokens.is_callback_secret(callback.company, callback.secret):
            raise ServiceError(Code.NOT_FOUND, "Not found")
        reference = provider.reference_in(callback.body)
        if reference is not None and self._settlement.bring_forward(reference):
            self._wake_worker()

    def paths(self, context: RequestContext) -> list[CallbackPath]:
        """The path of every company that is switched on, for the operator to register with it."""
        context.require_operator()
        return [
            CallbackPath(provider.name, callback_path(self._tokens, provider.name))
            for provider in self._providers
            if provider.name != "sandbox"
        ]


def callback_path(tokens: Tokens, company: str) -> str:
    """Where a company may call back: the path is the credential."""
    return f"/callbacks/{company}/{tokens.callback_secret(company)}"
