"""Deeds: what menus ask the world to do, done within a bounded time and without trouble of the world's own."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ussd_server.adapters.client_server import ClientServer, Handover, NoAnswerError
from ussd_server.adapters.signature import Signature
from ussd_server.menus.deeds import (
    Answered,
    BalanceDeed,
    BalanceFound,
    Deed,
    Failed,
    HandedOver,
    HandoverDeed,
    HttpDeed,
    LookupNameDeed,
    NameFound,
    Outcome,
    Paid,
    PayDeed,
)
from ussd_server.menus.variables import SessionFacts
from ussd_server.messages.balances import GetBalance
from ussd_server.messages.transactions import MAIN_ACCOUNT, CreateTransaction, TransactionType
from ussd_server.rpc.clock import Clock
from ussd_server.rpc.context import CallContext
from ussd_server.rpc.keyring import Keyring, Ring
from ussd_server.rpc.logs import logger
from ussd_server.rpc.status import Code, ServiceError
from ussd_server.services.balances import BalanceService
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.providers import Providers
from ussd_server.services.transactions import TransactionService

log = logger(__name__)

CALL_SECONDS = 2.5
STEP_SECONDS = 5.5
_LONGEST_REFERENCE = 64
_LOOKUPS = 20
# After these refusals there may be a transaction under the payment's name all the same.
_UNCERTAIN = (Code.INTERNAL_ERROR, Code.SERVICE_UNAVAILABLE, Code.IDEMPOTENCY_KEY_REUSED)


@dataclass(slots=True)
class Errand:
    """One step for whose sake deeds are done, and what they left behind.

    `call` acts for the client whose menu it is. `ends_at` is a reading of the monotonic clock: a phone company drops a
    step that takes longer than its own patience, so all deeds of a step share one deadline. `is_unsure` while nobody
    knows whether a payment was recorded.
    """

    call: CallContext
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


class Deeds:
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

    def do(self, deed: Deed, errand: Errand) -> Outcome:
        """Do a deed and say what came of it; trouble of the outside world is an outcome like any other."""
        match deed:
            case PayDeed():
                return self._pay(deed, errand)
            case BalanceDeed(account=account):
                wish = GetBalance(None if account == MAIN_ACCOUNT else account)
                return BalanceFound(self._balances.get(wish, errand.call).available_cents)
            case LookupNameDeed(phone_number=phone_number):
                with self._lookups.place(errand.call.client_id) as has_place:
                    return self._look_up(phone_number, errand) if has_place else _refused(errand)
            case HttpDeed() | HandoverDeed():
                with self._bulkhead.place(errand.call.client_id) as has_place:
                    try:
                        return self._ask_client(deed, errand) if has_place else _refused(errand)
                    except NoAnswerError as none:
                        return Failed(none.timed_out)

    def _pay(self, deed: PayDeed, errand: Errand) -> Outcome:
        """Record a payment under the name of its confirmation, so that the same confirmation never pays twice."""
        wish = CreateTransaction(
            type=TransactionType(deed.kind),
            phone_number=deed.phone_number,
            to_phone_number=deed.to_phone_number,
            amount_cents=deed.amount_cents,
            account=deed.account,
            reference=payment_reference(errand.facts.session_id, deed.confirmation),
            session_id=errand.facts.session_id,
            confirmation=deed.confirmation,
        )
        had_paid, errand.may_have_paid, errand.is_unsure = errand.may_have_paid, True, True
        try:
            recorded = self._transactions.create(wish, errand.call)
        except ServiceError as refusal:
            if refusal.code in _UNCERTAIN:
                return Failed()
            errand.may_have_paid, errand.is_unsure = had_paid, False
            return Paid(accepted=False)
        errand.is_unsure = False
        errand.transaction_id = recorded.transaction.transaction_id
        return Paid(accepted=True)

    def _look_up(self, phone_number: str, errand: Errand) -> Outcome:
        seconds = errand.seconds_left()
        if not seconds:
            return Failed(timed_out=True)
        try:
            name = self._providers.choose(None, phone_number, 100).lookup_name(phone_number, seconds)
        except ServiceError:
            return Failed()
        return Failed() if name is None else NameFound(name)

    def _ask_client(self, deed: HttpDeed | HandoverDeed, errand: Errand) -> Outcome:
        facts, seconds = errand.facts, errand.seconds_left()
        signature = Signature(
            # The same step always makes the same name, so a server that is called twice can tell.
            f"{facts.session_id}-{deed.node}-{errand.turn}",
            self._clock.now(),
            call_secrets(self._keyring, errand.call.client_id),
        )
        if isinstance(deed, HttpDeed):
            seconds = min(seconds, deed.timeout_ms / 1000)
            headers = dict(deed.headers)
            return Answered(self._client_server.fetch(deed.method, deed.url, headers, deed.body, signature, seconds))
        step = Handover(
            session_id=facts.session_id,
            phone_number=facts.phone_number,
            service_code=facts.service_code,
            network=facts.network,
            language=errand.language,
            entry=deed.entry,
            text=deed.text,
        )
        return HandedOver(*self._client_server.hand_over(deed.url, deed.protocol, step, signature, seconds))


def _refused(errand: Errand) -> Outcome:
    log.warning("a menu's request was not sent: too many of its client are waiting", client_id=errand.call.client_id)
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
