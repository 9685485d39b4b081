"""`python -m simulators.smsc --port 2775`: an operator's side of SMPP on the loopback interface, and a phone.

It takes binds as transceiver with the password. Each line of the terminal is dialled (`*384*123#`) or answers the
screen; an empty line hangs up, or ends the program where there is no session. It speaks one dialect: 15 bits of session
number and the end bit, operations 1, 18, 2 and 17, GSM 7-bit and UCS-2.
"""

import itertools
import queue
import socket
import struct
import threading
from dataclasses import dataclass, field

import click

HOST = "127.0.0.1"
_HEADER, _TLV = struct.Struct("!IIII"), struct.Struct("!HH")
_BIND, _SUBMIT, _DELIVER, _ENQUIRE, _UNBIND, _RESPONSE = 0x09, 0x04, 0x05, 0x15, 0x06, 0x80000000
_OPERATION, _SESSION = 0x0501, 0x1383
_BEGIN, _REQUEST, _CONTINUE = 1, 2, 18
_REFUSED, _UNKNOWN_COMMAND = 0x0D, 0x03
_SECONDS = 15.0
# Septets that are other characters in ASCII; enough to read a screen.
_GSM = {0x00: "@", 0x02: "$", 0x11: "_"}


@dataclass(frozen=True, slots=True)
class SmscScreen:
    """What the phone shows, and whether it may answer."""

    text: str
    goes_on: bool


@dataclass
class Smsc:
    """The operator's side. `binds` are the connections that are bound now."""

    password: str = "operator"
    binds: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._screens = queue.Queue[tuple[int, SmscScreen]]()
        self._sequence = itertools.count(1)
        self._sending = threading.Lock()

    def listen(self, port: int) -> int:
        """Take binds on a port, 0 for any; return the port."""
        listener = socket.create_server((HOST, port))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        actual: int = listener.getsockname()[1]
        return actual

    def step(self, session: int, phone: str, text: str, *, begins: bool) -> SmscScreen:
        """Send an entry or a dialled text; return the screen. Raises ConnectionError without a bind or a screen."""
        self._deliver(session, phone, _BEGIN if begins else _CONTINUE, text, ends=False)
        while True:
            try:
                number, screen = self._screens.get(timeout=_SECONDS)
            except queue.Empty:
                raise ConnectionError("No screen came.") from None
            if number == session:
                return screen

    def hang_up(self, session: int, phone: str) -> None:
        """Report that the phone ended the session."""
        self._deliver(session, phone, _CONTINUE, "", ends=True)

    def _deliver(self, session: int, phone: str, operation: int, text: str, *, ends: bool) -> None:
        if not self.binds:
            raise ConnectionError("Nobody is bound: start `ussd-server smpp`.")
        octets = text.encode("ascii", "replace")
        body = b"USSD\0\1\1" + phone.lstrip("+").encode() + b"\0\0\0\0" + b"\0" * 5 + bytes((0, 0, 0, 0, len(octets)))
        body += octets + _TLV.pack(_OPERATION, 1) + bytes((operation,))
        body += _TLV.pack(_SESSION, 2) + (session << 1 | ends).to_bytes(2)
        self._send(self.binds[-1], _DELIVER, 0, next(self._sequence), body)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while header := stream.read(_HEADER.size):
                    length, command, _, sequence = _HEADER.unpack(header)
                    self._answer(connection, command, sequence, stream.read(length - _HEADER.size))
            except (OSError, ValueError, struct.error, IndexError):
                click.echo("A connection broke.", err=True)
            finally:
                if connection in self.binds:
                    self.binds.remove(connection)

    def _answer(self, connection: socket.socket, command: int, sequence: int, body: bytes) -> None:
        if command & _RESPONSE:
            return
        status, reply = 0, b""
        if command == _BIND:
            status, reply = (0 if body.split(b"\0")[1].decode() == self.password else _REFUSED), b"smsc\0"
        elif command == _SUBMIT:
            reply = b"1\0"
        elif command not in (_ENQUIRE, _UNBIND):
            self._send(connection, _RESPONSE, _UNKNOWN_COMMAND, sequence, b"")
            return
        self._send(connection, command | _RESPONSE, status, sequence, reply)
        if command == _BIND and status == 0:
            self.binds.append(connection)
        elif command == _SUBMIT:
            self._screens.put(_screen(body))

    def _send(self, connection: socket.socket, command: int, status: int, sequence: int, body: bytes) -> None:
        with self._sending:
            connection.sendall(_HEADER.pack(_HEADER.size + len(body), command, status, sequence) + body)


def _screen(body: bytes) -> tuple[int, SmscScreen]:
    """Return the session's number and the screen of a submit_sm."""
    # service_type, source and destination; each number is followed by a zero.
    rest = body.split(b"\0", 1)[1]
    for _ in range(2):
        rest = rest[2:].split(b"\0", 1)[1]
    # esm_class, protocol_id, priority_flag, no times, registered_delivery, replace_if_present_flag.
    coding, length, rest = rest[7], rest[9], rest[10:]
    octets, rest = rest[:length], rest[length:]
    tlvs = dict[int, bytes]()
    while rest:
        tag, size = _TLV.unpack(rest[: _TLV.size])
        tlvs[tag], rest = rest[_TLV.size : _TLV.size + size], rest[_TLV.size + size :]
    text = octets.decode("utf-16-be") if coding == 8 else "".join(_GSM.get(each, chr(each)) for each in octets)
    return int.from_bytes(tlvs[_SESSION]) >> 1, SmscScreen(text, tlvs[_OPERATION][0] == _REQUEST)


@click.command()
@click.option("--port", default=2775, show_default=True, type=click.IntRange(0, 65_535))
@click.option("--password", default="operator", show_default=True)
@click.option("--phone", default="256770000000", show_default=True, help="The number of the phone.")
def main(port: int, password: str, phone: str) -> None:
    """Take binds, and dial from this terminal."""
    smsc = Smsc(password)
    click.echo(f"SMSC stand-in at smpp://{HOST}:{smsc.listen(port)}")
    for session in itertools.count(1):
        text = _line("dial")
        if not text:
            return
        begins = True
        try:
            while True:
                screen = smsc.step(session % 32_768, phone, text, begins=begins)
                click.echo(screen.text)
                begins = False
                if not screen.goes_on:
                    break
                text = _line("answer")
                if not text:
                    smsc.hang_up(session % 32_768, phone)
                    break
        except ConnectionError as why:
            click.echo(str(why), err=True)


def _line(prompt: str) -> str:
    try:
        return input(f"{prompt}> ").strip()
    except EOFError:
        return ""


if __name__ == "__main__":
    main()
