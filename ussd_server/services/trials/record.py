"""Records the calls of a trial, without secrets, names and numbers, and says what is new in them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from ussd_server.outbound.transport import HttpExchange, Transport
from ussd_server.providers.known_replies import KnownReplies

NUMBER, REFERENCE, SECRET = "{number}", "{reference}", "***"
_SECRET_FIELDS = frozenset(
    [
        "access_token",
        "pin",
        "client_id",
        "client_secret",
        "given_name",
        "family_name",
        "first_name",
        "last_name",
        "birthdate",
        "email",
    ]
)
_CODE_FIELDS = frozenset(["code", "reason", "status", "response_code", "result_code", "status_code", "error"])
_CODE = re.compile(r"[A-Za-z0-9_. ]{1,60}", re.ASCII)
_RECEIPT_FIELDS = frozenset(["financialTransactionId", "airtel_money_id", "reference_id"])
_MOMENT = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{2,4}", re.ASCII)
_MOST_TEXT = 500


class RecordedExchange(NamedTuple):
    """A request, what came, and when (UTC)."""

    method: str
    url: str
    body: bytes
    answer: HttpExchange
    at: datetime


class RecordingTransport(Transport):
    """A transport that keeps its exchanges: method, address, body, and what came."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.exchanges: list[RecordedExchange] = []

    def exchange(
        self,
        method: str,
        url: str,
        *,
        timeout_seconds: float,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        max_body_bytes: int = 64 * 1024,
    ) -> HttpExchange:
        """Send one request and keep what came."""
        options = {"timeout_seconds": timeout_seconds, "headers": headers, "max_body_bytes": max_body_bytes}
        answer = super().exchange(method, url, body=body, **options)  # type: ignore[arg-type]
        self.exchanges.append(RecordedExchange(method, url, body, answer, datetime.now(UTC)))
        return answer


@dataclass(slots=True)
class Masks:
    """The texts that a report replaces: secrets and names by stars, our references and numbers by their names."""

    secrets: set[str] = field(default_factory=set)
    references: set[str] = field(default_factory=set)
    numbers: set[str] = field(default_factory=set)

    def text(self, text: str) -> str:
        """The text without them."""
        for reference in self.references:
            text = text.replace(reference, REFERENCE).replace(reference.replace("-", ""), REFERENCE)
        for number in self.numbers:
            text = text.replace(number[-9:], NUMBER)
        # The last ones, because a PIN may be a part of a number.
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, SECRET)
        return text

    def value(self, value: Any, name: str = "") -> Any:
        """A JSON value without them."""
        if isinstance(value, Mapping):
            return {key: self.value(each, key) for key, each in value.items()}
        if isinstance(value, list):
            return [self.value(each, name) for each in value]
        if name in _SECRET_FIELDS and value:
            return SECRET
        return self.text(value) if isinstance(value, str) else value


def recorded_call(step: str, exchange: RecordedExchange, base_url: str, masks: Masks) -> dict[str, Any]:
    """One exchange as the report has it."""
    method, url, body, answer, _ = exchange
    call: dict[str, Any] = {
        "step": step,
        "method": method,
        "path": masks.text(url.removeprefix(base_url.rstrip("/"))),
        "request": masks.value(_json(body)),
        "status": answer.status,
        "took_ms": round(answer.elapsed_seconds * 1000),
    }
    reply = _json(answer.body)
    if reply is not None:
        return call | {"reply": masks.value(reply)}
    return call | {"text": masks.text(answer.body.decode("utf-8", "replace")[:_MOST_TEXT])}


def clock_difference(exchanges: Collection[RecordedExchange]) -> float | None:
    """By how many seconds the provider's clock is ahead of ours: the median of its `Date` headers."""
    differences = []
    for exchange in exchanges:
        try:
            stated = parsedate_to_datetime(exchange.answer.headers.get("date", ""))
        except ValueError:
            continue
        differences.append((stated.astimezone(UTC) - exchange.at).total_seconds())
    return round(sorted(differences)[len(differences) // 2], 1) if differences else None


def unknown_in(reply: Any, replies: KnownReplies) -> tuple[list[str], list[str]]:
    """The fields and the codes in a reply that this version does not know."""
    fields, codes = set(), set()
    for path, value in _leaves(reply):
        if path not in replies.fields:
            fields.add(path)
        is_code = path.rpartition(".")[2] in _CODE_FIELDS and isinstance(value, str) and _CODE.fullmatch(value)
        if is_code and value.upper() not in replies.codes:
            codes.add(value)
    return sorted(fields), sorted(codes)


def forms_in(reply: Any) -> list[str]:
    """The forms of receipts and moments in a reply, such as `AA999999.9999.A99999`."""
    forms = set()
    for path, value in _leaves(reply):
        is_receipt = path.rpartition(".")[2] in _RECEIPT_FIELDS
        if isinstance(value, str) and is_receipt and value:
            forms.add(re.sub("[A-Za-z]", "A", re.sub("[0-9]", "9", value[:60])))
        elif isinstance(value, str) and (moment := _MOMENT.search(value)):
            forms.add(re.sub("[0-9]", "9", value[moment.start() : moment.start() + 25]))
    return sorted(forms)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaves(each, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, path)
    elif path:
        yield path, value


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
