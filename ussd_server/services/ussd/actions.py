"""Actions: what a menu asks the service to do. Each has a time limit, and a failure is an outcome for the menu."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field

from ussd_server.context import SEND, RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.logs import Logger
from ussd_server.menus.engine import actions
from ussd_server.models.ussd import Menu, UssdSession
from ussd_server.outbound.client_server import ClientServer, Handover, NoAnswerError
from ussd_server.outbound.signature import Signature
from ussd_server.outbound.transport import Transport
from ussd_server.security.key_ring import call_secrets
from ussd_server.services.accounts.balances import BalanceService
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.menus.documents import document_of
from ussd_server.services.providers.subscribers import SubscriberNames
from ussd_server.services.runtime import Runtime
from ussd_server.services.sms.outbox import queue_sms
from ussd_server.services.subscribers.pins import PinTry, SubscriberPins
from ussd_server.services.transactions.messages import (
    MAIN_ACCOUNT,
    REFERENCE,
    CreateTransaction,
    PayingMenu,
    TransactionType,
)
from ussd_server.services.transactions.transactions import TransactionService
from ussd_server.services.ussd.lookup import OUTCOME_WORDS
from ussd_server.services.ussd.sessions import StepInput
from ussd_server.status import Code, ServiceError

log = Logger(__name__)

CALL_SECONDS = 2.5
STEP_SECONDS = 5.5
_SECONDS_AFTER_A_WAIT = 1.0
_LOOKUPS = 20
# How many requests of a process may wait for clients' servers; it has some thousand connections of callers.
_WAITING_PERMITS = 400
# After these errors the payment may have been created.
_UNCERTAIN = (Code.INTERNAL_ERROR, Code.SERVICE_UNAVAILABLE, Code.IDEMPOTENCY_KEY_REUSED)


@dataclass(slots=True)
class ActionContext:
    """What actions run for: the call that brought a step, whose rights bound them, the step, and its session.

    What they do is noted in the effects of the step. `ends_at`, in seconds of the monotonic clock, is the deadline of
    all actions of the step, because gateways drop slow steps.
    """

    context: RequestContext
    step: StepInput
    row: UssdSession
    ends_at: float = field(default_factory=lambda: time.monotonic() + STEP_SECONDS)

    @property
    def client_id(self) -> str:
        return self.context.client_id

    @property
    def turn(self) -> int:
        return len(self.row.turns)

    def seconds_left(self) -> float:
        """Return the seconds that the next outgoing request may take; 0 when no time is left."""
        return max(0.0, min(CALL_SECONDS, self.ends_at - time.monotonic()))


class Actions:
    def __init__(
        self,
        runtime: Runtime,
        transactions: TransactionService,
        balances: BalanceService,
        names: SubscriberNames,
        pins: SubscriberPins,
    ) -> None:
        self._clock, self._keyring, self._outbox = runtime.clock, runtime.keyring, runtime.mail_outbox
        # At most a quarter of all for one client.
        self._bulkhead = Bulkhead(_WAITING_PERMITS, _WAITING_PERMITS // 4)
        # As many as there are connections to a provider; one client may use a quarter of them.
        self._lookups = Bulkhead(_LOOKUPS, _LOOKUPS // 4)
        self._sends_messages = runtime.sms_sender is not None
        self._transactions = transactions
        self._balances = balances
        self._names = names
        self._pins = pins
        self._client_server = ClientServer(Transport(runtime.guard, max_connections=_WAITING_PERMITS))

    def run(self, action: actions.MenuAction, action_context: ActionContext) -> actions.ActionOutcome:
        """Run an action and return its outcome, also when a provider or a client's server fails."""
        needs = _scope_for(action)
        if needs is not None and not action_context.context.may(needs):
            is_pin = isinstance(action, actions.PinAction)
            return actions.PinChecked(actions.PinVerdict.LOCKED) if is_pin else actions.Failed()
        match action:
            case actions.PayAction():
                return self._pay(action, action_context)
            case actions.WaitAction(seconds=seconds):
                return self._wait(seconds, action_context)
            case actions.BalanceAction(account=account):
                request = None if account == MAIN_ACCOUNT else account
                return actions.BalanceFound(self._balances.get(request, action_context.context).available_cents)
            case actions.LookupNameAction(phone_number=phone_number):
                with self._lookups.permit(action_context.client_id) as has_permit:
                    return self._look_up(phone_number, action_context) if has_permit else _refused(action_context)
            case actions.PinAction():
                row, step = action_context.row, f"{action_context.row.id}/{action_context.turn}"
                return self._pins.answer(action, PinTry(action_context.client_id, row.phone_number, step))
            case actions.SmsAction():
                return self._send_sms(action, action_context)
            case actions.HttpAction() | actions.HandoverAction():
                with self._bulkhead.permit(action_context.client_id) as has_permit:
                    try:
                        return self._ask_client(action, action_context) if has_permit else _refused(action_context)
                    except NoAnswerError as none:
                        return actions.Failed(none.timed_out)

    def _pay(self, action: actions.PayAction, action_context: ActionContext) -> actions.ActionOutcome:
        """Create a payment with the reference of its confirmation, so that one confirmation never pays twice."""
        row, effects = action_context.row, action_context.step.effects
        request = CreateTransaction(
            type=TransactionType(action.kind),
            phone_number=action.phone_number,
            to_phone_number=action.to_phone_number,
            amount_cents=action.amount_cents,
            account=action.account,
            description=action.description,
            metadata=None if action.metadata is None else dict(action.metadata),
            reference=payment_reference(row.id, action.confirmation),
            session_id=row.id,
            confirmation=action.confirmation,
            menu_step=(*_conversation(row), action.confirmation.rpartition("#")[0]),
            menu=_paying_menu(row),
        )
        had_paid, effects.may_have_paid, effects.is_unsure = effects.may_have_paid, True, True
        try:
            created = self._transactions.create(request, action_context.context)
        except ServiceError as error:
            if error.code in _UNCERTAIN:
                return actions.Failed()
            effects.may_have_paid, effects.is_unsure = had_paid, False
            lacks_right = error.code is Code.INSUFFICIENT_SCOPE
            if lacks_right and request.type != TransactionType.COLLECTION and action_context.context.may(SEND):
                self._report_revoked(action_context)
            return actions.Paid(accepted=False)
        effects.is_unsure = False
        effects.transaction_id = created.transaction.transaction_id
        return actions.Paid(accepted=True)

    def _wait(self, seconds: int, action_context: ActionContext) -> actions.ActionOutcome:
        """Wait for the outcome of the session's last payment; the actions after it have the rest of the step."""
        effects, waits_until = action_context.step.effects, action_context.step.waits_until
        transaction_id = effects.transaction_id or action_context.row.transaction_id
        if transaction_id is None:
            return actions.Failed()
        allowed = max(0.0, min(seconds, waits_until - time.monotonic()))
        status = self._transactions.outcome(transaction_id, action_context.client_id, allowed)
        action_context.ends_at = max(action_context.ends_at, time.monotonic() + _SECONDS_AFTER_A_WAIT)
        if status not in OUTCOME_WORDS:
            return actions.PaymentSeen("waiting")
        effects.told_id = transaction_id
        return actions.PaymentSeen(OUTCOME_WORDS[status])

    def _report_revoked(self, action_context: ActionContext) -> None:
        """Write to the owners that this version of the menu sends no money any more, once."""
        row, client_id = action_context.row, action_context.client_id
        log.warning("a menu sent no money, because its publisher was revoked", client_id=client_id)
        if not self._outbox.is_on:
            return
        name = Menu.get_by_id(row.menu_id).name
        about, kind = {"menu": name, "page": f"/console/menus/{name}"}, MailKind.MENU_SENDS_NO_MONEY
        occasion = f"{kind}/{row.menu_id}/{row.menu_version}"
        with unit_of_work():
            self._outbox.notify_people(kind, client_id, about, self._clock.now(), occasion=occasion)

    def _send_sms(self, action: actions.SmsAction, action_context: ActionContext) -> actions.ActionOutcome:
        """Queue a message under the name of its step, so that a repeated step sends it once."""
        client_id = action_context.client_id
        if self._sends_messages:
            reference = f"ussd/{action_context.row.id}/{action.node}/{action_context.turn}"
            queue_sms(client_id, action.phone_number, action.text, reference, self._clock.now())
        else:
            log.warning("a menu's message was left out: this service sends none", client_id=client_id)
        return actions.SmsQueued()

    def _look_up(self, phone_number: str, action_context: ActionContext) -> actions.ActionOutcome:
        seconds = action_context.seconds_left()
        if not seconds:
            return actions.Failed(timed_out=True)
        name = self._names.read(phone_number, seconds)
        return actions.Failed() if name is None else actions.NameFound(name)

    def _ask_client(
        self, action: actions.HttpAction | actions.HandoverAction, action_context: ActionContext
    ) -> actions.ActionOutcome:
        row, seconds = action_context.row, action_context.seconds_left()
        signature = Signature(
            # The same id for each repetition of a step, so that the client's server recognises it.
            f"{row.id}-{action.node}-{action_context.turn}",
            self._clock.now(),
            call_secrets(self._keyring, action_context.client_id),
        )
        if isinstance(action, actions.HttpAction):
            seconds = min(seconds, action.timeout_ms / 1000)
            headers = dict(action.headers)
            return actions.Answered(
                self._client_server.fetch(action.method, action.url, headers, action.body, signature, seconds)
            )
        step = Handover(
            session_id=row.id,
            phone_number=row.phone_number,
            service_code=row.service_code,
            network=row.network,
            language=row.language,
            entry=action.entry,
            text=action.text,
        )
        return actions.HandedOver(*self._client_server.hand_over(action.url, action.protocol, step, signature, seconds))


