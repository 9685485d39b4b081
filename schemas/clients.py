"""Key management in the API: logins, API keys and the audit trail."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, validate

from schemas.fields import AnySum, Body, Flag, Query, Text, Timestamp, Whole
from schemas.shared import PAGE_CURSOR, PAGE_LIMIT, PERIOD_BEGIN, PERIOD_END


class Scopes(fields.Field[tuple[str, ...]]):
    """`resource:action` pairs: one string with single spaces between them, or an array of strings."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> tuple[str, ...]:
        scopes = value.split(" ") if isinstance(value, str) else value
        if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
            raise ValidationError("Must be a string or an array of strings.")
        return tuple(scopes)

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field. The service checks that the resources exist."""
        one = r"[a-z]+:(read|write|approve|\*)"
        array = {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": f"^{one}$"}}
        return {"anyOf": [{"type": "string", "pattern": f"^{one}( {one})*$"}, array]}


class LogInBody(Body):
    """The credentials of a user; `code`, a TOTP code or a recovery code, where a second factor is needed."""

    email = Text(longest=254, required=True, metadata={"description": "The e-mail address of the user."})
    password = Text(longest=256, required=True, metadata={"description": "The person's password."})
    code = Text(
        shortest=0,
        longest=64,
        load_default=None,
        allow_none=True,
        metadata={"description": "A TOTP code or a recovery code, where a second factor is needed."},
    )


class RefreshLoginBody(Body):
    """The refresh token of a login."""

    refresh_token = Text(
        shortest=0, longest=8192, required=True, metadata={"description": "Exchange it for new tokens. It works once."}
    )


class LogOutBody(Body):
    """Nothing, or `{"all": true}`."""

    everywhere = Flag(
        data_key="all",
        load_default=False,
        metadata={"description": "True ends every login of this user. Default: this login only."},
    )


class Addresses(fields.Field[tuple[str, ...]]):
    """IPv4 and IPv6 addresses and networks, as an array of 1 to 20 strings."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(address, str) for address in value):
            raise ValidationError("Must be an array of strings.")
        return tuple(value)

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field. The service checks that each is an address or a network."""
        one = {"type": "string", "pattern": r"^[0-9A-Fa-f:./]{2,50}$"}
        return {
            "type": "array",
            "minItems": 1,
            "maxItems": 20,
            "items": one,
            "examples": [["192.0.2.10", "2001:db8::/32"]],
        }


class UpdateApiKeyBody(Body):
    """The fields of a key that change; what is left out stays."""

    name = Text(longest=100, allow_none=True, metadata={"description": "What people call the key."})
    scopes = Scopes(
        allow_none=True,
        metadata={"description": "One string with single spaces, or an array; null means everything."},
    )
    expires_at = Timestamp(allow_none=True, metadata={"description": "A future time; null means never."})
    allowed_addresses = Addresses(
        allow_none=True,
        metadata={"description": "The addresses and networks from which it may be used; null means any."},
    )
    daily_limit_cents = AnySum(
        data_key="daily_limit",
        allow_none=True,
        metadata={
            "description": "What disbursements, refunds and approved payouts with the key may sum to in a Kampala "
            "day, in shillings, fees included; null means any sum."
        },
    )
    is_active = Whole(
        lowest=0, highest=0, metadata={"description": "0 disables the key. The provider's support enables it again."}
    )


class CreateApiKeyBody(UpdateApiKeyBody):
    """What a new key is called, and its bounds; what is left out is null."""

    class Meta(Body.Meta):
        exclude = ("is_active",)


class DeleteApiKeysBody(Body):
    """The keys to delete, and whether to delete all of them or none."""

    api_key_ids = fields.List(
        Text(longest=1024, shortest=0),
        required=True,
        validate=validate.Length(1, 100),
        metadata={"description": "The `id`s of 1 to 100 API keys."},
    )
    atomic = Flag(load_default=False, metadata={"description": "True: if one key is not found, none is deleted."})


class ListAuditEventsQuery(Query):
    """The page of the audit trail."""

    cursor = PAGE_CURSOR
    limit = PAGE_LIMIT


class GetKeyUsageQuery(Query):
    """How many days of a key's usage."""

    days = Whole(lowest=1, highest=90, metadata={"description": "The last days in Kampala, with today. Default: 30."})


class ListRequestsQuery(Query):
    """Which requests, and the page of them."""

    key_id = Text(longest=64, metadata={"description": "Only requests of this API key."})
    status = Whole(lowest=100, highest=599, metadata={"description": "Only replies of this HTTP status."})
    code = Text(longest=64, metadata={"description": "Only this error code; `OK` for accepted calls."})
    path = Text(longest=200, metadata={"description": "Only this path, with the names of its variables in braces."})
    request_id = Text(longest=64, metadata={"description": "Only the request with this `X-Request-Id`."})
    from_at = PERIOD_BEGIN
    to_at = PERIOD_END
    cursor = PAGE_CURSOR
    limit = PAGE_LIMIT
