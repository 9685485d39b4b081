"""Messages (SMS) in the API (contract 22)."""

from __future__ import annotations

import re
from typing import Any

from marshmallow import ValidationError, fields, validate

from schemas.fields import Body, PhoneNumber, Query, Text
from schemas.shared import PAGE_CURSOR, PAGE_LIMIT, PERIOD_BEGIN, PERIOD_END

# Five parts of 153 septets.
_LONGEST_TEXT = 765
_STATUSES = ("queued", "sent", "delivered", "failed", "unknown")
_TYPES = ("collection", "disbursement", "refund", "transfer")
_LANGUAGE = re.compile("[a-z]{2,3}")
_MOST_LANGUAGES = 10
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


class MessageText(fields.Field[str]):
    """The text of a message: its only control character is the line feed."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        if not isinstance(value, str):
            raise ValidationError("Must be a string.")
        if not 0 < len(value) <= _LONGEST_TEXT:
            raise ValidationError(f"Must be 1 to {_LONGEST_TEXT} characters long.")
        if _CONTROL.search(value):
            raise ValidationError("Must not contain control characters other than line feeds.")
        return value

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field."""
        return {
            "type": "string",
            "minLength": 1,
            "maxLength": _LONGEST_TEXT,
            "pattern": r"^[^\x00-\x09\x0b-\x1f\x7f]*$",
        }


class CreateMessageBody(Body):
    """A message to one phone."""

    phone_number = PhoneNumber(required=True, metadata={"description": "`+256` and nine digits."})
    text = MessageText(required=True, metadata={"description": "The text, at most five parts long."})
    reference = Text(
        required=True,
        longest=64,
        metadata={"description": "The client's own name for the message. The same message again is sent once."},
    )


class Receipts(fields.Field[dict[str, dict[str, str]]]):
    """Texts by type of payment and language; `{}` in the place of texts removes the receipts of a type."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> dict[str, dict[str, str]]:
        if not isinstance(value, dict) or not value.keys() <= set(_TYPES):
            raise ValidationError(f"Must be an object with the keys {', '.join(_TYPES)}.")
        for kind, texts in value.items():
            if not isinstance(texts, dict) or len(texts) > _MOST_LANGUAGES:
                raise ValidationError(f"{kind}: Must be an object of at most {_MOST_LANGUAGES} texts by language.")
            for language, text in texts.items():
                if not _LANGUAGE.fullmatch(language):
                    raise ValidationError(f"{kind}: A language is two or three small letters, such as en.")
                self._text.deserialize(text)
        return value

    _text = MessageText()

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field. The service checks the slots of the texts and counts their parts."""
        texts = {
            "type": "object",
            "maxProperties": _MOST_LANGUAGES,
            "propertyNames": {"pattern": f"^{_LANGUAGE.pattern}$"},
            "additionalProperties": self._text.json_schema,
        }
        return {"type": "object", "properties": dict.fromkeys(_TYPES, texts), "additionalProperties": False}


class UpdateClientSettingsBody(Body):
    """The settings that change; what is left out stays."""

    receipts = Receipts(
        required=True,
        metadata={
            "description": "Messages to subscribers about payments that succeeded: texts by type of payment and "
            "language, with `{{amount|ugx}}`, `{{balance|ugx}}` (the subscriber's own account) and `{{reference}}`."
        },
    )


class ListMessagesQuery(Query):
    """The filters of a list of messages, newest first."""

    status = fields.String(validate=validate.OneOf(_STATUSES), metadata={"description": "The status."})
    phone_number = PhoneNumber(metadata={"description": "`+256` and nine digits."})
    from_at = PERIOD_BEGIN
    to_at = PERIOD_END
    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR
