"""Deeds: what menus ask the world to do, done within a bounded time and without trouble of the world's own."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ussd_server.clock import Clock
from ussd_server.context import RequestContext
from ussd_server.logs import logger
from ussd_server.menus.document.variables import SessionFacts
from ussd_server.menus.engine.actions import (
    ActionOutcome,
    Answered,
    BalanceAction,
    BalanceFound,
    Failed,
    HandedOver,
    HandoverAction,
    HttpAction,
    LookupNameAction,
    MenuAction,
    NameFound,
    Paid,
    PayAction,
)
from ussd_server.messages.balances import GetBalance
from ussd_server.messages.transactions import MAIN_ACCOUNT, CreateTransaction, TransactionType
from ussd_server.outbound.client_server import ClientServer, Handover, NoAnswerError
from ussd_server.outbound.signature import Signature
from ussd_server.security.key_ring import Keyring, Ring
from ussd_server.services.transactions.balances import BalanceService
from ussd_server.services.transactions.providers import Providers
from ussd_server.services.transactions.transactions import TransactionService
from ussd_server.services.ussd.bulkhead import Bulkhead
from ussd_server.status import Code, ServiceError

log = logger(__name__)

CALL_SECONDS = 2.5
STEP_SECONDS = 5.5
_LONGEST_REFERENCE = 64
_LOOKUPS = 20
# After these refusals there may be a transaction under the payment's name all the same.
_UNCERTAIN = (Code.INTERNAL_ERROR, Code.SERVICE_UNAVAILABLE, Code.IDEMPOTENCY_KEY_REUSED)


@dataclass(slots=True)
class ActionContext:
    """One step for whose sake deeds are done, and what they left behind.

    `call` acts for the client whose menu it is. `ends_at` is a reading of the monotonic clock: a phone company drops a
    step that takes longer than its own patience, so all deeds of a step share one deadline. `is_unsure` while nobody
    knows whether a payment was recorded.
    """

    context: RequestContext
    facts: SessionFacts
    language: str
    turn: int
    may_have_paid: bool
    transaction_id: str | None = None
    is_unsure: bool = False
    ends_at: float = field(default_factory=lambda: time.monotonic() + STEP_SECONDS)

    def seconds_left(self) -> float:
        """How long the next call to the outside may take; 0 when there is no time left."""
        return max(0.0, min(CALL_SECONDS, self.ends_at - time.monotonic()))


class Actions:
    """Does deeds, each at most once for its place in a conversation."""

    def __init__(
        self,
        transactions: TransactionService,
        balances: BalanceService,
        providers: Providers,
        client_server: ClientServer,
        bulkhead: Bulkhead,
        keyring: Keyring,
        clock: Clock,
    ) -> None:
        """`bulkhead` bounds how many requests wait for the servers of clients."""
        self._bulkhead = bulkhead
        # As many as there are connections to a provider, so that no client's callers take all of them.
        self._lookups = Bulkhead(_LOOKUPS, _LOOKUPS // 4)
        self._transactions = transactions
        self._balances = balances
        self._providers = providers
        self._client_server = client_server
        self._keyring = keyring
        self._clock = clock

    def do(self, action: MenuAction, action_context: ActionContext) -> ActionOutcome:
        """Do a deed and say what came of it; trouble of the outside world is an outcome like any other."""
        match action:
            case PayAction():
                return self._pay(action, action_context)
            case BalanceAction(account=account):
                request = GetBalance(None if account == MAIN_ACCOUNT else account)
                return BalanceFound(self._balances.get(request, action_context.context).available_cents)
            case LookupNameAction(phone_number=phone_number):
                with self._lookups.place(action_context.context.client_id) as has_place:
                    return self._look_up(phone_number, action_context) if has_place else _refused(action_context)
            case HttpAction() | HandoverAction():
                with self._bulkhead.place(action_context.context.client_id) as has_place:
                    try:
                        return self._ask_client(action, action_context) if has_place else _refused(action_context)
                    except NoAnswerError as none:
                        return Failed(none.timed_out)

    def _pay(self, action: PayAction, action_context: ActionContext) -> ActionOutcome:
        """Record a payment under the name of its confirmation, so that the same confirmation never pays twice."""
        request = CreateTransaction(
            type=TransactionType(action.kind),
            phone_number=action.phone_number,
            to_phone_number=action.to_phone_number,
            amount_cents=action.amount_cents,
            account=action.account,
            reference=payment_reference(action_context.facts.session_id, action.confirmation),
            session_id=action_context.facts.session_id,
            confirmation=action.confirmation,
        )
        had_paid, action_context.may_have_paid, action_context.is_unsure = action_context.may_have_paid, True, True
        try:
            recorded = self._transactions.create(request, action_context.context)
        except ServiceError as refusal:
            if refusal.code in _UNCERTAIN:
                return Failed()
            action_context.may_have_paid, action_context.is_unsure = had_paid, False
            return Paid(accepted=False)
        action_context.is_unsure = False
        action_context.transaction_id = recorded.transaction.transaction_id
        return Paid(accepted=True)

    def _look_up(self, phone_number: str, action_context: ActionContext) -> ActionOutcome:
        seconds = action_context.seconds_left()
        if not seconds:
            return Failed(timed_out=True)
        try:
            name = self._providers.choose(None, phone_number, 100).lookup_name(phone_number, seconds)
        except ServiceError:
            return Failed()
        return Failed() if name is None else NameFound(name)

    def _ask_client(self, action: HttpAction | HandoverAction, action_context: ActionContext) -> ActionOutcome:
        facts, seconds = action_context.facts, action_context.seconds_left()
        signature = Signature(
            # The same step always makes the same name, so a server that is called twice can tell.
            f"{facts.session_id}-{action.node}-{action_context.turn}",
            self._clock.now(),
            call_secrets(self._keyring, action_context.context.client_id),
        )
        if isinstance(action, HttpAction):
            seconds = min(seconds, action.timeout_ms / 1000)
            headers = dict(action.headers)
            return Answered(
                self._client_server.fetch(action.method, action.url, headers, action.body, signature, seconds)
            )
        step = Handover(
            session_id=facts.session_id,
            phone_number=facts.phone_number,
            service_code=facts.service_code,
            network=facts.network,
            language=action_context.language,
            entry=action.entry,
            text=action.text,
        )
        return HandedOver(*self._client_server.hand_over(action.url, action.protocol, step, signature, seconds))


def _refused(action_context: ActionContext) -> ActionOutcome:
    log.warning(
        "a menu's request was not sent: too many of its client are waiting", client_id=action_context.context.client_id
    )
    return Failed()


def payment_reference(session_id: str, confirmation: str) -> str:
    """The client's name for a payment that a conversation ordered: `ussd-{session}-{confirmation}`, 64 at most."""
    reference = f"ussd-{session_id}-{confirmation}"
    if len(reference) <= _LONGEST_REFERENCE:
        return reference
    return f"ussd-{session_id}-{hashlib.sha256(confirmation.encode()).hexdigest()[:22]}"


def call_secrets(keyring: Keyring, client_id: str) -> Sequence[bytes]:
    """The secrets with which calls to a client's own server are signed, newest first: one for each key of the house."""
    materials = reversed(keyring.all_materials(Ring.SIGNING))
    return [hmac.digest(material, f"client-server\0{client_id}".encode(), "sha256") for material in materials]
