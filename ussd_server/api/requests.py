"""The request: the current call with what its response and log line need, and its query and body.

Bodies are bounded in size and strict in form. An error names the first field that is wrong.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from flask import Request, current_app, g, request
from marshmallow import Schema, ValidationError
from werkzeug.wsgi import get_content_length, get_input_stream

from schemas.fields import Body
from ussd_server import spans
from ussd_server.api.bounded_request import require_readable_query
from ussd_server.context import request_id_from
from ussd_server.logs import now_about
from ussd_server.parsing.json_text import (
    DuplicateNameError,
    duplicate_name,
    has_more_values,
    is_deeper,
    object_of_pairs,
    parsed,
    unstorable_escape,
    value_marks,
)
from ussd_server.parsing.secrets_in_text import shown_name
from ussd_server.status import Code, ServiceError

if TYPE_CHECKING:
    from ussd_server.api.endpoints import EndpointSpec
    from ussd_server.bootstrap import Services

EXTENSION = "ussd_server"
"""The name under which the application keeps its services in `app.extensions`."""

JSON, YAML = "application/json", "application/yaml"
MAX_BODY_BYTES = 64 * 1024
_MAX_DEPTH = 32
_IDEMPOTENCY_KEY = re.compile(r"[ -~]{1,255}")
# Every field takes less, and Python itself refuses to read integers of more than 4,300 digits.
_MOST_DIGITS = 30
_MOST_DECIMALS = 1000


@dataclass(slots=True)
class CurrentRequest:
    """One call: its request, and what its response and its log line need. Authentication and refusals add to it.

    `is_management`: the path is one of the key-management endpoints. `began` is a reading of the monotonic clock;
    `span` is None while no spans are exported, `route` until the view of an API endpoint begins. `scope` is what
    the call needs.
    """

    request: Request
    services: Services
    request_id: str
    is_management: bool
    began: float = field(default_factory=time.perf_counter)
    span: Any = None
    route: EndpointSpec | None = None
    client_id: str | None = None
    key_id: str | None = None
    user_id: str | None = None
    scope: str | None = None
    code: str = "OK"
    message: str = "OK"
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The address of the caller, empty when unknown."""
        return self.request.remote_addr or ""


def begin_request() -> CurrentRequest:
    """Make the call of the current request, and put its request id on every log line from now on."""
    # The call holds the request itself, because each use of Flask's proxy costs a microsecond.
    own_request: Request = request._get_current_object()  # type: ignore[attr-defined]
    # werkzeug's view of the headers takes ten times as long, and longer for one that is missing.
    environ = own_request.environ
    request_id = request_id_from(environ.get("HTTP_X_REQUEST_ID"))
    now_about(request_id=request_id, traceparent=environ.get("HTTP_TRACEPARENT"))
    current = g.current_request = CurrentRequest(
        own_request, services(), request_id, is_management(environ["PATH_INFO"])
    )
    # Probes and measurements come all the time and belong to nothing.
    if spans.tracer is not None and own_request.blueprint != "ops":
        current.span = spans.begin_call(own_request.endpoint or "unknown")
    return current


def current_request() -> CurrentRequest:
    current: CurrentRequest = g.current_request
    return current


def services() -> Services:
    services: Services = current_app.extensions[EXTENSION]
    return services


def is_management(path: str) -> bool:
    """Return whether a path answers with the key-management envelope."""
    return path.startswith("/api/clients/")


class FieldError(ServiceError):
    """A refusal of one field of a body or a query; the message begins with its name."""


def has_body(request: Request) -> bool:
    length = request.environ.get("CONTENT_LENGTH", "")
    return length not in ("", "0") or "HTTP_TRANSFER_ENCODING" in request.environ


