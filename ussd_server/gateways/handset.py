"""The other side of each gateway: its requests for a phone in the console, and its reading of our replies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

from ussd_server.gateways.messages import Action, GatewayReply, GatewayRequest, GatewayScreen, HandsetCall

_CONTINUES = {"CON ": Action.CONTINUE, "END ": Action.END}


class HandsetFormat(Protocol):
    """Writes the requests of one gateway. `sends_events`: an ended call is reported to the channel's events path."""

    sends_events: bool

    def step(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        """Write the request of the newest entry, or of the dialled code. `cumulative` is the channel's option."""
        ...

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        """Write the report that the subscriber hung up; None where the gateway sends none."""
        ...

    def read(self, reply: GatewayReply) -> GatewayScreen:
        """Read a reply to a step."""
        ...


class _AfricasTalking:
    sends_events = True

    def step(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        text = _newest(call, call.dialled) if cumulative is False else _history(call)
        return _form(self._fields(call) | {"text": text})

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        return _form(self._fields(call) | {"status": "Incomplete", "hopsCount": str(len(call.entries) + 1)})

    def read(self, reply: GatewayReply) -> GatewayScreen:
        text = reply.body.decode()
        return GatewayScreen(_CONTINUES[text[:4]], text[4:])

    @staticmethod
    def _fields(call: HandsetCall) -> dict[str, str]:
        return {
            "sessionId": call.session_id,
            "phoneNumber": call.phone_number,
            "networkCode": call.network,
            "serviceCode": call.service_code,
        }


class _PlainJson:
    sends_events = False

    def step(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        text = _history(call) if cumulative else _newest(call, call.dialled)
        return self._post(call, "input" if call.entries else "begin", text, len(call.entries) + 1)

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        return self._post(call, "end", "", len(call.entries) + 2)

    def read(self, reply: GatewayReply) -> GatewayScreen:
        body = json.loads(reply.body)
        return GatewayScreen(Action(body["action"]), body["message"])

    @staticmethod
    def _post(call: HandsetCall, kind: str, text: str, sequence: int) -> GatewayRequest:
        return _json(
            {
                "session_id": call.session_id,
                "phone_number": call.phone_number,
                "service_code": call.service_code,
                "network": call.network,
                "text": text,
                "kind": kind,
                "sequence": sequence,
            }
        )


class _Comviva:
    sends_events = False

    def step(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        return _query(
            {
                "SessionID": call.session_id,
                "MSISDN": _digits(call),
                "input": _newest(call, _string(call).strip("*#")),
            }
        )

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        return _query({"SessionID": call.session_id, "msisdn": _digits(call), "clean": "clean-session", "error": "0"})

    def read(self, reply: GatewayReply) -> GatewayScreen:
        action = Action.CONTINUE if reply.headers["Freeflow"] == "FC" else Action.END
        return GatewayScreen(action, reply.body.decode())


class _DMark:
    sends_events = False

    def step(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        return _query(
            {
                "transactionId": call.session_id,
                "msisdn": _digits(call),
                "ussdServiceCode": call.service_code,
                "ussdRequestString": _newest(call, _string(call)),
                "response": "true" if call.entries else "false",
            }
        )

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        return None

    def read(self, reply: GatewayReply) -> GatewayScreen:
        body = json.loads(reply.body)
        return GatewayScreen(Action.CONTINUE if body["action"] == "request" else Action.END, body["responseString"])


class _Hubtel:
    sends_events = False

    def step(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        kind = "Response" if call.entries else "Initiation"
        return self._post(call, kind, _newest(call, _string(call)), len(call.entries) + 1)

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        return self._post(call, "Release", "", len(call.entries) + 2)

    def read(self, reply: GatewayReply) -> GatewayScreen:
        body = json.loads(reply.body)
        return GatewayScreen(Action.CONTINUE if body["Type"] == "Response" else Action.END, body["Message"])

    @staticmethod
    def _post(call: HandsetCall, kind: str, message: str, sequence: int) -> GatewayRequest:
        return _json(
            {
                "Type": kind,
                "SessionId": call.session_id,
                "Mobile": _digits(call),
                "Message": message,
                "ServiceCode": call.service_code.strip("*#"),
                "Operator": call.network,
                "Sequence": sequence,
            }
        )


class _Madapi:
    sends_events = False

    def step(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        return self._post(call, "1" if call.entries else "0", _newest(call, _string(call)))

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        return self._post(call, "4", "")

    def read(self, reply: GatewayReply) -> GatewayScreen:
        data = json.loads(reply.body)["data"]
        return GatewayScreen(Action.CONTINUE if data["userInputRequired"] else Action.END, data["inboundResponse"])

    @staticmethod
    def _post(call: HandsetCall, kind: str, text: str) -> GatewayRequest:
        return _json(
            {
                "sessionId": call.session_id,
                "messageType": kind,
                "msisdn": _digits(call),
                "serviceCode": call.service_code,
                "ussdString": text,
            }
        )


HANDSET_FORMATS: Mapping[str, HandsetFormat] = {
    "africastalking": _AfricasTalking(),
    "comviva": _Comviva(),
    "dmark": _DMark(),
    "hubtel": _Hubtel(),
    "json": _PlainJson(),
    "madapi": _Madapi(),
}
"""The formats by the name of their adapter."""


def _digits(call: HandsetCall) -> str:
    return call.phone_number.removeprefix("+")


def _string(call: HandsetCall) -> str:
    """The whole dialled string: the code with the entries that were dialled with it."""
    return f"{call.service_code.removesuffix('#')}*{call.dialled}#" if call.dialled else call.service_code


def _newest(call: HandsetCall, first: str) -> str:
    return call.entries[-1] if call.entries else first


def _history(call: HandsetCall) -> str:
    return "*".join([call.dialled, *call.entries] if call.dialled else call.entries)


def _form(fields: Mapping[str, str]) -> GatewayRequest:
    return GatewayRequest("POST", body=urlencode(fields).encode())


def _query(fields: Mapping[str, str]) -> GatewayRequest:
    return GatewayRequest("GET", query_string=urlencode(fields).encode())


def _json(members: Mapping[str, Any]) -> GatewayRequest:
    return GatewayRequest("POST", body=json.dumps(members).encode())
