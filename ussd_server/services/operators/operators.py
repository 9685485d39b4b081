"""Operators' accounts: created, listed and disabled on the server's command line."""

from __future__ import annotations

from typing import Any

from peewee import IntegrityError, fn

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.operators import Operator, RecoveryCode
from ussd_server.runtime import Runtime
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients.clients import checked_email, hash_checked_password
from ussd_server.services.mail.outbox import mail_factor_removed
from ussd_server.services.operators.logins import end_logins_of_operator
from ussd_server.services.operators.messages import CreateOperator, OperatorView, SecondFactor
from ussd_server.services.second_factors import FactorStore, address_of, new_factor
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id
from ussd_server.wire import view_of_row


class OperatorService:
    """Keeps the accounts of operators."""

    def __init__(self, runtime: Runtime) -> None:
        self._factors = FactorStore(Operator, RecoveryCode, runtime.vault)
        self._clock = runtime.clock

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
            row.is_active, row.updated_at = is_active, now
            row.save(only=[Operator.is_active, Operator.updated_at])
            if not is_active:
                end_logins_of_operator(row.id, "operator_disabled", now)
            action = "operator.enabled" if is_active else "operator.disabled"
            write_audit_event(action, context, now, client_id=None, object_id=row.id)
        return _view(row, self._factors.recovery_codes_left(row.id))

    def reset_factor(self, email: str, context: RequestContext) -> SecondFactor:
        """Give an operator a new second factor, which ends all their logins. NOT_FOUND for an unknown one."""
        context.require_operator()
        now, secret = self._clock.now(), new_factor()
        with unit_of_work():
            row = _find(email)
            row.factor_sealed, row.updated_at = self._factors.encrypt(secret, row.id), now
            row.save(only=[Operator.factor_sealed, Operator.updated_at])
            codes = self._factors.replace_recovery_codes(row.id)
            end_logins_of_operator(row.id, "factor_reset", now)
            write_audit_event("operator.factor_reset", context, now, client_id=None, object_id=row.id)
            mail_factor_removed(row, "a command at the server", now)
        return SecondFactor(_view(row, len(codes)), secret, address_of(secret, row.email), codes)


def _find(email: str) -> Operator:
    row: Operator | None = for_update(Operator.select().where(Operator.email == email.lower())).first()
    if row is None:
        raise ServiceError(Code.NOT_FOUND, "Operator not found")
    return row


def _view(row: Operator, codes_left: int) -> OperatorView:
    return view_of_row(OperatorView, row, operator_id=row.id, recovery_codes_left=codes_left)
