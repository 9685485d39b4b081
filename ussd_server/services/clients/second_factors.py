"""Second factors of a client's people: added, given again, removed and required."""

from __future__ import annotations

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.clients import Client, Login, User, UserFactor, UserRecoveryCode
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients.messages import NewFactor, OwnFactor
from ussd_server.services.clients.people_rows import end_logins_of_user
from ussd_server.services.runtime import Runtime
from ussd_server.services.same_person import require_owner
from ussd_server.services.sign_in import FactorStore, Guesses, address_of, new_factor, step_of
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id

_REFUSAL = "Your role does not allow this."
_NONE_YET = "Add a second factor first."
_REQUIRED = "Your client requires a second factor of every person. Add another one in its place instead."


class SecondFactorService:
    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._limiter, self._outbox = runtime.clock, runtime.limiter, runtime.mail_outbox
        self._factors = FactorStore(UserFactor, UserRecoveryCode, runtime.vault)

    def show(self, context: RequestContext) -> OwnFactor:
        user, factor = _caller(context), _factor_of(context.caller.user_id)
        return OwnFactor(
            since=factor.created_at if factor else None,
            recovery_codes_left=self._factors.recovery_codes_left(user.id),
            is_required=self.is_required(context),
        )

    def is_required(self, context: RequestContext) -> bool:
        """Whether the caller's client requires a second factor of all its people."""
        return bool(Client.get_by_id(context.client_id).requires_second_factor)

    def holders(self, context: RequestContext) -> frozenset[str]:
        context.require("team:read", _REFUSAL)
        rows = UserFactor.select(UserFactor.id).join(User, on=(User.id == UserFactor.id))
        return frozenset(row.id for row in rows.where(User.client_id == context.client_id))

    def prepare(self, context: RequestContext, secret: str = "") -> NewFactor:
        """A TOTP secret for the person who calls, or the one that was made before. Nothing is stored."""
        secret = secret or new_factor()
        return NewFactor(secret, address_of(secret, _caller(context).email))

    def add(self, secret: str, code: str, context: RequestContext) -> tuple[str, ...]:
        """Make `secret` the caller's second factor, in place of an earlier one; returns the new recovery codes.

        `code` proves that the authenticator has the secret; INVALID_REQUEST for another one. Every other login of the
        person ends.
        """
        now = self._clock.now()
        step = step_of(secret, code, now) if secret else None
        if step is None:
            raise ServiceError(Code.INVALID_REQUEST, "This is not the present code of the authenticator. Try the next.")
        with unit_of_work():
            user = _caller(context, is_locked=True)
            if UserFactor.delete().where(UserFactor.id == user.id).execute():
                self._outbox.report_removed_factor(user, user.email, now)
            UserFactor.create(
                id=user.id, factor_sealed=self._factors.encrypt(secret, user.id), last_step=step, created_at=now
            )
            codes = self._factors.replace_recovery_codes(user.id)
            Login.update(code_accepted_at=now).where(Login.id == context.caller.login_id).execute()
            end_logins_of_user(user.id, "factor_added", now, but=context.caller.login_id)
            write_audit_event("user.factor_added", context, now, client_id=user.client_id, object_id=user.id)
        return codes

    def prove(self, code: str, context: RequestContext) -> None:
        """Check a code of the caller, and note with this login that it was given.

        INVALID_CREDENTIALS (401) for a wrong or used one, RATE_LIMIT_EXCEEDED (429) after too many wrong ones.
        """
        now, user, factor = self._clock.now(), _caller(context), _factor_of(context.caller.user_id)
        if factor is None:
            raise ServiceError(Code.INVALID_REQUEST, _NONE_YET)
        guesses = Guesses(self._limiter, context.address, user.email)
        guesses.refuse_when_used_up()
        is_right = self._factors.check(factor, code, guesses, now)
        if not (is_right and self._accept(user, code, context)):
            guesses.count_failure()
            write_audit_event("login.code_refused", context, now, client_id=user.client_id, user_id=user.id)
            raise ServiceError(Code.INVALID_CREDENTIALS, "Wrong code, or it was used already. Wait for the next one.")
        guesses.forgive()

    def replace_recovery_codes(self, context: RequestContext) -> tuple[str, ...]:
        """New recovery codes of the caller; the old ones end. INVALID_REQUEST without a second factor."""
        now = self._clock.now()
        with unit_of_work():
            user = _caller(context, is_locked=True)
            if _factor_of(user.id) is None:
                raise ServiceError(Code.INVALID_REQUEST, _NONE_YET)
            codes = self._factors.replace_recovery_codes(user.id)
            write_audit_event("user.recovery_codes_replaced", context, now, client_id=user.client_id, object_id=user.id)
        return codes

    def remove_own(self, context: RequestContext) -> None:
        """Remove the caller's second factor. INVALID_REQUEST where the client requires one."""
        with unit_of_work():
            user = _caller(context, is_locked=True)
            if self.is_required(context):
                raise ServiceError(Code.INVALID_REQUEST, _REQUIRED)
            self._remove(user, context)

    def remove(self, user_id: str, context: RequestContext) -> None:
        """Remove the second factor of a colleague, who lost it; all their logins end. For owners.

        NOT_FOUND for a person who is not the client's; INVALID_REQUEST for the caller, and without a second factor.
        """
        context.require("team:write", _REFUSAL)
        with unit_of_work():
            require_owner(context)
            user = _locked(User.id == user_id, User.client_id == context.client_id) if is_id(user_id) else None
            if user is None:
                raise ServiceError(Code.NOT_FOUND, "Person not found")
            if user.id == context.caller.user_id:
                raise ServiceError(Code.INVALID_REQUEST, "You remove your own second factor on your security page.")
            self._remove(user, context, ends_logins=True)

    def remove_by_operator(self, email: str, context: RequestContext) -> None:
        """Remove the second factor of any client's person; all their logins end. NOT_FOUND for an unknown person."""
        context.require_operator()
        with unit_of_work():
            user = _locked(User.email == email.lower())
            if user is None:
                raise ServiceError(Code.NOT_FOUND, "User not found")
            self._remove(user, context, ends_logins=True)

    def require(self, is_required: bool, context: RequestContext) -> None:
        """Require a second factor of all people of the caller's client, or stop doing so. For owners who have one.

        People without one are refused by the API from now on, and in the console until they have added one.
        """
        context.require("team:write", _REFUSAL)
        now = self._clock.now()
        with unit_of_work():
            require_owner(context)
            if is_required and _factor_of(context.caller.user_id) is None:
                raise ServiceError(Code.INVALID_REQUEST, _NONE_YET)
            Client.update(requires_second_factor=is_required).where(Client.id == context.client_id).execute()
            action = "client.factor_required" if is_required else "client.factor_optional"
            write_audit_event(action, context, now, client_id=context.client_id, object_id=context.client_id)

    def _accept(self, user: User, code: str, context: RequestContext) -> bool:
        """Use up the code and note the time with the login; False when another request used the code first."""
        now = self._clock.now()
        with unit_of_work():
            _locked(User.id == user.id)
            factor = _factor_of(user.id)
            if factor is None or not self._factors.accept(factor, code, now):
                return False
            Login.update(code_accepted_at=now).where(Login.id == context.caller.login_id).execute()
            write_audit_event("login.code_accepted", context, now, client_id=user.client_id, user_id=user.id)
        return True

    def _remove(self, user: User, context: RequestContext, *, ends_logins: bool = False) -> None:
        """Remove a person's second factor, and mail it to them. The audit event `user.factor_removed` reports it."""
        now = self._clock.now()
        if not UserFactor.delete().where(UserFactor.id == user.id).execute():
            raise ServiceError(Code.INVALID_REQUEST, "The person has no second factor.")
        self._factors.remove_recovery_codes(user.id)
        if ends_logins:
            end_logins_of_user(user.id, "factor_removed", now)
        write_audit_event("user.factor_removed", context, now, client_id=user.client_id, object_id=user.id)
        remover = User.get_or_none(User.id == context.caller.user_id)
        self._outbox.report_removed_factor(user, remover.email if remover else "a command at the server", now)


def _factor_of(user_id: str | None) -> UserFactor | None:
    factor: UserFactor | None = UserFactor.get_or_none(UserFactor.id == user_id)
    return factor


def _caller(context: RequestContext, *, is_locked: bool = False) -> User:
    """The person who calls. `is_locked` locks their row, and checks that no other request has ended the login since.

    INVALID_CREDENTIALS (401) for a login that ended.
    """
    if context.caller.login_id is None:
        raise ServiceError(Code.INSUFFICIENT_SCOPE, _REFUSAL)
    who = (User.id == context.caller.user_id, User.client_id == context.client_id)
    user: User | None = _locked(*who) if is_locked else User.get_or_none(*who)
    if user is None:
        raise ServiceError(Code.INSUFFICIENT_SCOPE, _REFUSAL)
    if is_locked and Login.get_by_id(context.caller.login_id).ended_at is not None:
        raise ServiceError(Code.INVALID_CREDENTIALS, "Please sign in again")
    return user


def _locked(*who: object) -> User | None:
    user: User | None = for_update(User.select().where(*who)).first()
    return user
