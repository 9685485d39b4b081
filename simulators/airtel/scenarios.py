"""The numbers that select an outcome: 7500000NN, NN after the ending of the result code; every other one succeeds.

| NN | a payment push (DP00800001...) | a disbursement (DP00900001...) |
|---|---|---|
| 00 | ambiguous, succeeds 180 s later | the same |
| 02 | wrong PIN | |
| 03 | limit exceeded | the same |
| 04 | invalid amount | the same |
| 05 | the payer entered no PIN | failed |
| 06 | in process, succeeds 30 s later | the same |
| 07 | not enough balance | our float is short |
| 08 | refused | |
| 09 | generic decline | invalid initiatee |
| 10 | not permitted | the same |
| 12 | | bad subscriber number |
| 13 | | refused |
| 14 | | timed out: ambiguous, fails 180 s later |
| 15 | | the first submission is lost: answered as ambiguous, never found |
| 18 | | forbidden |
| 24 | timed out: ambiguous, fails 180 s later | |
| 25 | the first submission is lost: answered as ambiguous, never found | |
| 29 | expired | |
| 33 | refused at once as a bad subscriber number | the same |
"""

from dataclasses import dataclass

SUCCEEDED, FAILED, AMBIGUOUS, IN_PROGRESS, EXPIRED = "TS", "TF", "TA", "TIP", "TE"
MAGIC_PREFIX = "7500000"
UNKNOWN_SUBSCRIBER = "33"
AMBIGUOUS_SECONDS = 180.0
IN_PROCESS_SECONDS = 30.0

PUSH_SUCCESS, PUSH_IN_PROCESS, PUSH_EXPIRED = "DP00800001001", "DP00800001006", "DP00800001029"
PUSH_NOT_FOUND, PUSH_FORGED = "DP00800001025", "DP00800001026"
PAYOUT_SUCCESS, PAYOUT_IN_PROCESS, PAYOUT_SHORT = "DP00900001001", "DP00900001006", "DP00900001007"
PAYOUT_DUPLICATE, PAYOUT_NOT_FOUND, PAYOUT_FORGED = "DP00900001011", "DP00900001015", "DP00900001016"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The letter and result code a payment comes to; `before` is a state it passes `seconds` in first."""

    letter: str
    code: str
    before: tuple[str, str] | None = None
    seconds: float = 0.0
    lost: bool = False


PUSH_SUCCEEDS = Outcome(SUCCEEDED, PUSH_SUCCESS)
PAYOUT_SUCCEEDS = Outcome(SUCCEEDED, PAYOUT_SUCCESS)

PUSHES = {
    "00": Outcome(SUCCEEDED, PUSH_SUCCESS, (AMBIGUOUS, "DP00800001000"), AMBIGUOUS_SECONDS),
    "02": Outcome(FAILED, "DP00800001002"),
    "03": Outcome(FAILED, "DP00800001003"),
    "04": Outcome(FAILED, "DP00800001004"),
    "05": Outcome(FAILED, "DP00800001005"),
    "06": Outcome(SUCCEEDED, PUSH_SUCCESS, (IN_PROGRESS, PUSH_IN_PROCESS), IN_PROCESS_SECONDS),
    "07": Outcome(FAILED, "DP00800001007"),
    "08": Outcome(FAILED, "DP00800001008"),
    "09": Outcome(FAILED, "DP00800001009"),
    "10": Outcome(FAILED, "DP00800001010"),
    "24": Outcome(FAILED, "DP00800001009", (AMBIGUOUS, "DP00800001024"), AMBIGUOUS_SECONDS),
    "25": Outcome(SUCCEEDED, PUSH_SUCCESS, lost=True),
    "29": Outcome(EXPIRED, PUSH_EXPIRED),
}

PAYOUTS = {
    "00": Outcome(SUCCEEDED, PAYOUT_SUCCESS, (AMBIGUOUS, "DP00900001000"), AMBIGUOUS_SECONDS),
    "03": Outcome(FAILED, "DP00900001003"),
    "04": Outcome(FAILED, "DP00900001004"),
    "05": Outcome(FAILED, "DP00900001005"),
    "06": Outcome(SUCCEEDED, PAYOUT_SUCCESS, (IN_PROGRESS, PAYOUT_IN_PROCESS), IN_PROCESS_SECONDS),
    "07": Outcome(FAILED, PAYOUT_SHORT),
    "09": Outcome(FAILED, "DP00900001009"),
    "10": Outcome(FAILED, "DP00900001010"),
    "12": Outcome(FAILED, "DP00900001012"),
    "13": Outcome(FAILED, "DP00900001013"),
    "14": Outcome(FAILED, "DP00900001005", (AMBIGUOUS, "DP00900001014"), AMBIGUOUS_SECONDS),
    "15": Outcome(SUCCEEDED, PAYOUT_SUCCESS, lost=True),
    "18": Outcome(FAILED, "DP00900001018"),
}


def magic(msisdn: str) -> str:
    """The NN of a magic number, an empty text for any other."""
    return msisdn.removeprefix(MAGIC_PREFIX) if msisdn.startswith(MAGIC_PREFIX) else ""
