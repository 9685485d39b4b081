"""Operators' accounts, which commands at the server keep, and their logins, from the operators' own networks only."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Any

from peewee import IntegrityError, fn

from ussd_server.context import Caller, CallerKind, RequestContext, SignedInPerson
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.limits.networks import is_within
from ussd_server.models.operators import Operator, OperatorLogin, RecoveryCode
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients.messages import LogIn
from ussd_server.services.operators.messages import CreateOperator, OperatorView, SecondFactor
from ussd_server.services.pages import require_row
from ussd_server.services.runtime import Runtime
from ussd_server.services.sign_in import (
    FactorStore,
    Guesses,
    address_of,
    checked_email,
    end_logins,
    hash_checked_password,
    new_factor,
    sign_in,
    still_the_same,
)
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id
from ussd_server.wire import view_of_row

LOGIN_SECONDS = 8 * 3600


class OperatorService:
    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._outbox = runtime.clock, runtime.mail_outbox
        self._factors = FactorStore(Operator, RecoveryCode, runtime.vault)
        self._is_sandbox = runtime.settings.is_sandbox

    def create(self, request: CreateOperator, context: RequestContext) -> SecondFactor:
        """Create an operator with a second factor. INVALID_REQUEST for an invalid e-mail address or password."""
        context.require_operator()
        email = checked_email(request.email)
        password_hash = hash_checked_password(request.password)
        now, secret = self._clock.now(), new_factor()
        operator_id = new_id(now)
        try:
            with unit_of_work():
                row = Operator.create(
                    id=operator_id,
                    email=email,
                    password_hash=password_hash,
                    is_active=True,
                    last_step=0,
                    factor_sealed=self._factors.encrypt(secret, operator_id),
                    created_at=now,
                    updated_at=now,
                )
                codes = self._factors.replace_recovery_codes(row.id)
                write_audit_event("operator.created", context, now, client_id=None, object_id=row.id)
        except IntegrityError:
            raise ServiceError(Code.INVALID_REQUEST, "email: Belongs to an operator already.") from None
        return SecondFactor(_view(row, len(codes)), secret, address_of(secret, email), codes)

    def list(self, context: RequestContext) -> tuple[OperatorView, ...]:
        """Every operator, oldest first."""
        context.require_operator()
        counts: Any = (
            RecoveryCode.select(RecoveryCode.owner_id, fn.COUNT(1))
            .where(RecoveryCode.used_at.is_null())
            .group_by(RecoveryCode.owner_id)
            .tuples()
        )
        left: dict[str, int] = dict(iter(counts))
        return tuple(_view(row, left.get(row.id, 0)) for row in Operator.select().order_by(Operator.id))

    def set_active(self, email: str, is_active: bool, context: RequestContext) -> OperatorView:
        """Enable an operator, or disable them, which ends all their logins. NOT_FOUND for an unknown one."""
        context.require_operator()
        now = self._clock.now()
        with unit_of_work():
            row = _find(email)
            row.change(is_active=is_active, updated_at=now)
            if not is_active:
                end_logins(OperatorLogin, OperatorLogin.operator_id == row.id, "operator_disabled", now)
            action = "operator.enabled" if is_active else "operator.disabled"
            write_audit_event(action, context, now, client_id=None, object_id=row.id)
        return _view(row, self._factors.recovery_codes_left(row.id))

    def change_password(self, email: str, password: str, context: RequestContext) -> OperatorView:
        """Give an operator another password, which ends all their logins.

        NOT_FOUND for an unknown one, INVALID_REQUEST for a password of fewer than 12 or more than 256 characters.
        """
        context.require_operator()
        password_hash, now = hash_checked_password(password), self._clock.now()
        with unit_of_work():
            row = _find(email)
            row.change(password_hash=password_hash, updated_at=now)
            end_logins(OperatorLogin, OperatorLogin.operator_id == row.id, "password_changed", now)
            write_audit_event("operator.password_changed", context, now, client_id=None, object_id=row.id)
        return _view(row, self._factors.recovery_codes_left(row.id))

    def present_code(self, email: str, context: RequestContext) -> str:
        """The present code of an operator's second factor, in the sandbox, where nothing is worth guarding.

        INVALID_REQUEST anywhere else, NOT_FOUND for an unknown one.
        """
        context.require_operator()
        if not self._is_sandbox:
            raise ServiceError(Code.INVALID_REQUEST, "Codes are shown in the sandbox only; use the authenticator")
        return self._factors.code_at(_find(email), self._clock.now())

    def reset_factor(self, email: str, context: RequestContext) -> SecondFactor:
        """Give an operator a new second factor, which ends all their logins. NOT_FOUND for an unknown one."""
        context.require_operator()
        now, secret = self._clock.now(), new_factor()
        with unit_of_work():
            row = _find(email)
            row.change(factor_sealed=self._factors.encrypt(secret, row.id), updated_at=now)
            codes = self._factors.replace_recovery_codes(row.id)
            end_logins(OperatorLogin, OperatorLogin.operator_id == row.id, "factor_reset", now)
            write_audit_event("operator.factor_reset", context, now, client_id=None, object_id=row.id)
            self._outbox.report_removed_factor(row, "a command at the server", now)
        return SecondFactor(_view(row, len(codes)), secret, address_of(secret, row.email), codes)


class OperatorLoginService:
    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._limiter = runtime.clock, runtime.limiter
        self._networks = [ipaddress.ip_network(network) for network in runtime.settings.operator_addresses]
        self._factors = FactorStore(Operator, RecoveryCode, runtime.vault)

    def is_admitted(self, address: str) -> bool:
        """Whether operators may come from this address (`USSD_OPERATOR_ADDRESSES`)."""
        return is_within(address, self._networks)

    def begin(self, request: LogIn, context: RequestContext) -> str:
        """Sign an operator in. Returns the id of the login, which ends by itself after LOGIN_SECONDS.

        INVALID_CREDENTIALS (401) in the same words for every cause; a code is accepted once. RATE_LIMIT_EXCEEDED (429)
        after too many failures from this address or for this e-mail address from it, and for TOTP codes after too many
        wrong ones. NOT_FOUND from an address that is not the operators'.
        """
        self._require_admitted(context)
        guesses = Guesses(self._limiter, context.address, f"operator {request.email.lower()}")
        return sign_in(
            Operator,
            request.email,
            request.password,
            guesses,
            lambda operator: self._open(operator, request.code or "", guesses, context),
            lambda operator: self._note_failure(operator, context),
        )[1]

    def authenticate(self, login_id: str, context: RequestContext) -> SignedInPerson:
        """Return the operator of a login. INVALID_CREDENTIALS (401) for a login that ended, NOT_FOUND as `begin`."""
        self._require_admitted(context)
        operator = (
            Operator.select(Operator.id, Operator.email, Operator.language)
            .join(OperatorLogin, on=(OperatorLogin.operator_id == Operator.id))
            .where(
                OperatorLogin.id == login_id,
                OperatorLogin.ended_at.is_null(),
                OperatorLogin.expires_at > self._clock.now(),
                Operator.is_active,
            )
            .first()
        )
        if operator is None:
            raise ServiceError(Code.INVALID_CREDENTIALS, "Please sign in again")
        caller = Caller(
            CallerKind.OPERATOR, grants=None, user_id=operator.id, login_id=login_id, operator=operator.email
        )
        return SignedInPerson(caller, operator.email, "operator", "Operators", language=operator.language)

    def end(self, everywhere: bool, context: RequestContext) -> None:
        context.require_operator()
        now = self._clock.now()
        with unit_of_work():
            of_operator = OperatorLogin.operator_id == context.caller.user_id
            this_one = OperatorLogin.id == context.caller.login_id
            end_logins(OperatorLogin, of_operator if everywhere else this_one, "logged_out", now)
            write_audit_event("operator.signed_out", context, now, client_id=None, object_id=context.caller.login_id)

    def _require_admitted(self, context: RequestContext) -> None:
        if not self.is_admitted(context.address):
            raise ServiceError(Code.NOT_FOUND, "There is no page at this address.")

    def _note_failure(self, operator: Any, context: RequestContext) -> None:
        name = operator and operator.email
        write_audit_event("operator.sign_in_failed", context, self._clock.now(), client_id=None, operator=name)

    def _open(self, operator: Operator, code: str, guesses: Guesses, context: RequestContext) -> str | None:
        """Use up the code and write the login; None when either is refused."""
        now = self._clock.now()
        if not self._factors.check(operator, code, guesses, now):
            return None
        with unit_of_work():
            unchanged = still_the_same(operator)
            if unchanged is None or not self._factors.accept(unchanged, code, now):
                return None
            login_id = new_id(now)
            OperatorLogin.create(
                id=login_id,
                operator_id=operator.id,
                address=context.address,
                created_at=now,
                expires_at=now + timedelta(seconds=LOGIN_SECONDS),
            )
            write_audit_event(
                "operator.signed_in", context, now, client_id=None, object_id=login_id, operator=operator.email
            )
        return login_id


def _find(email: str) -> Operator:
    row: Operator | None = for_update(Operator.select().where(Operator.email == email.lower())).first()
    return require_row(row, "Operator")


def _view(row: Operator, codes_left: int) -> OperatorView:
    return view_of_row(OperatorView, row, operator_id=row.id, recovery_codes_left=codes_left)
