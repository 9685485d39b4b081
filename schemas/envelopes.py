"""The two reply envelopes, and the base classes of all schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from difflib import get_close_matches
from functools import cached_property
from typing import Any, ClassVar

from marshmallow import RAISE, Schema, ValidationError, missing
from marshmallow.fields import Field

from ussd_server.values import iso_milliseconds

# Comparing words costs time, and a caller chooses them.
_MISTYPED, _MOST_MISTYPED = re.compile(r"[\w.-]{1,40}", re.ASCII), 5
_LIKENESS = 0.6

MANAGEMENT_PREFIX = "/api/clients/"


class Body(Schema):
    """A JSON object that a caller sends. Loading raises ValidationError for a field that is not declared."""

    is_query: ClassVar[bool] = False
    takes_yaml: ClassVar[bool] = False
    """Whether the body may also be YAML; the service then reads it from its text."""
    takes_files: ClassVar[tuple[str, ...]] = ()
    """Media types of files that are taken whole instead of JSON."""
    error_messages = {"unknown": "Unknown field."}

    class Meta:
        unknown = RAISE
        ordered = True

    def load(self, data: Any, **options: Any) -> Any:
        """Load valid data field by field, which is fast. For other data marshmallow collects the errors and raises."""
        try:
            return self._load_valid(data)
        except ValidationError:
            try:
                return super().load(data, **options)
            except ValidationError as refusal:
                self._add_hints(refusal, data)
                raise

    def _load_valid(self, document: Mapping[str, Any]) -> dict[str, Any]:
        loaded = {}
        seen = 0
        for key, name, field in self._readers:
            if key in document:
                seen += 1
                loaded[name] = field.deserialize(document[key], key, document)
            elif field.required:
                raise ValidationError("missing")
            elif field.load_default is not missing:
                loaded[name] = field.load_default
        if seen < len(document):
            raise ValidationError("unknown")
        return loaded

    def _add_hints(self, refusal: ValidationError, data: Any) -> None:
        """Say at a missing field, and at an unknown one, which of the other kind was probably meant."""
        if not isinstance(data, Mapping) or not isinstance(refusal.messages, dict):
            return
        free = [key for key, _, _ in self._readers if key not in data]
        known = {key for key, _, _ in self._readers}
        unknown = [key for key in data if key not in known and _MISTYPED.fullmatch(key)][:_MOST_MISTYPED]
        for key in unknown:
            for meant in get_close_matches(key, free, n=1, cutoff=_LIKENESS):
                refusal.messages[key] = [f"{self.error_messages['unknown']} Did you mean {meant}?"]
                if meant in refusal.messages:
                    refusal.messages[meant] = [f"{refusal.messages[meant][0]} The field {key} is unknown."]

    @cached_property
    def _readers(self) -> list[tuple[str, str, Field[Any]]]:
        return [(field.data_key or name, name, field) for name, field in self.load_fields.items()]


class Query(Body):
    """Query parameters: each at most once, and only those that are declared."""

    is_query: ClassVar[bool] = True
    error_messages = {"unknown": "Unknown query parameter."}


def is_management(path: str) -> bool:
    """Return whether a path answers with the key-management envelope."""
    return path.startswith(MANAGEMENT_PREFIX)


def management_envelope(status: int, message: str, data: Any) -> dict[str, Any]:
    """The envelope of the key-management endpoints; `data` is None on errors."""
    return {"status": status, "message": message, "data": data}


def success_envelope(message: str, data: Any) -> dict[str, Any]:
    """The general envelope of a success."""
    return {"success": True, "data": data, "message": message}


def error_envelope(error: str, message: str, now: datetime) -> dict[str, Any]:
    """The general envelope of an error: these four fields and no other."""
    return {"success": False, "error": error, "message": message, "timestamp": iso_milliseconds(now)}
