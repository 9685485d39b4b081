"""Gateways that a table describes: what they send in one request, and what they read in one reply.

The table is `gateway.toml` in the folder of the gateway:

    format = "json"                     # or "form", or "query"
    network = "mtn"                     # where it carries one network and does not say so

    [request]                           # each field that the server reads
    id = "{session}"
    phone = "{digits}"
    text = "{dialled}"
    new = {begin = true, input = false}

    [reply]                             # an object of JSON, or {continue = "CON {screen}", end = "END {screen}"}
    text = "{screen}"
    more = {continue = true, end = false}

Of a request: `{session}`; `{number}` with its plus sign or `{digits}`; `{code}`, or `{bare_code}` without its first
star and its hash; `{network}`; `{sequence}`; `{echo}`, which the reply repeats; and one text. `{dialled}` is the newest
entry and first the dialled text, `{entry}` is first only what was dialled after the code, and `{history}` is all
entries joined with `*`. A table of kinds says what a value means: `begin`, `input`, `end`, `abort`, `timeout`, several
values in a list; `otherwise` is the kind of any other value. Without kinds, an empty text begins.

A reply knows `{screen}`, `{session}`, `{number}`, `{digits}`, `{code}` and `{echo}`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ussd_server.gateways.fields import (
    UGANDAN_NETWORKS,
    RequestFields,
    form_request,
    json_reply,
    json_request,
    plain_reply,
    query_request,
    split_dialled,
)
from ussd_server.gateways.messages import (
    AS_DOCUMENTED,
    Action,
    ChannelOptions,
    Gateway,
    GatewayReply,
    GatewayRequest,
    GatewayScreen,
    HandsetCall,
    StepKind,
    UnreadableError,
    UssdStep,
)

_WRITERS = {"json": json_request, "form": form_request, "query": query_request}
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
# Each name that a request may have in braces, and what of the step it is.
_PARTS = {
    **{name: name for name in ("session", "network", "sequence", "echo")},
    **dict.fromkeys(["number", "digits"], "number"),
    **dict.fromkeys(["code", "bare_code"], "code"),
    **dict.fromkeys(["dialled", "entry", "history"], "text"),
}
_REQUIRED = {"session", "number", "text"}
_IN_REPLIES = {"screen", "session", "number", "digits", "code", "echo"}


class TableGateway(Gateway):
    """A gateway with its table. Raises ValueError for a table that says too little, or something unknown."""

    def __init__(self, name: str, table: Mapping[str, Any]) -> None:
        self.name = name
        if table["format"] not in _WRITERS:
            raise ValueError(f"{name}: format must be one of {', '.join(_WRITERS)}")
        self._is_json = table["format"] == "json"
        self._write_request = _WRITERS[table["format"]]
        self._network = UGANDAN_NETWORKS[table["network"]] if "network" in table else ""
        self._request: dict[str, Any] = table["request"]
        placeholders = {field: _placeholder(value) for field, value in self._request.items() if isinstance(value, str)}
        unknown = set(placeholders.values()) - _PARTS.keys()
        self._fields = {_PARTS[each]: field for field, each in placeholders.items() if each not in unknown}
        if unknown or not self._fields.keys() >= _REQUIRED:
            raise ValueError(f"{name}: request needs {', '.join(sorted(_REQUIRED))}, and has {placeholders}")
        self._text_placeholder = placeholders[self._fields["text"]]
        self._kind_field = next((field for field, value in self._request.items() if isinstance(value, dict)), None)
        self._kinds, self._otherwise = _kinds(self._request[self._kind_field]) if self._kind_field else ({}, None)
        self._replies = {action: _of_action(table["reply"], action) for action in Action}
        if not _placeholders(list(self._replies.values())) <= _IN_REPLIES:
            raise ValueError(f"{name}: reply knows {', '.join(sorted(_IN_REPLIES))}")
        if not all("screen" in _placeholders(reply) for reply in self._replies.values()):
            raise ValueError(f"{name}: a reply without {{screen}} shows subscribers nothing")

    def read(self, request: GatewayRequest, options: ChannelOptions = AS_DOCUMENTED) -> UssdStep:
        fields = RequestFields.of_json(request) if self._is_json else RequestFields.of_form(request)
        cumulative = self._text_placeholder == "history" and options.cumulative is not False
        text = fields.text(self._fields["text"])
        if cumulative:
            text = text.lstrip("*")
        kind = self._kind(fields, text)
        code = fields.service_code(self._fields["code"]) if "code" in self._fields else ""
        if kind is StepKind.BEGIN and self._text_placeholder == "dialled":
            code, text = split_dialled(text, code, options.codes)
        return UssdStep(
            provider_session_id=fields.session_id(self._fields["session"]),
            phone_number=fields.phone_number(self._fields["number"]),
            service_code=code,
            network=fields.network(self._fields["network"]) if "network" in self._fields else self._network,
            kind=kind,
            text=text,
            cumulative=cumulative,
            sequence=fields.number(self._fields["sequence"]) if "sequence" in self._fields else None,
            echo=fields.value(self._fields["echo"]) if "echo" in self._fields else "",
        )

    def write(self, screen: GatewayScreen, step: UssdStep | None) -> GatewayReply:
        number = step.phone_number if step else ""
        values = {
            "screen": screen.text,
            "session": step.provider_session_id if step else "",
            "number": number,
            "digits": number.removeprefix("+"),
            "code": step.service_code if step else "",
            "echo": step.echo if step else "",
        }
        reply = _filled(self._replies[screen.action], values)
        return plain_reply(reply) if isinstance(reply, str) else json_reply(reply)

    def request_of(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        first = call.string if self._text_placeholder == "dialled" else call.dialled
        is_history = self._text_placeholder == "history" and cumulative is not False
        text = call.history if is_history else call.newest(first)
        return self._post(call, StepKind.INPUT if call.entries else StepKind.BEGIN, text, len(call.entries) + 1)

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        kinds = self._kinds.values()
        kind = next((kind for kind in (StepKind.ABORT, StepKind.END) if kind in kinds), None)
        return None if kind is None else self._post(call, kind, "", len(call.entries) + 2)

    def screen_of(self, reply: GatewayReply) -> GatewayScreen:
        written = json.loads(reply.body) if reply.content_type == "application/json" else reply.body.decode()
        screens = ((action, _screen_in(template, written)) for action, template in self._replies.items())
        return next(GatewayScreen(action, text) for action, text in screens if text is not None)

    def _kind(self, fields: RequestFields, text: str) -> StepKind:
        if self._kind_field is None:
            return StepKind.INPUT if text else StepKind.BEGIN
        kind = self._kinds.get(fields.word(self._kind_field), self._otherwise)
        if kind is None:
            raise UnreadableError(f"{self._kind_field} is not a kind of step")
        return kind

    def _post(self, call: HandsetCall, kind: StepKind, text: str, sequence: int) -> GatewayRequest:
        values: dict[str, object] = {
            "session": call.session_id,
            "number": call.phone_number,
            "digits": call.digits,
            "code": call.service_code,
            "bare_code": call.service_code.strip("*#"),
            "network": call.network,
            "sequence": sequence,
            "echo": "",
            self._text_placeholder: text,
        }
        members = {field: values.get(_placeholder(value)) for field, value in self._request.items()}
        if self._kind_field is not None:
            members[self._kind_field] = _listed(self._request[self._kind_field][kind.value])[0]
        return self._write_request(members)


def read_gateway(folder: Path) -> TableGateway:
    """Return the gateway whose table is in a folder of its name.

    Raises ValueError, which names the folder, for a table that describes none.
    """
    try:
        return TableGateway(folder.name, tomllib.loads((folder / "gateway.toml").read_text(encoding="utf-8")))
    except KeyError as missing:
        raise ValueError(f"{folder}/gateway.toml: {missing} is missing or unknown") from None
    except (ValueError, TypeError, AttributeError) as why:
        raise ValueError(f"{folder}/gateway.toml: {why}") from None


def _placeholder(template: object) -> str:
    """The name in braces that a field of a request consists of; empty for anything else."""
    match = _PLACEHOLDER.fullmatch(template) if isinstance(template, str) else None
    return match[1] if match else ""


def _kinds(table: Mapping[str, Any]) -> tuple[dict[str, StepKind], StepKind | None]:
    """Return the kinds by their values in small letters, and the kind of any other value."""
    otherwise = StepKind(table["otherwise"]) if "otherwise" in table else None
    kinds = {
        str(value).lower(): StepKind(kind)
        for kind, values in table.items()
        if kind != "otherwise"
        for value in _listed(values)
    }
    return kinds, otherwise


def _listed(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values]


def _of_action(template: Any, action: Action) -> Any:
    if not isinstance(template, dict):
        return template
    if template.keys() == set(Action):
        return template[action]
    return {name: _of_action(value, action) for name, value in template.items()}


def _placeholders(template: Any) -> set[str]:
    if isinstance(template, dict | list):
        parts = template.values() if isinstance(template, dict) else template
        return set().union(*map(_placeholders, parts))
    return set(_PLACEHOLDER.findall(template)) if isinstance(template, str) else set()


def _filled(template: Any, values: Mapping[str, str]) -> Any:
    if isinstance(template, dict):
        return {name: _filled(value, values) for name, value in template.items()}
    # In one pass, because a screen may itself hold a name in braces.
    return _PLACEHOLDER.sub(lambda name: values[name[1]], template) if isinstance(template, str) else template


def _screen_in(template: Any, written: Any) -> str | None:
    """The screen in a reply that was written by this template, empty without one; None where another one wrote it."""
    if isinstance(template, dict):
        screens = [_screen_in(value, written[name]) for name, value in template.items()]
        return None if None in screens else max((each for each in screens if each is not None), key=len)
    if not isinstance(template, str):
        return "" if template == written else None
    before, placeholder, _ = template.partition("{screen}")
    if placeholder:
        return str(written).removeprefix(before) if str(written).startswith(before) else None
    return "" if template == written or "{" in template else None
