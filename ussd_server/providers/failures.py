"""Why a payment failed: the same codes for every provider."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """Whose a failure is."""

    PAYER = "payer"
    PAYEE = "payee"
    CLIENT = "client"
    PROVIDER = "provider"
    SERVICE = "service"


class Retry(StrEnum):
    """The action that helps after a failure."""

    NO = "no"
    NEW_ATTEMPT = "new_attempt"
    AFTER_USER_ACTION = "after_user_action"
    WAIT = "wait"


class FailureCode(StrEnum):
    """Why a payment failed: the same codes for every provider (wire contract 3.1)."""

    INSUFFICIENT_BALANCE = "INSUFFICIENT_BALANCE"
    CLIENT_FLOAT_LOW = "CLIENT_FLOAT_LOW"
    PAYER_DECLINED = "PAYER_DECLINED"
    PAYER_TIMEOUT = "PAYER_TIMEOUT"
    WRONG_PIN = "WRONG_PIN"
    PAYER_NOT_FOUND = "PAYER_NOT_FOUND"
    PAYER_BLOCKED = "PAYER_BLOCKED"
    PAYER_LIMIT_REACHED = "PAYER_LIMIT_REACHED"
    PAYEE_NOT_FOUND = "PAYEE_NOT_FOUND"
    PAYEE_BLOCKED = "PAYEE_BLOCKED"
    PAYEE_LIMIT_REACHED = "PAYEE_LIMIT_REACHED"
    AMOUNT_OUT_OF_BOUNDS = "AMOUNT_OUT_OF_BOUNDS"
    CANCELLED = "CANCELLED"
    PROVIDER_CONFIG = "PROVIDER_CONFIG"
    PROVIDER_UNAVAILABLE = "PROVIDER_UNAVAILABLE"
    PROVIDER_ERROR = "PROVIDER_ERROR"


@dataclass(frozen=True, slots=True)
class FailureKind:
    """What a failure code means to a client: a sentence, whose fault it is, and what helps."""

    message: str
    fault: Fault
    retry: Retry


FAILURES: dict[FailureCode, FailureKind] = {
    FailureCode.INSUFFICIENT_BALANCE: FailureKind(
        "The payer's mobile money balance is too low", Fault.PAYER, Retry.AFTER_USER_ACTION
    ),
    FailureCode.CLIENT_FLOAT_LOW: FailureKind("The float held with the provider is too low", Fault.CLIENT, Retry.WAIT),
    FailureCode.PAYER_DECLINED: FailureKind("The payer declined the payment", Fault.PAYER, Retry.NEW_ATTEMPT),
    FailureCode.PAYER_TIMEOUT: FailureKind("The payer did not approve in time", Fault.PAYER, Retry.NEW_ATTEMPT),
    FailureCode.WRONG_PIN: FailureKind("The payer entered a wrong PIN", Fault.PAYER, Retry.NEW_ATTEMPT),
    FailureCode.PAYER_NOT_FOUND: FailureKind("The payer has no mobile money account", Fault.PAYER, Retry.NO),
    FailureCode.PAYER_BLOCKED: FailureKind("The payer's account may not pay", Fault.PAYER, Retry.NO),
    FailureCode.PAYER_LIMIT_REACHED: FailureKind("The payer reached a limit of their account", Fault.PAYER, Retry.WAIT),
    FailureCode.PAYEE_NOT_FOUND: FailureKind("The payee has no mobile money account", Fault.PAYEE, Retry.NO),
    FailureCode.PAYEE_BLOCKED: FailureKind("The payee's account may not receive", Fault.PAYEE, Retry.NO),
    FailureCode.PAYEE_LIMIT_REACHED: FailureKind("The payee reached a limit of their account", Fault.PAYEE, Retry.WAIT),
    FailureCode.AMOUNT_OUT_OF_BOUNDS: FailureKind("The provider does not move this amount", Fault.CLIENT, Retry.NO),
    FailureCode.CANCELLED: FailureKind("The payment was cancelled", Fault.PROVIDER, Retry.NEW_ATTEMPT),
    FailureCode.PROVIDER_CONFIG: FailureKind(
        "The service is not set up correctly with the provider", Fault.SERVICE, Retry.NO
    ),
    FailureCode.PROVIDER_UNAVAILABLE: FailureKind("The provider is not available", Fault.PROVIDER, Retry.WAIT),
    FailureCode.PROVIDER_ERROR: FailureKind(
        "The provider could not complete the payment", Fault.PROVIDER, Retry.NEW_ATTEMPT
    ),
}
