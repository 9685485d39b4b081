"""Signing in, the same for operators and for clients' people: e-mail addresses, passwords, second factors and logins.

A second factor is TOTP codes (RFC 6238) and recovery codes, each accepted once. Limits bound how many may be guessed.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import pyotp

from ussd_server.database.unit_of_work import for_update
from ussd_server.limits.limiter import Limiter
from ussd_server.limits.networks import network_of
from ussd_server.limits.sliding_window import RateLimitDecision
from ussd_server.security import passwords
from ussd_server.security.key_ring import Vault
from ussd_server.status import Code, ServiceError

LONGEST_CODE = 64
_STEP_SECONDS = 30
_ISSUER = "USSD server"
_RECOVERY_CODES = 10
# 80 bits (32 characters to choose from): a plain digest of them cannot be searched through.
_RECOVERY_CHARACTERS = 16
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_LONGEST_EMAIL = 254
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")

_Login = TypeVar("_Login")


def checked_email(email: str) -> str:
    """The e-mail address as it is kept. INVALID_REQUEST for a malformed one."""
    email = email.lower()
    if len(email) > _LONGEST_EMAIL or not email.isprintable() or not _EMAIL.fullmatch(email):
        raise ServiceError(Code.INVALID_REQUEST, "email: Must be an e-mail address.")
    return email


def hash_checked_password(password: str) -> str:
    """The hash of a password. INVALID_REQUEST for fewer than 12 or more than 256 characters, or unprintable ones."""
    # A password that cannot be sent in the JSON of a login could never be used.
    if not passwords.SHORTEST <= len(password) <= passwords.LONGEST or not password.isprintable():
        raise ServiceError(
            Code.INVALID_REQUEST,
            f"password: Must be {passwords.SHORTEST} to {passwords.LONGEST} printable characters.",
        )
    return passwords.hash_password(password)


class Guesses:
    """Failed logins of one address: for one person, and altogether.

    RATE_LIMIT_EXCEEDED (429) when a count is used up.
    """

    def __init__(self, limiter: Limiter, address: str, person: str) -> None:
        """`person` is an e-mail address, and whose it is where it may also be another person's."""
        self._limiter = limiter
        network = network_of(address)
        self._counts = [("login-address", network), ("login-pair", f"{network} {person}")]

    def add(self, policy: str, identity: str) -> None:
        """Count failures under another policy too."""
        self._counts.append((policy, identity))

    def refuse_when_used_up(self) -> None:
        """Refuse when no failure more is allowed."""
        for policy, identity in self._counts:
            self._refuse_unless_accepted(self._limiter.peek(policy, identity))

    def count_failure(self) -> None:
        for policy, identity in self._counts:
            self._refuse_unless_accepted(self._limiter.hit(policy, identity))

    def forgive(self) -> None:
        """Reset the failures of this person after a login that succeeded."""
        self._limiter.clear(*self._counts[1])

    def _refuse_unless_accepted(self, decision: RateLimitDecision) -> None:
        if not decision.accepted:
            raise ServiceError(
                Code.RATE_LIMIT_EXCEEDED,
                "Too many login attempts",
                retry_after_seconds=decision.retry_after_seconds,
            )


def sign_in(
    people: Any,
    email: str,
    password: str,
    guesses: Guesses,
    begin: Callable[[Any], _Login | None],
    note_failure: Callable[[Any], None],
) -> tuple[Any, _Login]:
    """Find a person in the table `people` and begin a login; returns the person and the login.

    `begin` checks the code of a person whose password is right, and writes the login, or returns None.
    `note_failure` gets the person, None for an unknown e-mail address.
    INVALID_CREDENTIALS (401) in the same words and after the same work for every cause. The result is used only below
    the limit of failures, so parallel guesses gain nothing; right passwords use up nothing.
    """
    guesses.refuse_when_used_up()
    person = people.select().where(people.email == email.lower()).first()
    login = None
    if passwords.matches(password, person and person.password_hash):
        guesses.refuse_when_used_up()
        login = begin(person)
    if login is None:
        guesses.count_failure()
        note_failure(person)
        raise ServiceError(Code.INVALID_CREDENTIALS, "Invalid credentials")
    guesses.forgive()
    return person, login


def still_the_same(person: Any) -> Any:
    """The locked row of an active person whose password has not changed since `person` was read; else None."""
    table: Any = type(person)
    unchanged = (table.id == person.id) & (table.password_hash == person.password_hash) & table.is_active
    return for_update(table.select().where(unchanged)).first()


def end_logins(logins: Any, whose: Any, reason: str, now: datetime) -> None:
    """End at once the logins of a table, of those that `whose` chooses."""
    logins.update(ended_at=now, end_reason=reason).where(whose, logins.ended_at.is_null()).execute()


def new_factor() -> str:
    """A fresh TOTP secret in base 32."""
    return pyotp.random_base32()


