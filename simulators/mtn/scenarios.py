"""The numbers, amounts and refund references that select an outcome in MTN's sandbox; everything else succeeds."""

from simulators.standin import Scenario

PENDING, SUCCESSFUL, FAILED = "PENDING", "SUCCESSFUL", "FAILED"
ONGOING_SECONDS = 30.0

SUCCESS = Scenario(SUCCESSFUL)
ONGOING = Scenario(SUCCESSFUL, seconds=ONGOING_SECONDS)
DELAYED = Scenario(PENDING)


def _failed(reason: str) -> Scenario:
    return Scenario(FAILED, reason)


# The sandbox's table lists "failed" and "rejected"; a status request returns these two reasons for them.
_FIRST_FIVE = {
    "46733123450": _failed("INTERNAL_PROCESSING_ERROR"),
    "46733123451": _failed("APPROVAL_REJECTED"),
    "46733123452": _failed("EXPIRED"),
    "46733123453": ONGOING,
    "46733123454": DELAYED,
}

PAYERS = _FIRST_FIVE | {
    "46733123455": _failed("PAYER_NOT_FOUND"),
    "46733123456": _failed("PAYEE_NOT_ALLOWED_TO_RECEIVE"),
    "46733123457": _failed("NOT_ALLOWED"),
    "46733123458": _failed("NOT_ALLOWED_TARGET_ENVIRONMENT"),
    "46733123459": _failed("INVALID_CALLBACK_URL_HOST"),
    "46733123460": _failed("INVALID_CURRENCY"),
    "46733123461": _failed("INTERNAL_PROCESSING_ERROR"),
    "46733123462": _failed("SERVICE_UNAVAILABLE"),
    "46733123463": _failed("COULD_NOT_PERFORM_TRANSACTION"),
    "46733123464": _failed("TRANSFER_TYPE_UNKNOWN"),
    # Of our own making: `ussd-server providers try` collects from a number that is no wallet.
    "256790000000": _failed("PAYER_NOT_FOUND"),
}
DECLINED = _failed("APPROVAL_REJECTED")

PAYEES = _FIRST_FIVE | {
    "46733123455": _failed("NOT_ENOUGH_FUNDS"),
    "46733123456": _failed("PAYER_LIMIT_REACHED"),
    "46733123457": _failed("PAYEE_NOT_FOUND"),
    "46733123458": _failed("NOT_ALLOWED"),
    "46733123459": _failed("NOT_ALLOWED_TARGET_ENVIRONMENT"),
    "46733123460": _failed("INVALID_CALLBACK_URL_HOST"),
    "46733123461": _failed("INVALID_CURRENCY"),
    "46733123462": _failed("INTERNAL_PROCESSING_ERROR"),
    "46733123463": _failed("SERVICE_UNAVAILABLE"),
}

# Selected by `referenceIdToRefund`.
REFUNDS = {
    "1": _failed("RESOURCE_NOT_FOUND"),
    "2": _failed("INTERNAL_PROCESSING_ERROR"),
    "3": _failed("APPROVAL_REJECTED"),
    "4": _failed("EXPIRED"),
    "5": ONGOING,
    "6": DELAYED,
    "7": _failed("NOT_ALLOWED"),
    "8": _failed("NOT_ALLOWED_TARGET_ENVIRONMENT"),
    "9": _failed("INVALID_CALLBACK_URL_HOST"),
    "10": _failed("INVALID_CURRENCY"),
    "11": _failed("INTERNAL_PROCESSING_ERROR"),
    "12": _failed("SERVICE_UNAVAILABLE"),
    "13": _failed("COULD_NOT_PERFORM_TRANSACTION"),
}

# By amount in cents, while the switch `amount_scenarios` is on.
AMOUNTS = {
    1000_00: SUCCESS,
    2000_00: _failed("INTERNAL_PROCESSING_ERROR"),
    3000_00: ONGOING,
    4000_00: Scenario(FAILED, "INTERNAL_PROCESSING_ERROR", seconds=ONGOING_SECONDS),
    5000_00: DELAYED,
    6000_00: DELAYED,
    7000_00: _failed("TRANSFER_TYPE_UNKNOWN"),
}

# The response to a request about an account holder: an HTTP status and a code; an empty code is "not active".
HOLDERS = {
    "46733123450": (404, "RESOURCE_NOT_FOUND"),
    "46733123451": (200, ""),
    "46733123452": (500, "NOT_ALLOWED"),
    "46733123453": (500, "NOT_ALLOWED_TARGET_ENVIRONMENT"),
    "46733123454": (500, "INTERNAL_PROCESSING_ERROR"),
    "46733123455": (503, "SERVICE_UNAVAILABLE"),
}

# Failures that the wallet platform can find before it accepts a payment; the switch `refuse_at_once` makes it do so.
REFUSED_AT_ONCE = frozenset(
    {
        "PAYER_NOT_FOUND",
        "PAYEE_NOT_FOUND",
        "PAYEE_NOT_ALLOWED_TO_RECEIVE",
        "PAYER_LIMIT_REACHED",
        "NOT_ENOUGH_FUNDS",
        "NOT_ALLOWED",
        "NOT_ALLOWED_TARGET_ENVIRONMENT",
        "INVALID_CALLBACK_URL_HOST",
        "INVALID_CURRENCY",
        "INTERNAL_PROCESSING_ERROR",
        "SERVICE_UNAVAILABLE",
        "COULD_NOT_PERFORM_TRANSACTION",
        "TRANSFER_TYPE_UNKNOWN",
    }
)
