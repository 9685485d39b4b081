"""The fields of a gateway's request, parsed, bounded and normalised, and the formats of requests and replies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from unicodedata import category
from urllib.parse import unquote_to_bytes, urlencode

from ussd_server.gateways.messages import GatewayReply, GatewayRequest, StepKind, UnreadableError
from ussd_server.parsing.json_text import value_marks
from ussd_server.values import phone_number

MAX_REQUEST_BYTES = 16_384
MAX_PARAMETERS = 64
# A text of 1,000 characters, some of which take three bytes.
_MOST_ESCAPES = 1500
# Commas and brackets, in texts too.
_MOST_MARKS = 1500
MAX_SESSION_ID = 128
MAX_TEXT = 1000
MAX_VALUE = 40

# ASCII classes and `fullmatch` throughout: `\d` takes the digits of every script, and `$` a trailing newline.
SERVICE_CODE = re.compile(r"\*?([0-9]+(?:\*[0-9]+)*)#?")
SESSION_ID = re.compile(r"(?=.*[!-~])[ -~]{1,128}")
NETWORK = re.compile(r"[A-Za-z0-9_. -]+")
NUMBER = re.compile(r"[0-9]{1,9}")

UGANDAN_NETWORKS = {"airtel": "64101", "mtn": "64110", "utl": "64111", "africell": "64114"}

_KINDS = {kind.value: kind for kind in StepKind}

UNREADABLE = "\ufffd"
"""Stands in a text for what cannot be read."""

# Line ends and zero bytes around an entry; a star separates the entries of a history.
_PADDING = re.compile(r"(?:^|(?<=\*))[\0\t\r\n]+|[\0\t\r\n]+(?=\*|$)")

# Replaces the value of a name that occurs twice with different values.
CONTRADICTION = object()


class RequestFields:
    """The fields of one request. Every method that returns a value raises UnreadableError for a malformed one.

    Names ignore case, because gateways change their spelling (`MSISDN`, `msisdn`). A name with two different values is
    malformed.
    """

    def __init__(self, pairs: Iterable[tuple[str, object]]) -> None:
        self._values: dict[str, object] = {}
        for name, value in pairs:
            if self._values.setdefault(name.lower(), value) != value:
                self._values[name.lower()] = CONTRADICTION

    @classmethod
    def of_form(cls, request: GatewayRequest) -> RequestFields:
        """Parse the query of a GET or the form in a body. Raises UnreadableError for too many fields."""
        raw = _bounded(request.query_string if request.method == "GET" else request.body)
        if raw.count(b"%") > _MOST_ESCAPES:
            raise UnreadableError("the parameters have too many escapes")
        fields = raw.replace(b"+", b" ").split(b"&")
        if len(fields) > MAX_PARAMETERS:
            raise UnreadableError("the parameters are not a form")
        pairs = [field.partition(b"=") for field in fields if field]
        return cls([(_decoded(unquote_to_bytes(name)), _decoded(unquote_to_bytes(value))) for name, _, value in pairs])

    @classmethod
    def of_json(cls, request: GatewayRequest) -> RequestFields:
        """Parse a JSON object in a body. Raises UnreadableError for anything else."""
        raw = _bounded(request.body)
        if value_marks(raw) > _MOST_MARKS:
            raise UnreadableError("the body has too many values")
        try:
            parsed = json.loads(_decoded(raw).removeprefix("\ufeff"), object_pairs_hook=cls)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, RequestFields):
            raise UnreadableError("the body is not a JSON object")
        return parsed

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def is_true(self, name: str) -> bool:
        """Whether this field is JSON's `true`."""
        return self._values.get(name.lower()) is True

    def word(self, name: str) -> str:
        """Return a short text in small letters; of JSON's `true` and `false` these words."""
        value = self._values.get(name.lower())
        return (str(value) if isinstance(value, bool) else self.value(name)).lower()

    def value(self, name: str, longest: int = MAX_VALUE) -> str:
        """Return a text, or the digits of a whole number; empty when absent. At most `longest` characters."""
        value = self._values.get(name.lower())
        if value is None:
            return ""
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise UnreadableError(f"{name} is not one text")
        if len(value) > longest:
            raise UnreadableError(f"{name} is too long")
        return value

    def text(self, name: str) -> str:
        """Return a typed text of at most 1,000 characters, without line ends around entries and marks without a glyph.

        `UNREADABLE` stands for control characters and half surrogates; menus ask again for an entry that has it.
        """
        value = self.value(name, MAX_TEXT)
        if value.isprintable():
            return value
        unpadded = _PADDING.sub("", value)
        readable = (UNREADABLE if category(each) in ("Cc", "Cs") else each for each in unpadded)
        return "".join(each for each in readable if each.isprintable())

    def session_id(self, name: str) -> str:
        """Return the gateway's session id: 1 to 128 printable ASCII characters, not all of them spaces."""
        value = self.value(name, MAX_SESSION_ID)
        if not SESSION_ID.fullmatch(value):
            raise UnreadableError(f"{name} is not a session id")
        return value

    def phone_number(self, name: str) -> str:
        """Return a Ugandan number as +256 and nine digits; accepts 0772…, 256772…, +256772… and a space for `+`."""
        # The space is a plus sign that its sender forgot to encode.
        number = phone_number(re.sub("^[ +](?=[0-9])", "", self.value(name)))
        if number is None:
            raise UnreadableError(f"{name} is not a Ugandan phone number")
        return number

    def service_code(self, name: str) -> str:
        """Return a service code and add a missing star or hash; empty when absent."""
        value = self.value(name).strip(" ")
        match = SERVICE_CODE.fullmatch(value)
        if value and not match:
            raise UnreadableError(f"{name} is not a service code")
        return f"*{match[1]}#" if match else ""

    def network(self, name: str) -> str:
        """Return the network's number or the gateway's name for it; empty when malformed, because it is optional."""
        value = self.value(name, MAX_TEXT)
        if len(value) > MAX_VALUE or not NETWORK.fullmatch(value):
            return ""
        return UGANDAN_NETWORKS.get(value.lower(), value)

    def kind(self, name: str, absent: StepKind | None = None) -> StepKind:
        """Return a kind of step by its name; `absent` without one."""
        written = self.value(name)
        kind = _KINDS.get(written) if written else absent
        if kind is None:
            raise UnreadableError(f"{name} is not a kind of step")
        return kind

    def number(self, name: str) -> int | None:
        """Return a whole number of at most nine digits; None when absent."""
        value = self.value(name)
        if not value:
            return None
        if not NUMBER.fullmatch(value):
            raise UnreadableError(f"{name} is not a number")
        return int(value)


