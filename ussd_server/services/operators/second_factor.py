"""The second factor of operators: TOTP codes (RFC 6238) and recovery codes, each accepted once."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime

import pyotp

from ussd_server.models.operators import Operator, RecoveryCode
from ussd_server.security.credentials import Vault

_STEP_SECONDS = 30
_ISSUER = "USSD server"
_RECOVERY_CODES = 10
# 80 bits (32 characters to choose from): a plain digest of them cannot be searched through.
_RECOVERY_CHARACTERS = 16
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"


def new_factor() -> str:
    """A fresh TOTP secret in base 32."""
    return pyotp.random_base32()


def address_of(secret: str, email: str) -> str:
    """The `otpauth:` address that an authenticator reads from a QR code."""
    address: str = pyotp.TOTP(secret).provisioning_uri(name=email, issuer_name=_ISSUER)
    return address


def replace_recovery_codes(operator_id: str) -> tuple[str, ...]:
    """Write ten new recovery codes in place of the old ones. Call in the unit of work of the change."""
    codes = tuple(_new_code() for _ in range(_RECOVERY_CODES))
    RecoveryCode.delete().where(RecoveryCode.operator_id == operator_id).execute()
    RecoveryCode.insert_many(
        [{"operator_id": operator_id, "code_digest": _digest(operator_id, code)} for code in codes]
    ).execute()
    return codes


def accept_code(operator: Operator, code: str, vault: Vault, now: datetime) -> bool:
    """Use up a code. False for a wrong or used one. Call with the operator's row locked."""
    code = "".join(code.split()).lower()
    if len(code) == 6 and code.isascii() and code.isdigit():
        return _accept_totp(operator, code, vault, now)
    used = RecoveryCode.update(used_at=now).where(
        RecoveryCode.operator_id == operator.id,
        RecoveryCode.code_digest == _digest(operator.id, code),
        RecoveryCode.used_at.is_null(),
    )
    return bool(used.execute())


def _accept_totp(operator: Operator, code: str, vault: Vault, now: datetime) -> bool:
    """Accept the code of the present 30 seconds and of those before and after, unless a later one was used."""
    totp = pyotp.TOTP(vault.decrypt(operator.factor_sealed, "", operator.id))
    present = int(now.timestamp()) // _STEP_SECONDS
    for step in (present - 1, present, present + 1):
        if step > operator.last_step and secrets.compare_digest(totp.generate_otp(step), code):
            Operator.update(last_step=step).where(Operator.id == operator.id).execute()
            return True
    return False


def _new_code() -> str:
    characters = "".join(secrets.choice(_ALPHABET) for _ in range(_RECOVERY_CHARACTERS))
    return "-".join(characters[start : start + 4] for start in range(0, _RECOVERY_CHARACTERS, 4))


def _digest(operator_id: str, code: str) -> str:
    return hashlib.sha256(f"{operator_id} {code.replace('-', '')}".encode()).hexdigest()
