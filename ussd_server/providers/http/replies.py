"""Reads the replies of providers, which may differ from the documentation in any way, and what their codes mean.

Codes are in tables that can be corrected without touching code.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from importlib.resources import files
from typing import Any

from ussd_server.languages import marked
from ussd_server.outbound.transport import HttpExchange, SendState, TransportFailure
from ussd_server.parsing.json_text import value_marks
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Direction, Outcome, ProviderAnswer
from ussd_server.values import is_id, with_hyphens

# Commas and brackets, in texts too. Replies and reports of payments have some dozens.
_MOST_MARKS = 500
_LONGEST_NUMBER = 100
_MONEY = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,6})?", re.ASCII)
_GROUPED_MONEY = re.compile(r"[0-9]{1,3}(?:,[0-9]{3}){1,4}(?:\.[0-9]{1,6})?", re.ASCII)
_NOT_IN_A_CODE = re.compile(r"[^A-Za-z0-9_ .-]+")
_NOT_IN_A_NOTE = re.compile(r"[^A-Za-z0-9 .-]+")
# A number beyond this is no amount, and 1e999999999 written out would fill the memory.
_MOST_EXPONENT = 20
_CODE_MAX_CHARACTERS = 80
_NAME_MAX_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class ProviderReply:
    """One reply of a provider: `status` is 0 when there was none, `document` is empty when it was not a JSON object.

    `refusal` is what a 4xx or 5xx said: `HTTP 401: ` and its first words, without our secrets; or one of `UNREACHED`.
    A call that was not sent because its token was refused has that of the token.
    """

    reach: SendState
    status: int = 0
    document: Mapping[str, Any] = field(default_factory=dict)
    refusal: str = ""

    def get(self, *path: str) -> Any:
        """The value at a path of keys, None where the path ends early."""
        value: Any = self.document
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


NOT_SENT = ProviderReply(SendState.NOT_SENT)
UNREACHED = marked(
    {
        TransportFailure.NAME_NOT_FOUND: "its host name is not found",
        TransportFailure.NO_CONNECTION: "it accepts no connection",
        TransportFailure.NO_TLS: "it speaks no TLS that we know",
        TransportFailure.PROXY_REFUSED: "our proxy does not connect us",
        TransportFailure.CERTIFICATE_EXPIRED: "its certificate is expired or our clock is wrong",
        TransportFailure.CERTIFICATE_OF_ANOTHER: "its certificate is of another host",
        TransportFailure.CERTIFICATE_NOT_TRUSTED: "its certificate is of no authority that we trust",
    }
)
"""Why a call did not reach a provider, where it is more than silence."""


def read(exchange: HttpExchange, secrets: Collection[str] = ()) -> ProviderReply:
    """A reply made from an exchange; a body that did not arrive whole is not read. `secrets` are not repeated."""
    status, document = exchange.status or 0, parse(exchange.body) if exchange.complete else {}
    refusal = UNREACHED.get(exchange.trouble, "") if exchange.trouble and exchange.reach is SendState.NOT_SENT else ""
    if status >= _LEAST_REFUSAL:
        refusal = _refusal(status, document, exchange.body, secrets)
    return ProviderReply(exchange.reach, status, document, refusal)


def _refusal(status: int, document: Mapping[str, Any], body: bytes, secrets: Collection[str]) -> str:
    """The HTTP status and the first words of a refusal: the values of a JSON object, or the text of a page."""
    said = " ".join(_leaves(document)) or _TAG.sub(" ", body[:_MOST_REFUSAL_BYTES].decode("utf-8", "replace"))
    for secret in secrets:
        said = said.replace(secret, "***")
    words = " ".join(_TOKEN_LIKE.sub("***", "".join(filter(str.isprintable, " ".join(said.split())))).split())
    return f"HTTP {status}: {words[:_REFUSAL_MAX_CHARACTERS]}" if words else f"HTTP {status}"


def is_refusal(reason: str) -> bool:
    """Whether the reason of an answer is what a 4xx or 5xx said."""
    return _REFUSAL.match(reason) is not None


def is_cause(reason: str) -> bool:
    """Whether the reason of an answer says why our call failed, so that it is no silence."""
    return is_refusal(reason) or reason in UNREACHED.values()


def _leaves(value: object) -> Iterator[str]:
    """The texts and numbers in a JSON value, in their order."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for each in value[:_MOST_MARKS]:
            yield from _leaves(each)
    elif isinstance(value, str | int | Decimal) and not isinstance(value, bool):
        yield str(value)[:_MOST_REFUSAL_BYTES]