def read_body(environ: dict[str, Any], largest: int = MAX_BODY_BYTES) -> bytes:
    """The whole body. REQUEST_TOO_LARGE (413) beyond `largest` bytes, whether or not a length was announced.

    The stream is read here, because behind gunicorn Flask's own limit silently truncates a chunked body.
    """
    announced = get_content_length(environ) or 0
    if announced > largest:
        raise ServiceError(Code.REQUEST_TOO_LARGE, f"The request body is larger than {largest // 1024} KiB")
    try:
        body = _read_at_most(largest + 1, environ)
    except Exception:
        # Web servers raise different errors for a body that ends early or has wrong chunks.
        raise ServiceError(Code.INVALID_REQUEST, "The request body could not be read") from None
    if len(body) > largest:
        raise ServiceError(Code.REQUEST_TOO_LARGE, f"The request body is larger than {largest // 1024} KiB")
    if len(body) < announced:
        # gunicorn returns a partial body as complete when the sender disconnects.
        raise ServiceError(Code.INVALID_REQUEST, "The request body could not be read")
    return body


def check_length(request: Request, largest: int) -> None:
    """Check the announced length of a body that is not read whole; the web server gives no more than that length.

    REQUEST_TOO_LARGE (413) beyond `largest` bytes, INVALID_REQUEST for a body without a length.
    """
    if request.content_length is None:
        raise ServiceError(Code.INVALID_REQUEST, "The request does not say how long its body is")
    if request.content_length > largest:
        raise ServiceError(Code.REQUEST_TOO_LARGE, f"The file is larger than {largest // (1024 * 1024)} MB")


def _read_at_most(most: int, environ: dict[str, Any]) -> bytes:
    stream, parts, size = get_input_stream(environ), [], 0
    while size < most and (part := stream.read(min(most - size, MAX_BODY_BYTES + 1))):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def parse_object(
    request: Request, body: bytes, most_values: int = Body.most_values, *, is_storable: bool = True
) -> dict[str, Any]:
    """The JSON object in a body; an empty body is an empty object.

    UNSUPPORTED_MEDIA_TYPE (415) for a content type other than JSON in UTF-8; INVALID_REQUEST for malformed
    JSON, more than `most_values` values, duplicate names, more than 32 levels, lone surrogates, NUL, and anything but
    an object. Without `is_storable`, lone surrogates and NUL pass: the caller leaves them out. Numbers with a point or
    an exponent become Decimal. NaN, Infinity and endless numbers become a Decimal that no field accepts, so that the
    refusal names the field.
    """
    if not body:
        return {}
    if request.mimetype != JSON or not _is_utf8(request):
        raise ServiceError(Code.UNSUPPORTED_MEDIA_TYPE, "The request body must be application/json in UTF-8")
    return parsed(body, partial(_parse_object, most_values=most_values, is_storable=is_storable))


def _parse_object(body: bytes, most_values: int, *, is_storable: bool) -> dict[str, Any]:
    marks = value_marks(body)
    if marks > most_values and has_more_values(body, most_values):
        raise ServiceError(Code.INVALID_REQUEST, f"The request body has more than {most_values:,} values")
    document = _parse_json(body)
    if not isinstance(document, dict):
        raise ServiceError(Code.INVALID_REQUEST, "The request body must be a JSON object")
    if marks > _MAX_DEPTH and is_deeper(document, _MAX_DEPTH):
        raise _too_deep()
    if is_storable and b"\\u" in body and (escape := unstorable_escape(body)):
        # Text that cannot be written as UTF-8 (half a surrogate pair) cannot be stored either.
        what = "contains a NUL character" if escape == b"\\u0000" else "is not valid JSON"
        raise ServiceError(Code.INVALID_REQUEST, f"The request body {what}")
    return document


def _parse_json(body: bytes) -> Any:
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except json.JSONDecodeError as error:
        sentence = f"The request body is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise ServiceError(Code.INVALID_REQUEST, sentence) from None
    except DuplicateNameError:
        raise ServiceError(Code.INVALID_REQUEST, _sentence_about_duplicate(body.decode("utf-8"))) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise ServiceError(Code.INVALID_REQUEST, "The request body is not valid JSON") from None


def _too_deep() -> ServiceError:
    return ServiceError(Code.INVALID_REQUEST, f"The request body is nested deeper than {_MAX_DEPTH} levels")


