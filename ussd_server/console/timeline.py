"""The status history of a transaction in words."""

from __future__ import annotations

from dataclasses import dataclass

from ussd_server.console.formats import duration, provider_name
from ussd_server.services.transactions.messages import Source, TransactionChange, TransactionHistory, TransactionStatus

_TITLES = {
    TransactionStatus.CREATED: "Recorded here",
    TransactionStatus.SUBMITTED: "Sent to {provider}",
    TransactionStatus.PENDING: "{provider} accepted it and has not finished it",
    TransactionStatus.AMBIGUOUS: "{provider} does not say what became of it",
    TransactionStatus.SUCCEEDED: "Succeeded",
    TransactionStatus.FAILED: "Failed",
    TransactionStatus.REVERSED: "All of it was given back",
}
_SOURCES = {
    Source.SUBMIT: "the request",
    Source.CALLBACK: "a callback of {provider}, which we checked",
    Source.POLL: "a status query",
    Source.OPERATOR: "an operator",
}


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """One status change: what happened, what caused it, what is known about it, and how long after the one before."""

    change: TransactionChange
    title: str
    source: str
    facts: tuple[str, ...]
    after: str


def timeline_of(view: TransactionHistory) -> tuple[TimelineStep, ...]:
    """The steps of a transaction, the first one first."""
    provider, steps, before = provider_name(view.provider) or "the provider", [], None
    for change in view.events:
        title = _TITLES[change.status].format(provider=provider)
        if change.status is TransactionStatus.PENDING and view.type == "collection":
            title = f"{provider} accepted it and waits for the payer"
        steps.append(
            TimelineStep(
                change,
                title,
                _SOURCES[change.source].format(provider=provider),
                _facts(change, provider),
                duration((change.created_at - before).total_seconds()) if before else "",
            )
        )
        before = change.created_at
    return tuple(steps)


def _facts(change: TransactionChange, provider: str) -> tuple[str, ...]:
    detail, facts = change.detail, []
    if detail.sent:
        what = "The payment was sent" if detail.sent == "payment" else "A status query was sent"
        facts.append(what + (f", attempt {detail.attempt}" if detail.attempt else ""))
    elif detail.attempt:
        facts.append(f"Attempt {detail.attempt}")
    if detail.left_machine is False:
        facts.append("Nothing left this server")
    if detail.provider_code:
        facts.append(f"{provider} answered {detail.provider_code}")
    if detail.code and detail.code != change.status.upper():
        facts.append(f"Our code is {detail.code}")
    if detail.took_ms is not None:
        facts.append(f"The call took {detail.took_ms:,} ms")
    if detail.note:
        facts.append(detail.note)
    return tuple(facts)
