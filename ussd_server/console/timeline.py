"""The status history of a transaction in words."""

from __future__ import annotations

from dataclasses import dataclass

from ussd_server.console.formats import duration, provider_name
from ussd_server.languages import gettext, marked
from ussd_server.services.transactions.messages import (
    LedgerEntry,
    Origin,
    Source,
    TransactionChange,
    TransactionHistory,
    TransactionStatus,
)

_TITLES = {
    TransactionStatus.CREATED: "Recorded here",
    TransactionStatus.SUBMITTED: "Sent to %(provider)s",
    TransactionStatus.PENDING: "%(provider)s accepted it and has not finished it",
    TransactionStatus.AMBIGUOUS: "%(provider)s does not say what became of it",
    TransactionStatus.SUCCEEDED: "Succeeded",
    TransactionStatus.FAILED: "Failed",
    TransactionStatus.REVERSED: "All of it was given back",
}
_SOURCES = {
    Source.SUBMIT: "",
    Source.CALLBACK: "%(provider)s reported it, and we checked",
    Source.POLL: "we asked %(provider)s",
    Source.OPERATOR: "an operator decided",
}
_ACCOUNTS = marked(
    {
        "main": "The main account",
        "fees": "Fees of this service",
        "deposits": "Deposits",
        "bank": "The bank",
        "shortfall": "Shortfalls",
    }
)
_PURPOSES = marked(
    {
        "amount": "the amount",
        "fee": "the fee",
        "shortfall": "what was lacking",
        "amount_reserved": "the amount, reserved",
        "fee_reserved": "the fee, reserved",
        "amount_released": "the amount, no longer reserved",
        "fee_released": "the fee, no longer reserved",
    }
)


@dataclass(frozen=True, slots=True)
class Posting:
    """What a change moved on one account, in words."""

    words: str
    amount_cents: int


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """One status change: what happened, what caused it, what is known and booked, how long after the one before."""

    change: TransactionChange
    title: str
    source: str
    facts: tuple[str, ...]
    postings: tuple[Posting, ...]
    after: str


def timeline_of(view: TransactionHistory) -> tuple[TimelineStep, ...]:
    """The steps of a transaction, the first one first."""
    provider, steps, before = provider_name(view.provider) or gettext("the provider"), [], None
    for change in view.events:
        title = gettext(_TITLES[change.status], provider=provider)
        if change.status is TransactionStatus.SUBMITTED and change.detail.left_machine is False:
            title = gettext("Not sent")
        if change.status is TransactionStatus.PENDING and view.type == "collection":
            title = gettext("%(provider)s accepted it and waits for the payer", provider=provider)
        steps.append(
            TimelineStep(
                change,
                title,
                gettext(_SOURCES[change.source], provider=provider) if _SOURCES[change.source] else "",
                _facts(change, provider, goes_out=view.provider is not None and view.origin is not Origin.PAYER),
                tuple(map(_posting, change.ledger)),
                duration((change.created_at - before).total_seconds()) if before else "",
            )
        )
        before = change.created_at
    return tuple(steps)


def _facts(change: TransactionChange, provider: str, *, goes_out: bool) -> tuple[str, ...]:
    """The facts below a change's title. `goes_out`: we send the payment; a payer's own payment is never sent by us."""
    detail, facts = change.detail, []
    if detail.sent:
        what = gettext("The payment was sent" if detail.sent == "payment" else "A status query was sent")
        attempt = gettext(", attempt %(number)s", number=detail.attempt) if detail.attempt else ""
        facts.append(what + attempt)
    elif detail.attempt:
        facts.append(gettext("Attempt %(number)s", number=detail.attempt))
    if detail.left_machine is False and goes_out:
        facts.append(gettext("Not sent yet" if change.status is TransactionStatus.CREATED else "Not sent"))
    if detail.provider_code:
        facts.append(gettext("%(provider)s answered %(code)s", provider=provider, code=detail.provider_code))
    if detail.code and detail.code != change.status.upper():
        facts.append(gettext("Our code is %(code)s", code=detail.code))
    if detail.took_ms is not None:
        facts.append(gettext("The call took %(time)s", time=duration(detail.took_ms / 1000)))
    if detail.note:
        facts.append(detail.note)
    return tuple(facts)


def _posting(entry: LedgerEntry) -> Posting:
    kind, _, name = entry.account.partition(":")
    if kind == "provider":
        account = gettext("Money at %(provider)s", provider=provider_name(name))
    elif kind in _ACCOUNTS:
        account = gettext(_ACCOUNTS[kind])
    else:
        account = gettext("The account %(name)s", name=entry.account)
    return Posting(f"{account}: {gettext(_PURPOSES[entry.purpose])}", entry.amount_cents)