def read_yaml_text(request: Request, body: bytes) -> str | None:
    """The text of a body that calls itself YAML; None for any other, also for an empty one.

    UNSUPPORTED_MEDIA_TYPE (415) for another charset than UTF-8, INVALID_REQUEST for what is not UTF-8.
    """
    if not body or request.mimetype != YAML:
        return None
    if not _is_utf8(request):
        raise ServiceError(Code.UNSUPPORTED_MEDIA_TYPE, "The request body must be application/yaml in UTF-8")
    try:
        return body.decode("utf-8")
    except ValueError:
        raise ServiceError(Code.INVALID_REQUEST, "The request body is not valid YAML: it is not UTF-8") from None


def _is_utf8(request: Request) -> bool:
    return request.mimetype_params.get("charset", "utf-8").lower() in ("utf-8", "utf8")


def load_query(schema: Schema, request: Request) -> dict[str, Any]:
    """The checked query; INVALID_REQUEST for a repeated parameter."""
    if not request.query_string:
        return dict(_loaded_from_nothing(schema))
    # A plus in a query means a space, but people type phone numbers with a plus.
    request.query_string = request.query_string.replace(b"=+256", b"=%2B256")
    require_readable_query(request)
    twice = [name for name, values in request.args.lists() if len(values) > 1]
    if twice:
        raise ServiceError(Code.INVALID_REQUEST, f"{shown_name(twice[0])}: Is given twice.")
    return load(schema, request.args.to_dict())


@cache
def _loaded_from_nothing(schema: Schema) -> dict[str, Any]:
    return load(schema, {})


def load(schema: Schema, document: Mapping[str, Any]) -> dict[str, Any]:
    """Load a document with `schema`. Raises FieldError with the code of the first field that is wrong."""
    try:
        loaded: dict[str, Any] = schema.load(document)
    except ValidationError as error:
        raise _refusal(schema, error.messages_dict, document) from None
    return loaded


def read_idempotency_key(request: Request) -> str | None:
    """The `Idempotency-Key` header, if there is one; INVALID_REQUEST unless it is 1 to 255 printable characters."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not _IDEMPOTENCY_KEY.fullmatch(key):
        raise ServiceError(Code.INVALID_REQUEST, "Idempotency-Key: Must be 1 to 255 printable ASCII characters.")
    return key


def _sentence_about_duplicate(text: str) -> str:
    twice = duplicate_name(text)
    if twice is None:
        return "The request body is not valid JSON: a name is given twice"
    name, place = shown_name(twice.name), f"(line {twice.line}, column {twice.column})"
    return f"The request body is not valid JSON: the name `{name}` is given twice in one object {place}"


def _decimal(text: str) -> Decimal:
    """A number with every digit; infinite, so that it fits nowhere, when it is endless or a Decimal cannot hold it."""
    try:
        return Decimal(text) if len(text) <= _MOST_DECIMALS else _fitting_nowhere(text)
    except InvalidOperation:
        return _fitting_nowhere(text)


def _whole(text: str) -> int | Decimal:
    return int(text) if len(text) <= _MOST_DIGITS else _fitting_nowhere(text)


def _fitting_nowhere(_: str) -> Decimal:
    return Decimal("Infinity")


def _refusal(schema: Schema, problems: Mapping[str, Any], document: Mapping[str, Any]) -> FieldError:
    """The refusal for the first field, in the order of the schema, that has a problem."""
    declared = {field.data_key or name: field for name, field in schema.fields.items()}
    name = next((name for name in declared if name in problems), next(iter(problems)))
    # A missing field is an incomplete request, also where its own code is another one.
    code = getattr(declared.get(name), "refusal", "INVALID_REQUEST") if name in document else "INVALID_REQUEST"
    return FieldError(Code[code], f"{shown_name(name)}: {_first_sentence(problems[name])}")


def _first_sentence(problem: Any) -> str:
    while isinstance(problem, dict | list):
        problem = next(iter(problem.values() if isinstance(problem, dict) else problem))
    return str(problem)


_DECODER = json.JSONDecoder(
    object_pairs_hook=object_of_pairs, parse_constant=_fitting_nowhere, parse_float=_decimal, parse_int=_whole
)
