"""How values look on a page, in a CSV file and in JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from ussd_server.console.actions import action_in_words
from ussd_server.languages import gettext, marked, retold
from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.providers.registry import short_name
from ussd_server.services.reports.messages import MovedInSpan
from ussd_server.values import KAMPALA, iso_milliseconds, written_amount

NETWORKS = {"64110": "MTN", "64101": "Airtel", "64111": "UTL", "64114": "Africell"}
LANGUAGES = {"en": "English", "lg": "Luganda", "sw": "Swahili", "fr": "French", "rw": "Kinyarwanda"}
_OUTCOMES = marked(
    {
        "00": "pays at once",
        "01": "has no money",
        "02": "declines",
        "03": "does not answer",
        "04": "pays after 3 s",
        "05": "fails later",
        "06": "pays; the answer is lost at first",
        "07": "never gets the request",
        "08": "is refused before the request is accepted",
        "09": "fails, then pays after all",
    }
)
_ISO_MOMENT = re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+Z)?(?![\w-])")
_LONG_WORD = re.compile(r"\S{20,}")
_SIGN = re.compile(r"([@._/]+)(?=[^\W\d])")
_TONES = {
    "good": {
        "active", "available", "completed", "delivered", "published", "ready", "succeeded", "up", "enabled", "ok",
        "same", "booked", "bound",
    },
    "bad": {
        "cancelled", "dead", "deleted", "error", "exhausted", "failed", "failing", "invalid", "silent", "unavailable",
    },
    "warn": {
        "ambiguous", "degraded", "different", "disabled", "expired", "low", "needs_review", "partial", "reversed",
        "review", "switched_off", "held", "late", "possible double", "completed with failures", "moved",
        "to be given back",
    },
    "wait": {
        "accepted", "approved", "created", "draft", "open", "pending", "processing", "queued", "running", "sent",
        "submitted", "waiting", "invited", "connecting", "proposed", "being checked",
    },
}  # fmt: skip
STATUS_WORDS = frozenset(word.replace("_", " ") for words in _TONES.values() for word in words) | {
    "address refused", "admin", "answered", "api key", "broken", "channel", "client", "closed", "collection",
    "confirmed", "correction", "credit", "debit", "deposit", "developer", "difference", "differences",
    "disbursement", "ended", "ended by client", "ended by user", "event", "hour", "importing", "in", "invalidated",
    "key", "lost", "menu", "message", "minute", "movement", "name not found", "no", "no answer", "no connection",
    "notice", "operator", "over limit", "owner", "payment", "payout", "person", "refund", "removed", "request",
    "returned", "same", "session", "settlement", "similar", "statement", "stored", "the provider", "the sandbox",
    "timed out", "timeout", "too large", "transaction", "transfer", "unknown", "viewer", "webhook", "yes",
}  # fmt: skip
"""The words of lists that are translated: states, types, kinds and roles."""


def money(cents: int | None) -> Markup:
    """An amount as people read it: `UGX 5,000` or `UGX 5,000.50`."""
    if cents is None:
        return Markup("")
    return Markup('<span class="money">{}</span>').format(written_amount(cents))


def moment(value: datetime | str | None, missing: str = "never") -> Markup:
    """A moment in Kampala's time, with UTC where the pointer rests on it; without one, what is `missing`."""
    if not value:
        return Markup('<span class="muted">{}</span>').format(gettext(missing)) if missing else Markup("")
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        iso(at), at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"), _written(at)
    )


def local_time(value: datetime) -> str:
    """The hour and minute of a moment in Kampala."""
    return value.astimezone(KAMPALA).strftime("%H:%M")


def with_local_times(text: str) -> str:
    """A text of the API with its moments as pages write them, in Kampala's time."""
    return _ISO_MOMENT.sub(
        lambda each: _written(datetime.fromisoformat(each[0])) if each[1] else written_day(each[0]), text
    )


def _written(at: datetime) -> str:
    return at.astimezone(KAMPALA).strftime("%d %b %Y, %H:%M:%S")


def written_day(value: date | str) -> str:
    """A day as moments have it: `22 Nov 2026`."""
    named = date.fromisoformat(value) if isinstance(value, str) else value
    return named.strftime("%d %b %Y")


def translated(text: str) -> str:
    """A text of ours in the language of the page, its moments in Kampala's time.

    A list's word may begin with a capital that the catalog does not have.
    """
    text = with_local_times(text)
    if (translation := retold(text)) != text:
        return translation
    if (translation := gettext(word := text.lower())) != word:
        return translation.capitalize()
    before, _, rest = text.partition(": ")
    if rest and (sentence := retold(before)) != before:
        return f"{sentence}: {retold(rest)}"
    return text if retold(rest := text.rpartition(": ")[2]) == rest else problem(text)


