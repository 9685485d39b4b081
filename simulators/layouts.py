"""The layouts in which providers write their statements, as account holders download them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

IN, OUT, REVERSAL = "in", "out", "reversal"
OPENING_CENTS = 10_000_000_00


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedLine:
    """One line: what a payment moved on the holder's account.

    `kind` is `in`, `out` or `reversal`; `status` is as the provider writes it; `cents` are positive for money that came
    in; `has_moved` is False where nothing moved. `party` is the phone number of the other side, without a plus.
    `balance_cents` is the balance afterwards.
    """

    receipt: str
    reference: str
    at: float
    kind: str
    status: str
    cents: int
    party: str
    has_moved: bool
    currency: str = "UGX"
    balance_cents: int = 0


@dataclass(frozen=True, slots=True)
class TableLayout:
    """One layout: its titles, its headings, and the cells of a movement, given its number and its date as written.

    `dates` is how it writes dates, empty where the form of the statement says so. `has_failures`: what did not move is
    listed too. `ends_with_total`: a row with the number of lines follows.
    """

    headings: tuple[str, ...]
    cells: Callable[[MovedLine, int, str], Sequence[str]]
    titles: tuple[tuple[str, ...], ...] = (("Account holder", "ACME Limited"), ())
    dates: str = ""
    has_failures: bool = True
    ends_with_total: bool = True


def with_balances(movements: Iterable[MovedLine]) -> list[MovedLine]:
    """Returns movements, in their order, with the running balance of each."""
    balance, lines = OPENING_CENTS, []
    for movement in movements:
        balance += movement.cents if movement.has_moved else 0
        lines.append(replace(movement, balance_cents=balance))
    return lines


def grouped(cents: int) -> str:
    """Returns an amount with thousands separators: `1,234,567.00`."""
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100:,}.{abs(cents) % 100:02d}"


def plain(cents: int) -> str:
    """Returns an amount without separators, and without cents where it has none: `1234567`, `99.50`."""
    whole = f"{'-' if cents < 0 else ''}{abs(cents) // 100}"
    return f"{whole}.{abs(cents) % 100:02d}" if cents % 100 else whole


def _mtn_parties(movement: MovedLine) -> tuple[str, str]:
    party, account = f"FRI:{movement.party}/MSISDN", "FRI:41000001/MM"
    return (party, account) if movement.kind == IN else (account, party)


def _mtn(movement: MovedLine, _: int, date: str) -> Sequence[str]:
    """The merchant's export: amounts without a sign, whose direction is that of their type."""
    sender, receiver = _mtn_parties(movement)
    kind = {IN: "Payment", OUT: "Transfer", REVERSAL: "Reversal"}[movement.kind]
    return (
        movement.receipt, movement.reference, date, movement.status, kind, sender, "", receiver, "",
        grouped(abs(movement.cents)), movement.currency, "0", grouped(movement.balance_cents),
    )  # fmt: skip


def _mtn_signed(movement: MovedLine, _: int, date: str) -> Sequence[str]:
    """The newer merchant's export: money that went out has a minus."""
    sender, receiver = _mtn_parties(movement)
    kind = {IN: "Payment", OUT: "Transfer", REVERSAL: "Reversal"}[movement.kind]
    return (
        movement.receipt, movement.reference, date, movement.status, kind, sender, "", receiver, "", "ID:acme/USER",
        plain(movement.cents), movement.currency, "0", plain(movement.balance_cents),
    )  # fmt: skip


def _mtn_agent(movement: MovedLine, _: int, date: str) -> Sequence[str]:
    sender, receiver = (movement.party, "256770000999")[:: 1 if movement.kind == IN else -1]
    kind = {IN: "CASH_IN", OUT: "TRANSFER", REVERSAL: "REVERSAL"}[movement.kind]
    return (
        date, movement.receipt, kind, plain(movement.cents), sender, receiver, "0", "0", "0", "", "0",
        plain(movement.balance_cents),
    )  # fmt: skip


def _airtel(movement: MovedLine, _: int, date: str) -> Sequence[str]:
    """The export with a column of credits and one of debits."""
    collects, amount = movement.kind == IN, grouped(abs(movement.cents))
    kind = {IN: "Merchant Payment", OUT: "Disbursement", REVERSAL: "Merchant Payment Reversal"}[movement.kind]
    return (
        movement.receipt, movement.reference, date, kind, movement.status, movement.party if collects else "",
        "" if collects else movement.party, amount if movement.cents > 0 else "", amount if movement.cents < 0 else "",
        "0", grouped(movement.balance_cents),
    )  # fmt: skip