def _scope_for(action: actions.MenuAction) -> str | None:
    """The scope that a key needs to have an action run in its conversation, as for the same act by the API.

    None where none is needed, and for payments, which the gate refuses. A PIN guards money, so that choosing one needs
    the right to send.
    """
    match action:
        case actions.BalanceAction():
            return "balance:read"
        case actions.LookupNameAction():
            return "transactions:read"
        case actions.SmsAction():
            return "messages:write"
        case actions.PinAction(mode="choose" | "change"):
            return SEND
    return None


def _refused(action_context: ActionContext) -> actions.ActionOutcome:
    log.warning("a menu's request was not sent: too many of its client are waiting", client_id=action_context.client_id)
    return actions.Failed()


def _paying_menu(row: UssdSession) -> PayingMenu:
    document = document_of(row)
    return PayingMenu(row.menu_id, row.menu_version, document.id, document.title)


def _conversation(row: UssdSession) -> tuple[str, ...]:
    """The names of a conversation that outlast its row: a gateway repeats them after our database lost it."""
    if row.channel_id is None or row.provider_session_id is None:
        return (row.id,)
    return (row.channel_id, row.provider_session_id, row.phone_number)


def payment_reference(session_id: str, confirmation: str) -> str:
    """Return the reference of a payment by USSD: `ussd-{session}-{confirmation}`, at most 64 characters."""
    reference = f"ussd-{session_id}-{confirmation}"
    if len(reference) <= REFERENCE.longest:
        return reference
    return f"ussd-{session_id}-{hashlib.sha256(confirmation.encode()).hexdigest()[:22]}"
