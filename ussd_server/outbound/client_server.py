"""Calls of `http` and `handover` nodes to clients' servers: signed, bounded, to allowed addresses only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from ussd_server.outbound.signature import Signature
from ussd_server.outbound.transport import HttpExchange, Transport, TransportFailure
from ussd_server.parsing.json_text import parsed

_MAX_ANSWER_BYTES = 64 * 1024
_MAX_SCREEN_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Handover:
    """One step of a conversation that the client's server drives. `text` is all that was typed since the handover."""

    session_id: str
    phone_number: str
    service_code: str
    network: str
    language: str
    entry: str = field(repr=False)
    text: str = field(repr=False)


class NoAnswerError(Exception):
    """The client's server sent no usable reply; `timed_out` when it was too slow."""

    def __init__(self, *, timed_out: bool = False) -> None:
        super().__init__()
        self.timed_out = timed_out


class ClientServer:
    def __init__(self, transport: Transport) -> None:
        """`transport` must have an address guard."""
        self._transport = transport

    def fetch(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Any,
        signature: Signature,
        timeout_seconds: float,
    ) -> Any:
        """Send JSON (no body when `body` is None) and return the JSON of a 2xx reply. Raises NoAnswerError."""
        written = b"" if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        own = {"Content-Type": "application/json"} if written else {}
        if method != "GET":
            own["Idempotency-Key"] = signature.call_id
        return read_json(self._exchange(method, url, {**headers, **own}, written, signature, timeout_seconds))

    def hand_over(
        self, url: str, protocol: str, step: Handover, signature: Signature, timeout_seconds: float
    ) -> tuple[str, bool]:
        """Send a step to the server. Returns its screen and whether the session ends with it. Raises NoAnswerError.

        `protocol` is `neutral` (JSON both ways) or `africastalking` (a form, answered with `CON ` or `END `).
        """
        if protocol == "africastalking":
            form = {
                "sessionId": step.session_id,
                "phoneNumber": step.phone_number,
                "networkCode": step.network,
                "serviceCode": step.service_code,
                "text": step.text,
            }
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            body = urlencode(form).encode()
            return _plain_screen(self._exchange("POST", url, headers, body, signature, timeout_seconds))
        document = {
            "session_id": step.session_id,
            "phone_number": step.phone_number,
            "service_code": step.service_code,
            "network": step.network,
            "language": step.language,
            "entry": step.entry,
            "text": step.text,
        }
        answer = self.fetch("POST", url, {}, document, signature, timeout_seconds)
        if not isinstance(answer, dict) or answer.get("action") not in ("continue", "end"):
            raise NoAnswerError
        return _screen(answer.get("message", answer.get("text")), ends=answer["action"] == "end")

    def _exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        signature: Signature,
        timeout_seconds: float,
    ) -> bytes:
        if timeout_seconds <= 0:
            raise NoAnswerError(timed_out=True)
        answer: HttpExchange = self._transport.exchange(
            method,
            url,
            timeout_seconds=timeout_seconds,
            headers={**headers, **signature.headers(body)},
            body=body,
            max_body_bytes=_MAX_ANSWER_BYTES,
        )
        if answer.trouble is not None or answer.status is None or not 200 <= answer.status < 300:
            raise NoAnswerError(timed_out=answer.trouble is TransportFailure.TIMEOUT)
        return answer.body


def read_json(body: bytes) -> Any:
    """The document in a reply. Raises NoAnswerError for no JSON."""
    try:
        return parsed(body, _read)
    except (ValueError, RecursionError):
        raise NoAnswerError from None


def _read(body: bytes) -> Any:
    return json.loads(body.decode(), parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> Any:
    """Refuse NaN and Infinity, which are no JSON."""
    raise ValueError(name)


def _plain_screen(body: bytes) -> tuple[str, bool]:
    """A screen as Africa's Talking takes it; servers in the field add blanks around it and call it HTML."""
    try:
        action, _, text = body.decode("utf-8-sig").strip().partition(" ")
    except ValueError:
        raise NoAnswerError from None
    if action not in ("CON", "END"):
        raise NoAnswerError
    return _screen(text, ends=action == "END")


def _screen(text: Any, *, ends: bool) -> tuple[str, bool]:
    if not isinstance(text, str) or len(text) > _MAX_SCREEN_CHARACTERS:
        raise NoAnswerError
    return text, ends