def parse(body: bytes) -> Mapping[str, Any]:
    """A JSON object, or an empty one for everything else that a body may be, also for one of very many values."""
    if value_marks(body) > _MOST_MARKS:
        return {}
    try:
        document = json.loads(body.decode("utf-8"), parse_float=_decimal, parse_constant=str)
    except (ValueError, ArithmeticError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _decimal(text: str) -> Decimal:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError
    return Decimal(text)


def cents(amount: Any) -> int | None:
    """The cents of an amount given as a number or as text, None when it is neither or has parts of a cent."""
    if isinstance(amount, bool) or not isinstance(amount, int | str | Decimal):
        return None
    if isinstance(amount, Decimal):
        exponent = amount.as_tuple().exponent
        if not isinstance(exponent, int) or abs(exponent) > _MOST_EXPONENT:
            return None
        amount = format(amount, "f")
    text = str(amount)
    if not _MONEY.fullmatch(text):
        return None
    scaled = Decimal(text) * 100
    return int(scaled) if scaled == int(scaled) else None


def balance_cents(amount: Any) -> int | None:
    """The cents of a balance. Its thousands may be grouped (`37,600.00`); a payment's amount never is."""
    is_grouped = isinstance(amount, str) and _GROUPED_MONEY.fullmatch(amount) is not None
    return cents(amount.replace(",", "") if is_grouped else amount)


def code_or_message(*candidates: Any) -> str:
    """The first text or number among the candidates, limited to `A-Za-z0-9_ .-` and 80 characters."""
    for candidate in candidates:
        if isinstance(candidate, str | int) and not isinstance(candidate, bool) and candidate != "":
            return _NOT_IN_A_CODE.sub(" ", str(candidate)[:500]).strip()[:_CODE_MAX_CHARACTERS]
    return ""


def note(text: str, max_characters: int) -> str:
    """A text for the subscriber without the characters that providers refuse."""
    return " ".join(_NOT_IN_A_NOTE.sub(" ", text).split())[:max_characters].strip()


def full_name(*parts: Any) -> str | None:
    """The name of a person from its parts, at most 120 characters; None when there is nothing in them."""
    return " ".join(part.strip() for part in parts if isinstance(part, str))[:_NAME_MAX_CHARACTERS].strip() or None


def uuid_in(value: Any) -> str | None:
    """A UUID in lower case with hyphens, from one with or without them; None for everything else."""
    return written if isinstance(value, str) and is_id(written := with_hyphens(value)) else None


# A proxy answers these for a provider that is away.
_UNAVAILABLE_STATUSES = frozenset({502, 503, 504})
_LONG_WORD = re.compile(r"[^ ]{40,}")
_LEAST_REFUSAL = 400
_REFUSAL = re.compile(r"HTTP [45][0-9]{2}(?:: |$)", re.ASCII)
_REFUSAL_MAX_CHARACTERS = 200
_MOST_REFUSAL_BYTES = 4000
_TAG = re.compile(r"<(?:style|script)\b.{0,4000}?</[a-z]+>|<[^>]{0,1000}>", re.IGNORECASE | re.DOTALL)
_TOKEN_LIKE = re.compile(r"[A-Za-z0-9+/=_.-]{40,}")


def is_unavailable(reply: ProviderReply) -> bool:
    """Whether the call failed: no reply, a proxy's page, or a 500 without a JSON object."""
    if reply.reach is not SendState.ANSWERED or reply.status in _UNAVAILABLE_STATUSES:
        return True
    return reply.status >= 500 and not reply.document


def is_token_refused(reply: ProviderReply) -> bool:
    """Whether the provider refused the access token, and so did not process the request: 401, or 403 `invalid_token`.

    Airtel uses both.
    """
    return reply.status == 401 or (reply.status == 403 and reply.get("error") == "invalid_token")


def unclear(reply: ProviderReply, *said: Any, is_about_another: bool = False) -> ProviderAnswer:
    """An answer that proves nothing. Its reason names the HTTP status and what the reply `said`: codes and messages.

    Words of 40 characters and more are left out, because they may be tokens. A call that failed has the codes alone.
    """
    if is_unavailable(reply):
        has_left = reply.reach is not SendState.NOT_SENT
        return ProviderAnswer(Outcome.UNKNOWN, reason=reply.refusal or code_or_message(*said), left_machine=has_left)
    if reply.refusal:
        return ProviderAnswer(Outcome.UNKNOWN, reason=reply.refusal, is_about_another=is_about_another, is_unclear=True)
    words = [_LONG_WORD.sub("...", word) for each in said for word in code_or_message(each).split()]
    reason = code_or_message(" ".join([f"HTTP {reply.status}", *words]))
    return ProviderAnswer(Outcome.UNKNOWN, reason=reason, is_about_another=is_about_another, is_unclear=True)


def failed(code: FailureCode, reason: str = "", *, left_machine: bool = True) -> ProviderAnswer:
    """A definite failure; `reason` is the code or message of the provider."""
    return ProviderAnswer(Outcome.FAILED, code, reason=reason, left_machine=left_machine)


class Standing(StrEnum):
    """The meaning of a code that is no failure."""

    SUCCEEDED = "succeeded"
    PENDING = "pending"
    AMBIGUOUS = "ambiguous"
    DUPLICATE = "duplicate"
    NOT_FOUND = "not_found"


Meaning = FailureCode | Standing
_COLUMNS = ("reason", "collection", "payout", "source")
_MEANINGS: dict[str, Meaning] = {each.value: each for kind in (FailureCode, Standing) for each in kind}

UNDECIDED = frozenset({Standing.PENDING, Standing.AMBIGUOUS, Standing.DUPLICATE})
"""Beside these a failure that a provider reports is not final: the money may still move."""


class Reasons:
    """The table `failure_reasons.csv` of a provider, with the columns `reason`, `collection`,
    `payout` (disbursements and refunds) and `source` (where the code is documented).

    Every meaning is one of `FailureCode` or `Standing`; any other is a mistake in the table, found when it is read.
    """

    def __init__(self, package: str) -> None:
        """`package` is the folder of the provider, as a dotted name. ValueError for a mistake in the table."""
        with files(package).joinpath("failure_reasons.csv").open(encoding="utf-8") as lines:
            try:
                rows = [[row[column] for column in _COLUMNS] for row in csv.DictReader(lines)]
            except KeyError as column:
                raise ValueError(f"failure_reasons.csv lacks the column {column}") from None
        self._rows = {reason: (_meaning(collection), _meaning(payout)) for reason, collection, payout, _ in rows}

    def meaning(self, reason: object, direction: Direction) -> Meaning | None:
        """What a code means for a payment in this direction; None for a code that is not in the table.

        To a request, a code without a meaning is UNKNOWN, unless the provider states that its HTTP status is final.
        """
        row = self._rows.get(reason.strip().upper()) if isinstance(reason, str) else None
        if row is None:
            return None
        return row[0] if direction is Direction.COLLECTION else row[1]

    def failure(self, reason: object, direction: Direction) -> FailureCode:
        """The failure that a code means, once it is known that the payment failed."""
        meaning = self.meaning(reason, direction)
        return meaning if isinstance(meaning, FailureCode) else FailureCode.PROVIDER_ERROR


def _meaning(text: str) -> Meaning:
    if text not in _MEANINGS:
        raise ValueError(f"failure_reasons.csv has the meaning {text!r}, which is none of {', '.join(_MEANINGS)}")
    return _MEANINGS[text]