_FULL_CODE = re.compile(r"\*[0-9]+(?:\*[0-9]+)*#", re.ASCII)


def split_dialled(dialled: str, declared_code: str, codes: Iterable[str]) -> tuple[str, str]:
    """Split a dialled text (`*384*123*2*5000#`) into its service code and the entries after it (`2*5000`).

    The longest of the channel's `codes` that fits wins over the code that the gateway declares, because some gateways
    declare only the part that they sold (`384`). A code may lack its stars (`384123`) where no other code fits as it is
    written. If no code fits, returns the declared code and no entries; without one, a code that was dialled in full is
    itself the code, and none of the channel's.
    """
    entered = dialled.strip(" ").removeprefix("*").removesuffix("#")
    candidates = [code for code in [*sorted(codes, key=len, reverse=True), declared_code] if code.strip("*#")]
    for code in candidates:
        digits = code.strip("*#")
        if f"{entered}*".startswith(f"{digits}*"):
            return code, entered[len(digits) + 1 :]
    without_stars = (code for code in candidates if entered == code.strip("*#").replace("*", ""))
    # Where the channel names its codes, a full code that is none of them is not the only one of the channel.
    other_code = dialled.strip(" ") if candidates and _FULL_CODE.fullmatch(dialled.strip(" ")) else ""
    return next(without_stars, declared_code or other_code), ""


def _decoded(raw: bytes) -> str:
    """Decode UTF-8, else Windows-1252, which is Latin-1 with letters in place of control characters.

    `UNREADABLE` stands for bytes that are neither. Half surrogates stay, for `RequestFields.text`.
    """
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")


def _bounded(raw: bytes) -> bytes:
    if len(raw) > MAX_REQUEST_BYTES:
        raise UnreadableError("the request is too long")
    return raw


def plain_reply(text: str, headers: Mapping[str, str] | None = None) -> GatewayReply:
    """Return a reply in UTF-8 without a byte order mark. Unencodable characters become question marks."""
    return GatewayReply(text.encode("utf-8", "replace"), "text/plain; charset=utf-8", headers or {})


def json_reply(members: Mapping[str, object]) -> GatewayReply:
    """Return a reply as a JSON object in ASCII with escapes, which every JSON parser reads."""
    return GatewayReply(json.dumps(members).encode("ascii"), "application/json")


def form_request(fields: Mapping[str, object]) -> GatewayRequest:
    return GatewayRequest("POST", body=urlencode(fields).encode())


def query_request(fields: Mapping[str, object]) -> GatewayRequest:
    return GatewayRequest("GET", query_string=urlencode(fields).encode())


def json_request(members: Mapping[str, object]) -> GatewayRequest:
    """Return a request with a JSON object in its body."""
    return GatewayRequest("POST", body=json.dumps(members).encode())
