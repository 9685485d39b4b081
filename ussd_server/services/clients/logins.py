"""Logins of clients' people: signing in, refreshing and signing out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.clients import Login, User, UserFactor, UserRecoveryCode, is_client_active
from ussd_server.security import passwords
from ussd_server.security.tokens import ACCESS_SECONDS, REFRESH_SECONDS, AccessClaims, RefreshClaims
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients.messages import ChangePassword, LogIn, LoginView, OpenLogin
from ussd_server.services.clients.people_rows import end_logins_of_user, lacks_required_factor, moved_on, open_logins
from ussd_server.services.roles import PERMISSIONS
from ussd_server.services.runtime import Runtime
from ussd_server.services.sign_in import (
    FactorStore,
    Guesses,
    end_logins,
    hash_checked_password,
    sign_in,
    still_the_same,
)
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, new_id

CONSOLE_SECONDS = 12 * 3600
_WRONG_PASSWORD = ServiceError(Code.INVALID_CREDENTIALS, "present_password: Your present password is another one.")


class LoginService:
    """Begins logins, continues them with single-use refresh tokens, and ends them."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._tokens, self._limiter = runtime.clock, runtime.tokens, runtime.limiter
        self._factors = FactorStore(UserFactor, UserRecoveryCode, runtime.vault)

    def begin(self, request: LogIn, context: RequestContext) -> LoginView:
        """Sign a person in.

        INVALID_CREDENTIALS (401) in the same words and after the same work for every cause. RATE_LIMIT_EXCEEDED (429)
        after too many failures from this address, for this e-mail address or altogether; other addresses are not held
        up. After the right password, a missing code of a person with a second factor is refused with "Second factor
        required"; so is a person without a second factor, where the client requires one.
        """
        login, role = self._admit(request, REFRESH_SECONDS, context)
        return self._view(login, role)

    def begin_for_console(self, request: LogIn, context: RequestContext) -> str:
        """Sign a person in to the console, under the same limits. Returns the id of the login.

        The login ends by itself after CONSOLE_SECONDS. Raises what `begin` raises; but a person without the second
        factor that the client requires is admitted, to add it.
        """
        login, _ = self._admit(request, CONSOLE_SECONDS, context, may_add_factor=True)
        login_id: str = login.id
        return login_id

    def _admit(
        self, request: LogIn, life_seconds: int, context: RequestContext, *, may_add_factor: bool = False
    ) -> tuple[Login, str]:
        """Check password and code, and write the login; returns it with the role of the person."""
        guesses = Guesses(self._limiter, context.address, request.email.lower())

        def begin(user: User) -> Login | None:
            factor = UserFactor.get_or_none(UserFactor.id == user.id)
            if factor is None:
                if not may_add_factor and lacks_required_factor(user):
                    raise _code_needed()
            elif not self._factors.check(factor, _required(request.code), guesses, self._clock.now()):
                return None
            return self._open(user, request.code, life_seconds, context)

        def note_failure(user: Any) -> None:
            client_id, user_id = user and user.client_id, user and user.id
            write_audit_event("login.failed", context, self._clock.now(), client_id=client_id, user_id=user_id)

        user, login = sign_in(User, request.email, request.password, guesses, begin, note_failure)
        return login, user.role

    def refresh(self, refresh_token: str, context: RequestContext) -> LoginView:
        """Continue a login: uses up the refresh token and returns a new one.

        INVALID_CREDENTIALS (401) "Invalid refresh token" for every cause. A token that was used before ends its login,
        because it must have been stolen: two programs hold it.
        """
        claims = self._tokens.read_refresh(refresh_token)
        login = None if claims is None else self._continue(claims, context)
        if login is None:
            raise ServiceError(Code.INVALID_CREDENTIALS, "Invalid refresh token")
        return self._view(login, User.get_by_id(login.user_id).role)

    def console_keys(self) -> list[bytes]:
        """The secrets that sign the cookies and forms of the console, oldest first."""
        return self._tokens.console_keys()

    def end(self, everywhere: bool, context: RequestContext) -> None:
        """End this login, or every login of the person who calls."""
        now = self._clock.now()
        with unit_of_work():
            of_person, this_one = Login.user_id == context.caller.user_id, Login.id == context.caller.login_id
            end_logins(Login, of_person if everywhere else this_one, "logged_out", now)
            write_audit_event(
                "login.all_ended" if everywhere else "login.ended",
                context,
                now,
                client_id=context.client_id,
                object_id=context.caller.login_id,
            )

    def open_of_caller(self, context: RequestContext) -> tuple[OpenLogin, ...]:
        """The open logins of the person who calls, newest first."""
        return open_logins(_caller(context), self._clock.now())

    def end_one(self, login_id: str, context: RequestContext) -> None:
        """End one login of the person who calls. NOT_FOUND for one of another person, or one that has ended."""
        now = self._clock.now()
        with unit_of_work():
            own = (Login.id == login_id) & (Login.user_id == _caller(context)) & Login.ended_at.is_null()
            if not is_id(login_id) or not for_update(Login.select().where(own)).first():
                raise ServiceError(Code.NOT_FOUND, "This login has ended already.")
            end_logins(Login, Login.id == login_id, "logged_out", now)
            write_audit_event("login.ended", context, now, client_id=context.client_id, object_id=login_id)

    def why_ended(self, login_id: str) -> str:
        """The stored reason for which a login ended, such as `password_changed`; `expired` where time ended it."""
        login = Login.get_or_none(Login.id == login_id)
        return (login and login.end_reason) or "expired"

    def change_password(self, request: ChangePassword, context: RequestContext) -> None:
        """Give the person who calls another password. Ends all their other logins, and the links that set a password.

        INVALID_CREDENTIALS (401) for a wrong present password, which counts as a failed login; RATE_LIMIT_EXCEEDED
        (429) after too many of these; INVALID_REQUEST for an invalid password, and for the present one.
        """
        user = User.get_by_id(_caller(context))
        guesses = Guesses(self._limiter, context.address, user.email)
        guesses.refuse_when_used_up()
        now = self._clock.now()
        if not passwords.matches(request.present, user.password_hash):
            guesses.count_failure()
            write_audit_event("user.password_refused", context, now, client_id=user.client_id, object_id=user.id)
            raise _WRONG_PASSWORD
        if request.wanted == request.present:
            raise ServiceError(Code.INVALID_REQUEST, "new_password: Choose another password than the present one.")
        password_hash = hash_checked_password(request.wanted)
        with unit_of_work():
            row = still_the_same(user)
            if row is None:
                raise _WRONG_PASSWORD
            # The people who saw the link to the present password may know this one: they go on counting as one.
            row.change(password_hash=password_hash, updated_at=moved_on(row, now), link_seen_by=None)
            end_logins_of_user(row.id, "password_changed", now, but=context.caller.login_id)
            write_audit_event("user.password_changed", context, now, client_id=row.client_id, object_id=row.id)

    def _open(self, user: User, code: str | None, life_seconds: int, context: RequestContext) -> Login | None:
        """Use up the code and write the login; None when the code is refused or the person has changed since."""
        now = self._clock.now()
        with unit_of_work():
            if still_the_same(user) is None or not is_client_active(user.client_id):
                return None
            factor = UserFactor.get_or_none(UserFactor.id == user.id)
            if factor is not None and not self._factors.accept(factor, _required(code), now):
                return None
            login = Login.create(
                id=new_id(now),
                user_id=user.id,
                client_id=user.client_id,
                address=context.address,
                refresh_number=0,
                created_at=now,
                expires_at=now + timedelta(seconds=life_seconds),
                code_accepted_at=now if factor else None,
            )
            write_audit_event(
                "login.succeeded", context, now, client_id=user.client_id, user_id=user.id, object_id=login.id
            )
        return login

    def _continue(self, claims: RefreshClaims, context: RequestContext) -> Login | None:
        """The login of a refresh token, with the next number; None when it must not continue, which may end it."""
        now = self._clock.now()
        with unit_of_work():
            login = for_update(Login.select().where(Login.id == claims.login_id)).first()
            if login is None or login.ended_at is not None or login.expires_at <= now:
                return None
            user = User.get_by_id(login.user_id)
            reason = None
            if login.refresh_number != claims.number:
                reason = "refresh_token_reused"
            elif not user.is_active or not is_client_active(login.client_id):
                reason = "disabled"
            elif lacks_required_factor(user):
                reason = "factor_required"
            if reason:
                end_logins(Login, Login.id == login.id, reason, now)
                write_audit_event(
                    f"login.{reason}",
                    context,
                    now,
                    client_id=login.client_id,
                    user_id=login.user_id,
                    object_id=login.id,
                )
                return None
            login.refresh_number += 1
            login.expires_at = now + timedelta(seconds=REFRESH_SECONDS)
            login.save(only=[Login.refresh_number, Login.expires_at])
        return login  # type: ignore[no-any-return]

    def _view(self, login: Login, role: str) -> LoginView:
        claims = AccessClaims(user_id=login.user_id, client_id=login.client_id, login_id=login.id)
        return LoginView(
            access_token=self._tokens.issue_access(claims, self._clock.now()),
            token_type="Bearer",  # noqa: S106 - the name of a scheme
            expires_in=ACCESS_SECONDS,
            refresh_token=self._tokens.issue_refresh(RefreshClaims(login.id, login.refresh_number)),
            refresh_expires_in=REFRESH_SECONDS,
            client_id=login.client_id,
            permissions=tuple(sorted(PERMISSIONS[role])),
        )


def _caller(context: RequestContext) -> str:
    assert context.caller.user_id is not None
    return context.caller.user_id


def _required(code: str | None) -> str:
    """Return the code. Raises INVALID_CREDENTIALS when it is missing."""
    if not code:
        raise _code_needed()
    return code


def _code_needed() -> ServiceError:
    return ServiceError(Code.INVALID_CREDENTIALS, "Second factor required")
