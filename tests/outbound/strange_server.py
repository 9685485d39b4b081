"""A server on loopback that sends any bytes, valid HTTP or not, and counts its connections."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

Manner = Callable[["Visit"], None]


class Visit:
    """One connection, as the server sees it."""

    def __init__(self, connection: socket.socket, number: int, closing: threading.Event) -> None:
        self.connection = connection
        self.number = number
        self.closing = closing
        self.requests: list[bytes] = []

    def read_request(self) -> bytes:
        """Read one request with its body, b'' when the client has gone."""
        request = b""
        while b"\r\n\r\n" not in request:
            piece = self.connection.recv(65536)
            if not piece:
                return b""
            request += piece
        head, _, body = request.partition(b"\r\n\r\n")
        lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        while lengths and len(body) < int(lengths[0]):
            body += self.connection.recv(65536)
        self.requests.append(head + b"\r\n\r\n" + body)
        return self.requests[-1]

    def say(self, text: bytes) -> None:
        self.connection.sendall(text)

    def say_for_ever(self, piece: bytes, pause_seconds: float = 0.0) -> None:
        """Send a piece again and again until the client disconnects or the test ends."""
        while not self.closing.wait(pause_seconds):
            self.connection.sendall(piece)

    def fall_silent(self) -> None:
        self.closing.wait()


class StrangeServer:
    """Listens on a free port and gives every connection to `manner` in its own thread."""

    def __init__(self, manner: Manner, *, host: str = "127.0.0.1", certificate: ssl.SSLContext | None = None) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=64)
        self._manner = manner
        self._certificate = certificate
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self.host = host
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"
        self.visits: list[Visit] = []
        self.server_names: list[str | None] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for visit in self.visits:
            with contextlib.suppress(OSError):
                visit.connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            visit = Visit(connection, len(self.visits) + 1, self._closing)
            self.visits.append(visit)
            self._start(self._serve, visit)

    def _serve(self, visit: Visit) -> None:
        with contextlib.suppress(OSError), visit.connection:
            if self._certificate is not None:
                self._certificate.sni_callback = self._note_server_name
                visit.connection = self._certificate.wrap_socket(visit.connection, server_side=True)
            with visit.connection:
                self._manner(visit)

    def _note_server_name(self, _: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> None:
        self.server_names.append(name)


def answer(status: str = "200 OK", body: bytes = b"", headers: str = "") -> bytes:
    """A well-formed response."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode("latin-1") + body


def polite(reply: bytes) -> Manner:
    """A manner that gives the same answer to every request of a connection."""

    def manner(visit: Visit) -> None:
        while visit.read_request():
            visit.say(reply)

    return manner
