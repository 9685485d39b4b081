"""PINs of subscribers: chosen, checked, locked after wrong tries, and reset."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ussd_server.context import SEND, RequestContext
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.logs import Logger
from ussd_server.menus.engine.actions import ActionOutcome, Failed, PinAction, PinChecked, PinVerdict
from ussd_server.models.ussd import SubscriberPin
from ussd_server.security import passwords
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.runtime import Runtime
from ussd_server.services.subscribers.messages import PinLockedView, PinReset, PinState, ResetPin
from ussd_server.services.webhooks.events import write_event
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id, phone_number
from ussd_server.wire import writer

log = Logger(__name__)

PIN_LOCKED = "subscriber.pin_locked"
FIRST_LOCK, LATER_LOCK = timedelta(hours=1), timedelta(days=1)
_REMEMBERED = timedelta(days=30)
# A hash takes some 30 milliseconds of a processor, and two run at a time: the last of so many waits for 2 seconds.
_PERMITS = 128
_WRITE = writer(PinLockedView)


@dataclass(frozen=True, slots=True)
class PinTry:
    """A PIN that is typed in one step of a conversation. `step` names the step."""

    client_id: str
    phone_number: str
    step: str


class SubscriberPins:
    """Keeps PINs. Wrong tries count for the number and the client, over all conversations and gateways."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._vault = runtime.clock, runtime.vault
        self._permits = Bulkhead(_PERMITS, _PERMITS // 2)

    def answer(self, action: PinAction, tried: PinTry) -> ActionOutcome:
        """Look at, check or keep a PIN. Failed when too many PINs of the process or the client wait for their hash."""
        if action.act == "look":
            return self._looked_at(action, tried)
        with self._permits.permit(tried.client_id) as has_permit:
            if not has_permit:
                log.warning("a PIN was not checked: too many are waiting", client_id=tried.client_id)
                return Failed()
            return self._check(action, tried) if action.act == "old" else self._keep(action, tried)

    def state(self, number: str, context: RequestContext) -> PinState:
        """Whether a number has a PIN with the calling client, and until when it is locked."""
        context.require("ussd:read")
        row = _find(context.client_id, number)
        if row is None:
            return PinState(has_pin=False, locked_until=None)
        is_locked = _is_locked(row, self._clock.now())
        return PinState(row.pin_sealed is not None, row.locked_until if is_locked else None)

    def reset(self, request: ResetPin, context: RequestContext) -> PinReset:
        """Remove a PIN with its lock; the subscriber may choose another. INVALID_PHONE_NUMBER for what is none.

        It needs the right to send money, because a PIN guards money.
        """
        context.require(SEND)
        number = subscriber_number(request.phone_number)
        now = self._clock.now()
        with unit_of_work():
            row = _locked_row(context.client_id, number)
            if row is None or row.pin_sealed is None:
                return PinReset(number, had_pin=False)
            _change(row, pin_sealed=None, wrong_tries=0, locked_until=None, last_step=None, changed_at=now)
            write_audit_event(
                "subscriber.pin_reset", context, now, client_id=context.client_id, phone_number=number, object_id=row.id
            )
        return PinReset(number, had_pin=True)

    def _looked_at(self, action: PinAction, tried: PinTry) -> PinChecked:
        row = _find(tried.client_id, tried.phone_number)
        if row is None or row.pin_sealed is None:
            return PinChecked(PinVerdict.OPEN if action.mode == "choose" else PinVerdict.MISSING)
        is_refused = action.mode == "choose" or _is_locked(row, self._clock.now())
        return PinChecked(PinVerdict.LOCKED if is_refused else PinVerdict.OPEN)

    def _check(self, action: PinAction, tried: PinTry) -> PinChecked:
        """Check a PIN. Its try is counted before its hash is computed, so that simultaneous ones are never too many."""
        step = self._step(action, tried)
        counted = self._count(action, tried, step)
        if isinstance(counted, PinChecked):
            return counted
        row, left = counted
        pin_hash = self._vault.decrypt(row.pin_sealed or b"", row.client_id, row.id)
        if passwords.is_pin(action.pin, pin_hash):
            _forgive(row, step)
            return PinChecked(PinVerdict.RIGHT)
        if left > 0:
            return PinChecked(PinVerdict.WRONG, left)
        self._report_lock(row, step)
        return PinChecked(PinVerdict.LOCKED)

    def _count(self, action: PinAction, tried: PinTry, step: str) -> tuple[SubscriberPin, int] | PinChecked:
        """Count a try as a wrong one, with the lock that follows from it; return the row before, and the tries left."""
        now = self._clock.now()
        with unit_of_work():
            row = _locked_row(tried.client_id, tried.phone_number)
            if row is None or row.pin_sealed is None:
                return PinChecked(PinVerdict.MISSING)
            is_locked = _is_locked(row, now)
            if row.last_step == step:
                return row, 0 if is_locked else action.tries - row.wrong_tries
            if is_locked:
                return PinChecked(PinVerdict.LOCKED)
            wrong_tries = 1 if row.locked_until is not None else row.wrong_tries + 1
            changes: dict[str, Any] = {"wrong_tries": wrong_tries, "last_step": step, "locked_until": None}
            if wrong_tries >= action.tries:
                is_later = row.locked_at is not None and now - row.locked_at < _REMEMBERED
                changes |= {"locked_at": now, "locked_until": now + (LATER_LOCK if is_later else FIRST_LOCK)}
            _change(row, **changes)
        return row, action.tries - wrong_tries

    def _report_lock(self, row: SubscriberPin, step: str) -> None:
        """Write the event of a lock, once."""
        with unit_of_work():
            locked = _locked_row(row.client_id, row.phone_number)
            if locked is None or locked.last_step != step or not locked.wrong_tries or locked.locked_until is None:
                return
            _change(locked, wrong_tries=0)
            view = PinLockedView(locked.phone_number, locked.locked_until)
            write_event(locked.client_id, PIN_LOCKED, locked.id, _WRITE(view), self._clock.now())

    def _keep(self, action: PinAction, tried: PinTry) -> PinChecked:
        """Store a new PIN. `choose` is refused for a number that has one, `change` for one that has none."""
        pin_hash, step, now = passwords.hash_pin(action.pin), self._step(action, tried), self._clock.now()
        with unit_of_work():
            if action.mode == "choose":
                _insert(tried, now)
            row = _locked_row(tried.client_id, tried.phone_number)
            has_pin = row is not None and row.pin_sealed is not None
            if row is None or (action.mode == "change" and not has_pin):
                return PinChecked(PinVerdict.MISSING)
            if has_pin and row.last_step == step:
                return PinChecked(PinVerdict.RIGHT)
            if (has_pin and action.mode == "choose") or _is_locked(row, now):
                return PinChecked(PinVerdict.LOCKED)
            sealed = self._vault.encrypt(pin_hash, row.client_id, row.id)
            _change(row, pin_sealed=sealed, wrong_tries=0, locked_until=None, last_step=step, changed_at=now)
        return PinChecked(PinVerdict.RIGHT)

    def _step(self, action: PinAction, tried: PinTry) -> str:
        """The HMAC that names a step and what was typed in it."""
        typed = (tried.client_id, tried.phone_number, tried.step, action.pin)
        return self._vault.keyed_digest("\0".join(("pin", *typed)).encode())


def has_pin(client_id: str, number: str) -> bool:
    row = _find(client_id, number)
    return row is not None and row.pin_sealed is not None


def subscriber_number(text: str) -> str:
    """A number as it is stored. INVALID_PHONE_NUMBER for what is none."""
    number = phone_number(text)
    if number is None:
        raise ServiceError(Code.INVALID_PHONE_NUMBER, "Invalid phone number")
    return number


def _of(client_id: str, number: str) -> Any:
    return SubscriberPin.select().where(SubscriberPin.client_id == client_id, SubscriberPin.phone_number == number)


def _find(client_id: str, number: str) -> SubscriberPin | None:
    row: SubscriberPin | None = _of(client_id, number).first()
    return row


def _locked_row(client_id: str, number: str) -> SubscriberPin | None:
    row: SubscriberPin | None = for_update(_of(client_id, number)).first()
    return row


def _insert(tried: PinTry, now: datetime) -> None:
    fresh = SubscriberPin.insert(
        id=new_id(now),
        client_id=tried.client_id,
        phone_number=tried.phone_number,
        wrong_tries=0,
        changed_at=now,
    )
    fresh.on_conflict_ignore().execute()


def _change(row: SubscriberPin, **changes: Any) -> None:
    SubscriberPin.update(changes).where(SubscriberPin.id == row.id).execute()


def _forgive(row: SubscriberPin, step: str) -> None:
    """Set the count to nothing after the right PIN, and take back the lock that its own try brought."""
    of_row = SubscriberPin.id == row.id
    mine = {"wrong_tries": 0, "locked_until": None}
    if row.last_step != step:
        mine["locked_at"] = row.locked_at
    if not SubscriberPin.update(mine).where(of_row, SubscriberPin.last_step == step).execute():
        SubscriberPin.update(wrong_tries=0).where(of_row, SubscriberPin.locked_until.is_null()).execute()


def _is_locked(row: SubscriberPin, now: datetime) -> bool:
    return row.locked_until is not None and row.locked_until > now
