"""Phones: the same entries of a subscriber in the wire format of each gateway."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.conftest import MovableClock
from tests.support.shop import CODE, PHONE, Shop

_BARE_CODE = CODE.strip("*#")
# Just longer than an equal step counts as a repeat.
_READING_SECONDS = 2.1


class Shown(NamedTuple):
    """What the phone shows, and whether the call is over."""

    screen: str
    ends: bool


@dataclass
class Phone(ABC):
    """A phone on a channel of its own; `session` is the gateway's session id."""

    web: FlaskClient
    path: str
    clock: MovableClock
    session: str = "call-1"
    number: str = PHONE
    entries: list[str] = field(default_factory=list)

    def dial(self) -> Shown:
        """Begin a call."""
        self.entries = []
        return self._send()

    def type(self, entry: str) -> Shown:
        """Read the screen and answer it."""
        self.clock.advance(_READING_SECONDS)
        self.entries.append(entry)
        return self._send()

    def again(self) -> Shown:
        """Let the gateway send the last step again."""
        return self._send()

    @abstractmethod
    def hang_up(self) -> None:
        """End the call, as when the subscriber hangs up."""

    @abstractmethod
    def step(self) -> TestResponse:
        """Send the last step as this gateway does."""

    @abstractmethod
    def read(self, reply: TestResponse) -> Shown:
        """Read a reply as this gateway does."""

    @property
    def _last(self) -> str:
        return self.entries[-1] if self.entries else ""

    @property
    def _digits(self) -> str:
        return self.number.removeprefix("+")

    def _send(self) -> Shown:
        reply = self.step()
        assert reply.status_code == 200
        return self.read(reply)


class AfricasTalking(Phone):
    def step(self) -> TestResponse:
        return self.web.post(self.path, data=self._form(text="*".join(self.entries)))

    def read(self, reply: TestResponse) -> Shown:
        assert reply.mimetype == "text/plain"
        prefix, _, screen = reply.text.partition(" ")
        return Shown(screen, {"CON": False, "END": True}[prefix])

    def hang_up(self) -> None:
        report = self._form(status="Incomplete", date="2026-11-20 08:15:30", input="*".join(self.entries))
        assert self.web.post(f"{self.path}/events", data=report).status_code == 200

    def _form(self, **more: str) -> dict[str, str]:
        return {
            "sessionId": self.session,
            "phoneNumber": self.number,
            "networkCode": "64110",
            "serviceCode": CODE,
        } | more


class Comviva(Phone):
    def step(self) -> TestResponse:
        return self._get(MSISDN=self._digits, input=self._last if self.entries else _BARE_CODE)

    def read(self, reply: TestResponse) -> Shown:
        assert (reply.mimetype, reply.headers["charge"], reply.headers["amount"]) == ("text/plain", "N", "0")
        return Shown(reply.text, {"FC": False, "FB": True}[reply.headers["Freeflow"]])

    def hang_up(self) -> None:
        assert self._get(msisdn=self._digits, clean="clean-session", error="0").status_code == 200

    def _get(self, **query: str) -> TestResponse:
        return self.web.get(self.path, query_string={"SessionID": self.session} | query)


class Madapi(Phone):
    def step(self) -> TestResponse:
        return self._post("1" if self.entries else "0", self._last if self.entries else CODE)

    def read(self, reply: TestResponse) -> Shown:
        body = reply.json
        assert (body["statusCode"], body["transactionId"]) == ("0000", self.session)
        data = body["data"]
        assert data["inboundResponse"] == data["outboundResponse"]
        assert data["messageType"] == (1 if data["userInputRequired"] else 2)
        return Shown(data["inboundResponse"], not data["userInputRequired"])

    def hang_up(self) -> None:
        assert self._post("4", "").status_code == 200

    def _post(self, kind: str, text: str) -> TestResponse:
        body = {
            "sessionId": self.session,
            "messageType": kind,
            "msisdn": self._digits,
            "serviceCode": CODE,
            "ussdString": text,
        }
        return self.web.post(self.path, json=body)


class Dmark(Phone):
    def step(self) -> TestResponse:
        query = {
            "transactionId": self.session,
            "msisdn": self._digits,
            "ussdServiceCode": "384",
            "transactionTime": "20261120T08:15:30",
            "ussdRequestString": self._last if self.entries else CODE,
            "response": "true" if self.entries else "false",
        }
        return self.web.get(self.path, query_string=query)

    def read(self, reply: TestResponse) -> Shown:
        body = reply.json
        assert set(body) == {"responseString", "action"}
        return Shown(body["responseString"], {"request": False, "end": True}[body["action"]])

    def hang_up(self) -> None:
        """The gateway does not report it."""


class Hubtel(Phone):
    def step(self) -> TestResponse:
        if not self.entries:
            return self._post("Initiation", CODE)
        return self._post("Response", self._last)

    def read(self, reply: TestResponse) -> Shown:
        body = reply.json
        assert set(body) == {"Type", "Message", "Label", "DataType", "FieldType"}
        return Shown(body["Message"], {"Response": False, "Release": True}[body["Type"]])

    def hang_up(self) -> None:
        assert self._post("Release", "").json["Type"] == "Release"

    def _post(self, kind: str, message: str) -> TestResponse:
        body: dict[str, Any] = {
            "Type": kind,
            "SessionId": self.session,
            "Mobile": self._digits,
            "ServiceCode": _BARE_CODE,
            "Message": message,
            "Operator": "mtn",
            "Sequence": len(self.entries) + 1,
        }
        return self.web.post(self.path, json=body)


class PlainJson(Phone):
    def step(self) -> TestResponse:
        return self._post("input" if self.entries else "begin", self._last)

    def read(self, reply: TestResponse) -> Shown:
        body = reply.json
        assert set(body) == {"action", "message", "text"}
        return Shown(body["message"], {"continue": False, "end": True}[body["action"]])

    def hang_up(self) -> None:
        assert self._post("abort", "").json == {"action": "end", "message": "", "text": ""}

    def _post(self, kind: str, text: str) -> TestResponse:
        body = {
            "session_id": self.session,
            "phone_number": self.number,
            "service_code": CODE,
            "network": "64110",
            "text": text,
            "kind": kind,
            "sequence": len(self.entries) + 1,
        }
        return self.web.post(self.path, json=body)


PHONES: dict[str, type[Phone]] = {
    "africastalking": AfricasTalking,
    "comviva": Comviva,
    "madapi": Madapi,
    "dmark": Dmark,
    "hubtel": Hubtel,
    "json": PlainJson,
}

# The format of a gateway does not depend on the database, so only two gateways are tried on PostgreSQL too.
every_gateway = pytest.mark.parametrize(
    ("gateway", "database_url"),
    [*((gateway, "sqlite") for gateway in PHONES), ("africastalking", "postgres"), ("json", "postgres")],
    indirect=["database_url"],
)


def phone_of(gateway: str, shop: Shop, web: FlaskClient) -> Phone:
    """A phone on a new channel of that gateway, which has the shop's code."""
    assert isinstance(shop.services.clock, MovableClock)
    return PHONES[gateway](web, shop.channel_of(gateway, codes=(CODE,)), shop.services.clock)