def _airtel_merchant(movement: MovedLine, number: int, date: str) -> Sequence[str]:
    """The report of a merchant's user: `MR` came in and `MP` went out."""
    kind, service = {
        IN: ("MR", "Merchant Payment"),
        OUT: ("MP", "Disbursement"),
        REVERSAL: ("Merchant Payment Reversal", "Merchant Payment Reversal"),
    }[movement.kind]
    sender, receiver = (movement.party, "750000999")[:: 1 if movement.kind == IN else -1]
    before = movement.balance_cents - (movement.cents if movement.has_moved else 0)
    return (
        str(number), movement.receipt, date, kind, service, sender, receiver, movement.reference,
        plain(abs(movement.cents)), plain(before), plain(movement.balance_cents), movement.status, "",
    )  # fmt: skip


def _airtel_customer(movement: MovedLine, number: int, date: str) -> Sequence[str]:
    kind = {IN: "Merchant Payment", OUT: "Disbursement", REVERSAL: "Merchant Payment Reversal"}[movement.kind]
    before = movement.balance_cents - (movement.cents if movement.has_moved else 0)
    return (
        str(number), movement.receipt, movement.reference, date, "Airtel", movement.party, "750000999", kind,
        movement.status, grouped(abs(movement.cents)), plain(before), plain(movement.balance_cents), "0", "",
        "ACME LTD", "",
    )  # fmt: skip


def _report(name: str) -> tuple[tuple[str, ...], ...]:
    return ((name,), ("Generated By", "acme"), ())


MTN_LAYOUTS = {
    "mtn": TableLayout(
        (
            "Id", "External id", "Date", "Status", "Type", "From", "From name", "To", "To name", "Amount", "Currency",
            "Fee", "Balance",
        ),
        _mtn,
    ),
    "mtn-signed": TableLayout(
        (
            "Id", "External id", "Date", "Status", "Type", "From", "From name", "To", "To name", "Initiated By",
            "Amount", "Currency", "Fee", "Balance",
        ),
        _mtn_signed,
        titles=(),
        ends_with_total=False,
    ),
    "mtn-agent": TableLayout(
        (
            "Date / Time", "Transaction ID", "Transaction Type", "Amount", "From Account", "To Account", "Fee",
            "Commision Amount", "TAX", "Commision Receiving No.", "Commision Balance", "Float Balance",
        ),
        _mtn_agent,
        titles=(),
        has_failures=False,
        ends_with_total=False,
    ),
}  # fmt: skip
"""MTN's layouts by name, the one that the stand-in writes first."""

AIRTEL_LAYOUTS = {
    "airtel": TableLayout(
        (
            "Transaction ID", "Reference No", "Transaction Date", "Service Type", "Transaction Status", "Sender Msisdn",
            "Receiver Msisdn", "Credit", "Debit", "Charges", "Balance",
        ),
        _airtel,
    ),
    "airtel-merchant": TableLayout(
        (
            "Record No", "Transaction ID", "Transaction Date and Time", "Transaction Type", "Service Name",
            "Sender Msisdn", "Receiver Msisdn", "Reference Number", "Transaction Amount", "Previous Balance",
            "Post Balance", "Transaction Status", "external_transaction_id",
        ),
        _airtel_merchant,
        titles=_report("User_Transaction_Report"),
        ends_with_total=False,
    ),
    "airtel-customer": TableLayout(
        (
            "Record No", "Transaction ID", "Reference No.", "Transaction Date & Time", "Payer MFS Provider",
            "Payer Mobile Number", "Receiver Mobile Number", "Service Type", "Transaction Status",
            "Transaction Amount", "Payee Pre Balance", "Payee Post Balance", "Total Service Charge",
            "External Transaction id", "Receiver_name", "Reason",
        ),
        _airtel_customer,
        titles=_report("Customer_Transaction_Report"),
        dates="%d-%b-%Y  %H:%M:%S",
        ends_with_total=False,
    ),
}  # fmt: skip
"""Airtel's layouts by name, the one that the stand-in writes first."""

LAYOUTS = MTN_LAYOUTS | AIRTEL_LAYOUTS
