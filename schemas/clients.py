"""Key management in the API: logins, API keys and the audit trail."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, validate

from schemas.envelopes import Body, Query
from schemas.fields import Flag, Text, Timestamp
from schemas.shared import PAGE_CURSOR, PAGE_LIMIT


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


class CreateApiKeyBody(Body):
    """The scopes and the expiry of a new key."""

    scopes = Scopes(
        load_default=None,
        allow_none=True,
        metadata={"description": "One string with single spaces, or an array; null means everything."},
    )
    expires_at = Timestamp(
        load_default=None, allow_none=True, metadata={"description": "A future time; null means never."}
    )


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
