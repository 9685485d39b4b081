"""Messages (SMS) in the API (contract 22)."""

from __future__ import annotations

import re
from typing import Any

from marshmallow import ValidationError

from schemas import fields

# Five parts of 153 septets.
_LONGEST_TEXT = 765
_STATUSES = ("queued", "sent", "delivered", "failed", "unknown")
_TYPES = ("collection", "disbursement", "refund", "transfer")
_LANGUAGE = re.compile("[a-z]{2,3}")
_MOST_LANGUAGES = 10
_MOST_RULES = 10


class MessageText(fields.Text):
    """The text of a message: its only control character is the line feed."""

    control_characters = r"\x00-\x09\x0b-\x1f\x7f"
    refused_characters = "control characters other than line feeds"

    def __init__(self, meaning: str = "", **options: Any) -> None:
        super().__init__(meaning, longest=_LONGEST_TEXT, is_secret=True, **options)


class CreateMessageBody(fields.Body):
    """A message to one phone."""

    phone_number = fields.PhoneNumber("`+256` and nine digits.", required=True)
    text = MessageText("The text, at most five parts long.", required=True)
    reference = fields.Text(
        "The client's own name for the message. The same message again is sent once.", required=True, longest=64
    )


_TEXT = MessageText()
_TEXTS = {
    "type": "object",
    "maxProperties": _MOST_LANGUAGES,
    "propertyNames": {"pattern": f"^{_LANGUAGE.pattern}$"},
    "additionalProperties": _TEXT.json_schema,
}


class ReceiptTexts(fields.Field[dict[str, dict[str, str]]]):
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


class ApprovalRuleList(fields.Field[tuple[tuple[int, int], ...]]):
    """Rules of approval: objects with `above`, in shillings, and `approvals`; in Python pairs with cents."""

    # The service checks their number, their order and their values.
    json_schema = {
        "type": "array",
        "minItems": 1,
        "maxItems": _MOST_RULES,
        "items": {
            "type": "object",
            "properties": {
                "above": fields.FeeSum("The sum of the ready rows, in shillings; 0 in the first rule.").json_schema,
                "approvals": {"type": "integer", "minimum": 1, "maximum": 5},
            },
            "required": ["above", "approvals"],
            "additionalProperties": False,
        },
    }

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> tuple[tuple[int, int], ...]:
        if not isinstance(value, list) or not 0 < len(value) <= _MOST_RULES:
            raise ValidationError(f"Must be a list of 1 to {_MOST_RULES} rules.")
        return tuple(map(_rule_of, value))


_ABOVE = fields.FeeSum()


def _rule_of(value: Any) -> tuple[int, int]:
    if not isinstance(value, dict) or value.keys() != {"above", "approvals"}:
        raise ValidationError("Each rule is an object with above and approvals.")
    if type(value["approvals"]) is not int:
        raise ValidationError("approvals: Must be a whole number.")
    above = _ABOVE.deserialize(value["above"])
    assert above is not None, "a null is refused"
    return above, value["approvals"]


class UpdateClientSettingsBody(fields.Body):
    """The settings that change; what is left out stays."""

    receipts = ReceiptTexts(
        "Messages to subscribers about payments that succeeded: texts by type of payment and "
        "language, with `{{amount|ugx}}`, `{{balance|ugx}}` (the subscriber's own account) and `{{reference}}`.",
    )
    approval_rules = ApprovalRuleList(
        "How many different people approve a payout, by the sum of its ready rows. Rules that ask for less take effect "
        "when another owner or admin, or the operator, has confirmed them; to send them again confirms them.",
    )


class ListMessagesQuery(fields.Query):
    """The filters of a list of messages, newest first."""

    status = fields.ChoiceOf("The status.", _STATUSES)
    phone_number = fields.PhoneNumber("`+256` and nine digits.")
    from_at = fields.PERIOD_BEGIN
    to_at = fields.PERIOD_END
    limit = fields.PAGE_LIMIT
    cursor = fields.PAGE_CURSOR
