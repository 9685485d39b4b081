"""Messages (SMS) in the API (contract 22)."""

from __future__ import annotations

import re
from typing import Any

from marshmallow import ValidationError

from schemas.fields import (
    PAGE_CURSOR,
    PAGE_LIMIT,
    PERIOD_BEGIN,
    PERIOD_END,
    Body,
    ChoiceOf,
    Field,
    PhoneNumber,
    Query,
    Text,
)

# Five parts of 153 septets.
_LONGEST_TEXT = 765
_STATUSES = ("queued", "sent", "delivered", "failed", "unknown")
_TYPES = ("collection", "disbursement", "refund", "transfer")
_LANGUAGE = re.compile("[a-z]{2,3}")
_MOST_LANGUAGES = 10


class MessageText(Text):
    """The text of a message: its only control character is the line feed."""

    control_characters = r"\x00-\x09\x0b-\x1f\x7f"
    refused_characters = "control characters other than line feeds"

    def __init__(self, meaning: str = "", **options: Any) -> None:
        super().__init__(meaning, longest=_LONGEST_TEXT, is_secret=True, **options)


class CreateMessageBody(Body):
    """A message to one phone."""

    phone_number = PhoneNumber("`+256` and nine digits.", required=True)
    text = MessageText("The text, at most five parts long.", required=True)
    reference = Text(
        "The client's own name for the message. The same message again is sent once.", required=True, longest=64
    )


_TEXT = MessageText()
_TEXTS = {
    "type": "object",
    "maxProperties": _MOST_LANGUAGES,
    "propertyNames": {"pattern": f"^{_LANGUAGE.pattern}$"},
    "additionalProperties": _TEXT.json_schema,
}


class Receipts(Field[dict[str, dict[str, str]]]):
    """Texts by type of payment and language; `{}` in the place of texts removes the receipts of a type."""

    # The service checks the slots of the texts and counts their parts.
    json_schema = {
        "type": "object",
        "properties": dict.fromkeys(_TYPES, _TEXTS),
        "additionalProperties": False,
    }

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> dict[str, dict[str, str]]:
        if not isinstance(value, dict) or not value.keys() <= set(_TYPES):
            raise ValidationError(f"Must be an object with the keys {', '.join(_TYPES)}.")
        for kind, texts in value.items():
            if not isinstance(texts, dict) or len(texts) > _MOST_LANGUAGES:
                raise ValidationError(f"{kind}: Must be an object of at most {_MOST_LANGUAGES} texts by language.")
            for language, text in texts.items():
                if not _LANGUAGE.fullmatch(language):
                    raise ValidationError(f"{kind}: A language is two or three small letters, such as en.")
                _TEXT.deserialize(text)
        return value


class UpdateClientSettingsBody(Body):
    """The settings that change; what is left out stays."""

    receipts = Receipts(
        "Messages to subscribers about payments that succeeded: texts by type of payment and "
        "language, with `{{amount|ugx}}`, `{{balance|ugx}}` (the subscriber's own account) and `{{reference}}`.",
        required=True,
    )


class ListMessagesQuery(Query):
    """The filters of a list of messages, newest first."""

    status = ChoiceOf("The status.", _STATUSES)
    phone_number = PhoneNumber("`+256` and nine digits.")
    from_at = PERIOD_BEGIN
    to_at = PERIOD_END
    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR
