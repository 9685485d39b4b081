"""Key management in the API: logins, API keys and the audit trail."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError

from schemas import fields
from ussd_server.services.clients.keys.messages import KEY_NAME

_SCOPE = r"[a-z]+:(read|write|send|approve|\*)"


class Scopes(fields.Field[tuple[str, ...]]):
    """`resource:action` pairs: one string with single spaces between them, or an array of strings."""

    # The service checks that the resources exist.
    json_schema = {
        "anyOf": [
            {"type": "string", "pattern": f"^{_SCOPE}( {_SCOPE})*$"},
            {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": f"^{_SCOPE}$"}},
        ]
    }

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> tuple[str, ...]:
        scopes = value.split(" ") if isinstance(value, str) else value
        if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
            raise ValidationError("Must be a string or an array of strings.")
        return tuple(scopes)


class LogInBody(fields.Body):
    """The credentials of a user; `code`, a TOTP code or a recovery code, where a second factor is needed."""

    email = fields.Text("The e-mail address of the user.", longest=254, required=True)
    password = fields.Text("The person's password.", longest=256, required=True, is_secret=True)
    code = fields.Text(
        "A TOTP code or a recovery code, where a second factor is needed.",
        shortest=0,
        longest=64,
        load_default=None,
        allow_none=True,
        is_secret=True,
    )


class RefreshLoginBody(fields.Body):
    """The refresh token of a login."""

    refresh_token = fields.Text(
        "Exchange it for new tokens. It works once.", shortest=0, longest=8192, required=True, is_secret=True
    )


class LogOutBody(fields.Body):
    """Nothing, or `{"all": true}`."""

    everywhere = fields.Flag(
        "True ends every login of this user. Default: this login only.", data_key="all", load_default=False
    )


class Addresses(fields.Field[tuple[str, ...]]):
    """IPv4 and IPv6 addresses and networks, as an array of 1 to 20 strings."""

    # The service checks that each is an address or a network.
    json_schema = {
        "type": "array",
        "minItems": 1,
        "maxItems": 20,
        "items": {"type": "string", "pattern": r"^[0-9A-Fa-f:./]{2,50}$"},
        "examples": [["192.0.2.10", "2001:db8::/32"]],
    }

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(address, str) for address in value):
            raise ValidationError("Must be an array of strings.")
        return tuple(value)


class UpdateApiKeyBody(fields.Body):
    """The fields of a key that change; what is left out stays."""

    name = fields.Text("What people call the key.", longest=KEY_NAME.longest, allow_none=True)
    scopes = Scopes("One string with single spaces, or an array; null means everything.", allow_none=True)
    expires_at = fields.LaterTime("A future time; null means never.", allow_none=True)
    allowed_addresses = Addresses(
        "The addresses and networks from which it may be used; null means any.", allow_none=True
    )
    daily_limit_cents = fields.AnySum(
        "What disbursements, refunds and approved payouts with the key may sum to in a Kampala "
        "day, in shillings, fees included; null means any sum.",
        data_key="daily_limit",
        allow_none=True,
    )
    is_active = fields.Whole("0 disables the key. The provider's support enables it again.", lowest=0, highest=0)


class CreateApiKeyBody(UpdateApiKeyBody):
    """What a new key is called, and its bounds; what is left out is null."""

    class Meta(fields.Body.Meta):
        exclude = ("is_active",)


class DeleteApiKeysBody(fields.Body):
    """The keys to delete, and whether to delete all of them or none."""

    api_key_ids = fields.ListOf(
        "The `id`s of 1 to 100 API keys.", fields.Text(longest=1024, shortest=0), most=100, required=True
    )
    atomic = fields.Flag("True: if one key is not found, none is deleted.", load_default=False)


class ListAuditEventsQuery(fields.Query):
    """The page of the audit trail."""

    cursor = fields.PAGE_CURSOR
    limit = fields.PAGE_LIMIT


class GetKeyUsageQuery(fields.Query):
    """How many days of a key's usage."""

    days = fields.Whole("The last days in Kampala, with today. Default: 30.", lowest=1, highest=90)


class ListRequestsQuery(fields.Query):
    """Which requests, and the page of them."""

    key_id = fields.Text("Only requests of this API key.", longest=64)
    status = fields.Whole("Only replies of this HTTP status.", lowest=100, highest=599)
    code = fields.Text("Only this error code; `OK` for accepted calls.", longest=64)
    path = fields.Text("Only this path, with the names of its variables in braces.", longest=200)
    request_id = fields.Text("Only the request with this `X-Request-Id`.", longest=64)
    from_at = fields.PERIOD_BEGIN
    to_at = fields.PERIOD_END
    cursor = fields.PAGE_CURSOR
    limit = fields.PAGE_LIMIT
