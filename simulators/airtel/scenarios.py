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
| 15 | | the first submission is lost: the response is ambiguous, enquiries never find it |
| 18 | | forbidden |
| 24 | timed out: ambiguous, fails 180 s later | |
| 25 | the first submission is lost: the response is ambiguous, enquiries never find it | |
| 29 | expired | |
| 33 | refused at once: bad subscriber number | the same |
"""

from simulators.standin import Scenario

SUCCEEDED, FAILED, AMBIGUOUS, IN_PROGRESS, EXPIRED = "TS", "TF", "TA", "TIP", "TE"
MAGIC_PREFIX = "7500000"
UNKNOWN_SUBSCRIBER, DECLINED = "33", "08"
AMBIGUOUS_SECONDS = 180.0
IN_PROCESS_SECONDS = 30.0

PUSH_SUCCESS, PUSH_IN_PROCESS, PUSH_EXPIRED = "DP00800001001", "DP00800001006", "DP00800001029"
PUSH_NOT_FOUND, PUSH_FORGED = "DP00800001025", "DP00800001026"
PAYOUT_SUCCESS, PAYOUT_IN_PROCESS, PAYOUT_SHORT = "DP00900001001", "DP00900001006", "DP00900001007"
PAYOUT_DUPLICATE, PAYOUT_NOT_FOUND, PAYOUT_FORGED = "DP00900001011", "DP00900001015", "DP00900001016"


PUSH_SUCCEEDS = Scenario(SUCCEEDED, PUSH_SUCCESS)
PAYOUT_SUCCEEDS = Scenario(SUCCEEDED, PAYOUT_SUCCESS)


def _failures(family: str, *numbers: str) -> dict[str, Scenario]:
    return {number: Scenario(FAILED, f"{family}0{number}") for number in numbers}


PUSHES = _failures("DP00800001", "02", "03", "04", "05", "07", "08", "09", "10") | {
    "00": Scenario(SUCCEEDED, PUSH_SUCCESS, (AMBIGUOUS, "DP00800001000"), AMBIGUOUS_SECONDS),
    "06": Scenario(SUCCEEDED, PUSH_SUCCESS, (IN_PROGRESS, PUSH_IN_PROCESS), IN_PROCESS_SECONDS),
    "24": Scenario(FAILED, "DP00800001009", (AMBIGUOUS, "DP00800001024"), AMBIGUOUS_SECONDS),
    "25": Scenario(SUCCEEDED, PUSH_SUCCESS, lost=True),
    "29": Scenario(EXPIRED, PUSH_EXPIRED),
}

PAYOUTS = _failures("DP00900001", "03", "04", "05", "07", "09", "10", "12", "13", "18") | {
    "00": Scenario(SUCCEEDED, PAYOUT_SUCCESS, (AMBIGUOUS, "DP00900001000"), AMBIGUOUS_SECONDS),
    "06": Scenario(SUCCEEDED, PAYOUT_SUCCESS, (IN_PROGRESS, PAYOUT_IN_PROCESS), IN_PROCESS_SECONDS),
    "14": Scenario(FAILED, "DP00900001005", (AMBIGUOUS, "DP00900001014"), AMBIGUOUS_SECONDS),
    "15": Scenario(SUCCEEDED, PAYOUT_SUCCESS, lost=True),
}


def magic(msisdn: str) -> str:
    """Returns the NN of a magic number, an empty string for any other number."""
    return msisdn.removeprefix(MAGIC_PREFIX) if msisdn.startswith(MAGIC_PREFIX) else ""
