"""A stand-in for a provider's server: its replies are raw table entries; it issues tokens and keeps the requests."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

from tests.outbound.strange_server import Visit, answer

TOKEN = {"access_token": "t-1", "token_type": "access_token", "expires_in": 3600}


@dataclass
class ProviderServer:
    """Answers by the beginning of the path; each path's answers are used up in turn, the last one stays."""

    answers: dict[str, list[bytes]]
    requests: list[bytes] = field(default_factory=list)

    def __call__(self, visit: Visit) -> None:
        while request := visit.read_request():
            self.requests.append(request)
            line = request.split(b"\r\n")[0].decode()
            path = next(path for path in self.answers if line.startswith(path))
            waiting = self.answers[path]
            reply = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            if reply == b"":
                return
            if reply == SILENCE:
                visit.fall_silent()
            visit.say(reply)

    def to(self, path: str) -> list[bytes]:
        """The requests whose line begins so."""
        return [request for request in self.requests if request.startswith(path.encode())]


HANG_UP = b""
SILENCE = b"silence"


def said(status: str, document: object = None, content_type: str = "application/json") -> bytes:
    """A response with a JSON body, or with raw bytes, or without a body."""
    body = document if isinstance(document, bytes) else b"" if document is None else json.dumps(document).encode()
    return answer(status, body, f"Content-Type: {content_type}\r\n")


class Hours:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def __call__(self) -> float:
        return self.now