def problem(text: str) -> str:
    """What is wrong with a field, which is called as forms call it; another text as `translated` has it."""
    field, colon, rest = text.removeprefix("Invalid request body: ").partition(": ")
    if colon and re.fullmatch("[a-z_]+", field):
        return f"{field_name(field)}: {retold(rest)}"
    return retold(text)


def field_name(field: str) -> str:
    """What a form calls a field of the API."""
    return gettext(field.replace("_", " ").capitalize())


def status(word: str) -> Markup:
    """A status as a badge. Its colour repeats what the word says."""
    tone = next((tone for tone, words in _TONES.items() if word.lower() in words), "plain")
    return Markup('<span class="badge {}">{}</span>').format(tone, gettext(word.replace("_", " ").lower()))


def provider_name(name: str | None) -> str:
    short = short_name(name).removeprefix("the ") if name else ""
    return f"{short[:1].upper()}{short[1:]}"


def account_name(name: str) -> str:
    """The displayed name of an account at a provider, or of the bank: as it is typed, unless it is its provider's."""
    return provider_name(name) if name in (*PROVIDER_NAMES, "bank") else name


def network_name(code: str | None) -> str:
    """The displayed name of a network code; the code if it has no name here."""
    return NETWORKS.get(code or "", code or "")


def language_name(code: str | None) -> str:
    """The name of a language; its code where it has no name here."""
    return LANGUAGES.get(code or "", code or "")


def breakable(text: object) -> Markup:
    """A text whose long words may break after their signs, as addresses and file names do."""
    # A text of a template is escaped already.
    plain = text.unescape() if isinstance(text, Markup) else str(text)
    parted = _LONG_WORD.sub(lambda word: _SIGN.sub("\\1\n", word[0]), plain.replace("\n", " "))
    return Markup("<wbr>").join(parted.split("\n"))


def number(value: float | None) -> str:
    """A number with thousands separators."""
    return "" if value is None else f"{value:,}"


def sandbox_outcomes() -> dict[str, str]:
    """What the sandbox's numbers do, by their last two digits."""
    return {number: gettext(outcome) for number, outcome in _OUTCOMES.items()}


def duration(seconds: float) -> str:
    """How long something took or waits: `0.004 s`, `0.4 s`, `12 min 5 s`, `3 h 20 min` or `4 days`."""
    if seconds < 60:
        written = f"{seconds:.1f}" if seconds >= 0.1 else f"{max(0.0, seconds):.3f}".rstrip("0").rstrip(".")
        return f"{written} s"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} days"


def readable_json(value: Any) -> str:
    """A JSON value as people read it, one field a line."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def readable_body(text: str | None) -> str:
    """The body of a request or an answer: an object or a list in JSON one field a line, other text as it is."""
    try:
        value = orjson.loads(text or "")
        return readable_json(value) if isinstance(value, dict | list) else text or ""
    except (ValueError, TypeError):
        return text or ""


def iso(value: datetime | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return iso_milliseconds(value)


@cache
def version_of(path: Path) -> str:
    """A short name for the content of a file."""
    return sha256(path.read_bytes()).hexdigest()[:12] if path.is_file() else "missing"


def short_day(value: date) -> str:
    """A day as a chart has it: `22 Nov`."""
    return value.strftime("%d %b")


def points(spans: Iterable[MovedInSpan], name: str, *, by_day: bool) -> list[tuple[str, float]]:
    """One field of hours or of days as points of a chart, in shillings."""
    written: Callable[[datetime], str] = (lambda at: short_day(at.astimezone(KAMPALA))) if by_day else local_time
    return [(written(span.began_at), getattr(span, name) / 100) for span in spans]


def _as_shown(word_filter: Callable[[str], Any]) -> Callable[[Context, str], Any]:
    """A filter whose result depends on the language.

    Without `pass_context`, Jinja computes the result for a constant once, in the language of the first page.
    """

    @pass_context
    def applied(_: Context, text: str) -> Any:
        return word_filter(text)

    return applied


FILTERS: dict[str, Callable[..., Any]] = {
    "translated": _as_shown(translated),
    "money": money,
    "moment": moment,
    "local_time": local_time,
    "written_day": written_day,
    "status": _as_shown(status),
    "number": number,
    "breakable": breakable,
    "duration": duration,
    "iso": iso,
    "points": points,
    "action_in_words": _as_shown(action_in_words),
    "account_name": account_name,
    "provider_name": provider_name,
    "network_name": network_name,
    "language_name": language_name,
    "problem": _as_shown(problem),
    "field_name": _as_shown(field_name),
    "readable_json": readable_json,
    "readable_body": readable_body,
}
