"""Operators' logins: a password and a second factor, from the operators' own networks only."""

from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta

from ussd_server.context import Caller, CallerKind, RequestContext, SignedInPerson
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.limits.networks import network_of
from ussd_server.models.operators import Operator, OperatorLogin, RecoveryCode
from ussd_server.runtime import Runtime, Service
from ussd_server.security import passwords
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients.messages import LogOut
from ussd_server.services.operators.messages import OperatorSignIn
from ussd_server.services.second_factors import FactorStore, Guesses
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id

LOGIN_SECONDS = 8 * 3600


class OperatorLoginService(Service):
    """Begins, checks and ends the logins of operators."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._networks = [ipaddress.ip_network(network) for network in runtime.settings.operator_addresses]
        self._factors = FactorStore(Operator, RecoveryCode, runtime.vault)

    def is_admitted(self, address: str) -> bool:
        """Whether operators may come from this address (`USSD_OPERATOR_ADDRESSES`)."""
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self._networks)

    def begin(self, request: OperatorSignIn, context: RequestContext) -> str:
        """Sign an operator in. Returns the id of the login, which ends by itself after LOGIN_SECONDS.

        INVALID_CREDENTIALS (401) in the same words for every cause; a code is accepted once. RATE_LIMIT_EXCEEDED (429)
        after too many failures from this address or for this e-mail address from it, and for TOTP codes after too many
        wrong ones. NOT_FOUND from an address that is not the operators'.
        """
        self._require_admitted(context)
        email = request.email.lower()
        guesses = Guesses(self._limiter, network_of(context.address), f"operator {email}")
        guesses.refuse_when_used_up()
        operator = Operator.select().where(Operator.email == email).first()
        is_right = passwords.matches(request.password, operator and operator.password_hash)
        if is_right:
            guesses.refuse_when_used_up()
            is_right = self._factors.check(operator, request.code, guesses, self._clock.now())
        login_id = self._open(operator, request.code, context) if is_right else None
        if login_id is None:
            guesses.count_failure()
            write_audit_event(
                "operator.sign_in_failed", context, self._clock.now(), client_id=None, operator=operator and email
            )
            raise ServiceError(Code.INVALID_CREDENTIALS, "Invalid credentials")
        guesses.forgive()
        return login_id

    def authenticate(self, login_id: str, context: RequestContext) -> SignedInPerson:
        """Return the operator of a login. INVALID_CREDENTIALS (401) for a login that ended, NOT_FOUND as `begin`."""
        self._require_admitted(context)
        found = (
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
        if found is None:
            raise ServiceError(Code.INVALID_CREDENTIALS, "Please sign in again")
        caller = Caller(CallerKind.OPERATOR, grants=None, user_id=found.id, login_id=login_id, operator=found.email)
        return SignedInPerson(caller, found.email, "operator", "Operators", language=found.language)

    def end(self, request: LogOut, context: RequestContext) -> None:
        """End this login, or every login of the operator."""
        context.require_operator()
        now = self._clock.now()
        with unit_of_work():
            if request.everywhere:
                assert context.caller.user_id is not None
                end_logins_of_operator(context.caller.user_id, "logged_out", now)
            else:
                OperatorLogin.update(ended_at=now, end_reason="logged_out").where(
                    OperatorLogin.id == context.caller.login_id, OperatorLogin.ended_at.is_null()
                ).execute()
            write_audit_event("operator.signed_out", context, now, client_id=None, object_id=context.caller.login_id)

    def _require_admitted(self, context: RequestContext) -> None:
        if not self.is_admitted(context.address):
            raise ServiceError(Code.NOT_FOUND, "There is no page at this address.")

    def _open(self, operator: Operator, code: str, context: RequestContext) -> str | None:
        """Use up the code and write the login; None when either is refused."""
        now = self._clock.now()
        with unit_of_work():
            unchanged = for_update(
                Operator.select().where(
                    Operator.id == operator.id, Operator.password_hash == operator.password_hash, Operator.is_active
                )
            ).first()
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


def end_logins_of_operator(operator_id: str, reason: str, now: datetime) -> None:
    """End every login of an operator at once."""
    OperatorLogin.update(ended_at=now, end_reason=reason).where(
        OperatorLogin.operator_id == operator_id, OperatorLogin.ended_at.is_null()
    ).execute()