def address_of(secret: str, email: str) -> str:
    """The `otpauth:` address that an authenticator reads from a QR code."""
    address: str = pyotp.TOTP(secret).provisioning_uri(name=email, issuer_name=_ISSUER)
    return address


def step_of(secret: str, code: str, now: datetime) -> int | None:
    """The TOTP step (30 seconds) of this code: the present one, the one before or the one after. Else None."""
    code, totp = _normal(code), pyotp.TOTP(secret)
    present = int(now.timestamp()) // _STEP_SECONDS
    if _is_totp(code):
        for step in (present - 1, present, present + 1):
            if secrets.compare_digest(totp.generate_otp(step), code):
                return step
    return None


class FactorStore:
    """The second factors in one pair of tables.

    Rows of `factors` have `id` (whose factor it is), `factor_sealed` and `last_step`; rows of `recovery_codes` have
    `owner_id`, `code_digest` and `used_at`.
    """

    def __init__(self, factors: Any, recovery_codes: Any, vault: Vault) -> None:
        self._factors = factors
        self._recovery_codes = recovery_codes
        self._vault = vault

    def encrypt(self, secret: str, owner_id: str) -> bytes:
        """The encrypted TOTP secret of a person, for `factor_sealed`."""
        return self._vault.encrypt(secret, "", owner_id)

    def replace_recovery_codes(self, owner_id: str) -> tuple[str, ...]:
        """Write ten new recovery codes in place of the old ones. Call in the unit of work of the change."""
        codes, table = tuple(_new_code() for _ in range(_RECOVERY_CODES)), self._recovery_codes
        self.remove_recovery_codes(owner_id)
        table.insert_many([{"owner_id": owner_id, "code_digest": _digest(owner_id, code)} for code in codes]).execute()
        return codes

    def remove_recovery_codes(self, owner_id: str) -> None:
        self._recovery_codes.delete().where(self._recovery_codes.owner_id == owner_id).execute()

    def recovery_codes_left(self, owner_id: str) -> int:
        """How many recovery codes a person has not used."""
        table = self._recovery_codes
        count: int = table.select().where(table.owner_id == owner_id, table.used_at.is_null()).count()
        return count

    def check(self, row: Any, code: str, guesses: Guesses, now: datetime) -> bool:
        """Whether `accept` will take the code, under the limits of `guesses`. The caller counts a False there.

        Wrong TOTP codes of a person count from all addresses together too, until the person has another authenticator:
        six digits can be guessed. Recovery codes cannot, and stay usable. RATE_LIMIT_EXCEEDED (429) as `guesses`.
        """
        code = _normal(code)
        if not _is_totp(code):
            return bool(self._recovery_codes.select().where(*self._conditions(row.id, code)).count())
        secret = self._secret(row)
        # 160 random bits, which their digest does not reveal.
        guesses.add("wrong-code", hashlib.sha256(f"{row.id} {secret}".encode()).hexdigest())
        guesses.refuse_when_used_up()
        is_right = _unused_step(row, secret, code, now) is not None
        if is_right:
            # Checked again: a right guess counts only if simultaneous wrong guesses have not used up the limit.
            guesses.refuse_when_used_up()
        return is_right

    def accept(self, row: Any, code: str, now: datetime) -> bool:
        """Use up a code. False for a wrong or used one. Call with the person's row locked."""
        code = _normal(code)
        if _is_totp(code):
            step = _unused_step(row, self._secret(row), code, now)
            if step is None:
                return False
            self._factors.update(last_step=step).where(self._factors.id == row.id).execute()
            return True
        used = self._recovery_codes.update(used_at=now).where(*self._conditions(row.id, code))
        return bool(used.execute())

    def code_at(self, row: Any, at: datetime) -> str:
        return pyotp.TOTP(self._secret(row)).at(at)

    def _secret(self, row: Any) -> str:
        return self._vault.decrypt(row.factor_sealed, "", row.id)

    def _conditions(self, owner_id: str, code: str) -> tuple[Any, ...]:
        table = self._recovery_codes
        return table.owner_id == owner_id, table.code_digest == _digest(owner_id, code), table.used_at.is_null()


def _unused_step(row: Any, secret: str, code: str, now: datetime) -> int | None:
    step = step_of(secret, code, now)
    return step if step is not None and step > row.last_step else None


def _normal(code: str) -> str:
    return "".join(code.split()).lower() if len(code) <= LONGEST_CODE else ""


def _is_totp(code: str) -> bool:
    return len(code) == 6 and code.isascii() and code.isdigit()


def _new_code() -> str:
    characters = "".join(secrets.choice(_ALPHABET) for _ in range(_RECOVERY_CHARACTERS))
    return "-".join(characters[start : start + 4] for start in range(0, _RECOVERY_CHARACTERS, 4))


def _digest(owner_id: str, code: str) -> str:
    text = f"{owner_id} {code.replace('-', '')}"
    # A form may contain a lone surrogate; it must be refused as a wrong code, not raise.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
