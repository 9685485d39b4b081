"""Key management in the API: logins, API keys and the audit trail."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, validate

from schemas.envelopes import Body, Query, Record
from schemas.fields import Amount, Flag, Text, Timestamp, Whole
from schemas.shared import DeletionResultRecord


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

    example = {"email": "owner@client.example", "password": "correct horse battery", "code": "492039"}

    email = Text(longest=254, required=True)
    password = Text(longest=256, required=True)
    code = Text(shortest=0, longest=64, load_default=None, allow_none=True)


class RefreshLoginBody(Body):
    """The refresh token of a login."""

    example = {"refresh_token": "eyJsIjoi..."}

    refresh_token = Text(shortest=0, longest=8192, required=True)


class LogOutBody(Body):
    """Nothing, or `{"all": true}`."""

    example = {"all": True}

    everywhere = Flag(data_key="all", load_default=False)


class CreateApiKeyBody(Body):
    """The scopes and the expiry of a new key."""

    example = {"scopes": "transactions:* balance:read", "expires_at": None}

    scopes = Scopes(load_default=None, allow_none=True)
    expires_at = Timestamp(load_default=None, allow_none=True)


class DeleteApiKeysBody(Body):
    """The keys to delete, and whether to delete all of them or none."""

    example = {"api_key_ids": ["0193a3f2-9b7c-7d4e-8f10-2a3b4c5d6e7f"], "atomic": False}

    api_key_ids = fields.List(Text(longest=1024, shortest=0), required=True, validate=validate.Length(1, 100))
    atomic = Flag(load_default=False)


class ListAuditEventsQuery(Query):
    """The page of the audit trail."""

    cursor = Text(longest=512)
    limit = Whole(lowest=1, highest=100)


class LoginRecord(Record):
    """The tokens of a login."""

    access_token = fields.String()
    token_type = fields.String()
    expires_in = fields.Integer()
    refresh_token = fields.String()
    refresh_expires_in = fields.Integer()
    client_id = fields.String()
    permissions = fields.List(fields.String())


class ServiceIdentifierRecord(Record):
    """The signed name that a client quotes to support."""

    service_identifier = fields.String()
    client_id = fields.String()
    issued_at = Timestamp()


class ApiKeyRecord(Record):
    """The API key record: ten fields, in the order of the API document."""

    id = fields.String()
    client_id = fields.String()
    apikey = fields.String()
    apisecret = fields.String()
    scopes = fields.String(allow_none=True)
    is_active = fields.Integer()
    created_at = Timestamp()
    updated_at = Timestamp()
    expires_at = Timestamp(allow_none=True)
    last_used_at = Timestamp(allow_none=True)

    def dump(self, obj: Any, *, many: bool | None = None) -> Any:
        """Return the views unchanged: they already have these fields, in this order, with JSON values."""
        return obj


class RotatedApiKeyRecord(ApiKeyRecord):
    """A key with its new secret, and when the old one expires."""

    previous_secret_expires_at = Timestamp()


class FailedDeletionRecord(Record):
    """A key that a bulk deletion did not find."""

    id = fields.String()
    status = fields.Integer()
    message = fields.String()


class BulkDeletionRecord(Record):
    """The result for every key of a bulk deletion."""

    deleted = fields.List(fields.Nested(DeletionResultRecord))
    failed = fields.List(fields.Nested(FailedDeletionRecord))
    requested = fields.Integer()
    deleted_count = fields.Integer()
    failed_count = fields.Integer()


class AuditEventRecord(Record):
    """Who did what, when and from where."""

    id = fields.String()
    action = fields.String()
    actor = fields.String()
    user_id = fields.String(allow_none=True)
    email = fields.String(allow_none=True)
    object_id = fields.String(allow_none=True)
    address = fields.String()
    request_id = fields.String()
    created_at = Timestamp()
    key_id = fields.String(allow_none=True)
    amount_cents = Amount(data_key="amount", allow_none=True)
    phone_number = fields.String(allow_none=True)
    reason = fields.String(allow_none=True)
    decided_by = fields.String(allow_none=True)


class AuditEventPageRecord(Record):
    """One page of the audit trail."""

    items: Any = fields.List(fields.Nested(AuditEventRecord))
    next_cursor = fields.String(allow_none=True)
