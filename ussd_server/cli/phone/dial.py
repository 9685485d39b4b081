"""`dial`: a phone in the terminal, in conversation with a running server or with a menu file alone."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

import click
from rich.console import Console

from ussd_server.cli import show, with_json
from ussd_server.cli.phone.handset import draw
from ussd_server.cli.phone.menu import load
from ussd_server.menus.document.document import DocumentError, parse
from ussd_server.menus.document.variables import SessionFacts
from ussd_server.menus.text.gsm7 import measure
from ussd_server.menus.tools.simulator import Simulator, World
from ussd_server.outbound.transport import Transport
from ussd_server.settings import read_settings

_TIMEOUT_SECONDS = 10.0
_PREFIXES = {"CON ": False, "END ": True}
_BUDGETS = {"gsm7": (160, "septets"), "ucs2": (70, "characters")}


@dataclass(frozen=True, slots=True)
class Shown:
    """A screen on the phone; `node` is empty where nobody tells."""

    message: str
    ends: bool
    node: str = ""


class Conversation(Protocol):
    """What is at the other end."""

    def dial(self) -> Shown:
        """Begin a call."""
        ...

    def send(self, entry: str) -> Shown:
        """Type something."""
        ...


class GatewayConversation:
    """A running server, reached by its gateway path as Africa's Talking would."""

    def __init__(self, base_url: str, path: str, facts: SessionFacts, entries: str, key: dict[str, str]) -> None:
        """`key` holds the headers of an API key that may be asked for the node; it may be empty."""
        self._base_url = base_url.rstrip("/")
        self._path = path
        self._facts = facts
        self._text = entries
        self._key = key
        self._transport = Transport()

    def dial(self) -> Shown:
        """Send the first step."""
        return self._post()

    def send(self, entry: str) -> Shown:
        """Send the whole history with one entry more."""
        self._text = f"{self._text}*{entry}" if self._text else entry
        return self._post()

    def _post(self) -> Shown:
        form = {
            "sessionId": self._facts.session_id,
            "phoneNumber": self._facts.phone_number,
            "networkCode": self._facts.network,
            "serviceCode": self._facts.service_code,
            "text": self._text,
        }
        answer = self._transport.exchange(
            "POST",
            self._base_url + self._path,
            timeout_seconds=_TIMEOUT_SECONDS,
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            body=urlencode(form).encode(),
        )
        if answer.status is None:
            raise click.ClickException(f"Nothing answers at {self._base_url}; is the server running?")
        body = answer.body.decode("utf-8", "replace")
        if answer.status != 200 or body[:4] not in _PREFIXES:
            raise click.ClickException(f"The server refuses this channel (HTTP {answer.status}).")
        return Shown(body[4:], _PREFIXES[body[:4]], self._node())

    def _node(self) -> str:
        if not self._key:
            return ""
        query = urlencode({"phone_number": self._facts.phone_number, "limit": 1})
        answer = self._transport.exchange(
            "GET", f"{self._base_url}/api/ussd/sessions?{query}", timeout_seconds=_TIMEOUT_SECONDS, headers=self._key
        )
        if answer.status != 200:
            return ""
        sessions: list[dict[str, str]] = json.loads(answer.body)["data"]["items"]
        return sessions[0]["node"] if sessions else ""


class FileConversation:
    """A menu file alone, with a world in memory where nobody has money and every payment is accepted."""

    def __init__(self, raw: Any, facts: SessionFacts, entries: str) -> None:
        try:
            document = parse(raw)
        except DocumentError as error:
            raise click.ClickException(f"The menu cannot be read: {error}") from None
        self._simulator = Simulator(document, facts, World())
        self._entries = entries

    def dial(self) -> Shown:
        """Begin the rehearsal."""
        self._simulator.dial(tuple(self._entries.split("*")) if self._entries else ())
        return self._shown()

    def send(self, entry: str) -> Shown:
        """Go on with the rehearsal."""
        self._simulator.send(entry)
        return self._shown()

    def _shown(self) -> Shown:
        screen = self._simulator.screen
        return Shown(screen.text, screen.ends, screen.node)


@click.command
@click.argument("code")
@click.option("--phone", required=True, metavar="+256...", help="The number of the phone.")
@click.option("--network", default="64110", show_default=True, help="The phone company's number.")
@click.option("--text", "entries", default="", metavar="1*5000", help="Entries dialled along with the code.")
@click.option("--base-url", metavar="URL", help="Where the server is; by default where demo.json says.")
@click.option("--channel", metavar="PATH", help="The gateway path; by default the demonstration's.")
@click.option(
    "--menu",
    "menu_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Talk to the menu in FILE instead of a server.",
)
@with_json
def dial(
    code: str,
    phone: str,
    network: str,
    entries: str,
    base_url: str | None,
    channel: str | None,
    menu_file: Path | None,
    as_json: bool,
) -> None:
    """Dial CODE, such as '*165#', and answer the screens.

    On a terminal a phone is drawn; Ctrl-D hangs up. Otherwise every line of the input is an entry, and the screens are
    printed as they are.
    """
    facts = SessionFacts(phone, code, network, f"dial-{secrets.token_hex(8)}")
    line = (
        FileConversation(load(menu_file), facts, entries)
        if menu_file
        else _server_line(facts, entries, base_url, channel)
    )
    if as_json:
        show({"screens": [_told(shown) for shown in _talk(line)]}, "", as_json=True)
    elif sys.stdin.isatty() and sys.stdout.isatty():
        _hold(line, phone)
    else:
        for shown in _talk(line):
            click.echo(f"{shown.message}\n-- {_caption(shown)}\n")


def _server_line(facts: SessionFacts, entries: str, base_url: str | None, channel: str | None) -> Conversation:
    """The server that is named, or the one that `demo.json` in the data folder tells of."""
    try:
        told: dict[str, str] = json.loads((read_settings().data_dir / "demo.json").read_text())
    except (FileNotFoundError, ValueError):
        told = {}
    base_url, path = base_url or told.get("base_url"), channel or told.get("gateway_path")
    if not base_url or not path:
        raise click.ClickException("There is no demo.json to dial by; name --base-url and --channel, or --menu.")
    # The key is the demonstration's, and nobody else's channel is told of it.
    key = {} if channel else {"x-api-key": told["apikey"], "x-api-secret": told["apisecret"]}
    return GatewayConversation(base_url, path, facts, entries, key)


def _talk(line: Conversation) -> Iterator[Shown]:
    """The screens of a conversation whose entries are the lines of the standard input."""
    shown = line.dial()
    yield shown
    for written in sys.stdin:
        if shown.ends:
            return
        shown = line.send(written.rstrip("\r\n"))
        yield shown


def _hold(line: Conversation, phone: str) -> None:
    """Draw the phone and let a person answer it."""
    console = Console(highlight=False)
    shown = line.dial()
    while True:
        used, limit, unit = _measure(shown.message)
        console.print(draw(shown.message, f"{phone}  {shown.node}".strip(), budget=limit, used=used, unit=unit))
        if shown.ends:
            return
        try:
            entry = console.input("Reply: ")
        except (EOFError, KeyboardInterrupt):
            console.print("\nHung up.")
            return
        shown = line.send(entry)


def _measure(message: str) -> tuple[int, int, str]:
    size = measure(message)
    limit, unit = _BUDGETS[size.encoding]
    return size.units, limit, unit


def _caption(shown: Shown) -> str:
    used, limit, unit = _measure(shown.message)
    told = [f"{used} of {limit} {unit}", shown.node, "ended" if shown.ends else ""]
    return ", ".join(part for part in told if part)


def _told(shown: Shown) -> dict[str, Any]:
    used, _, unit = _measure(shown.message)
    return {**asdict(shown), unit: used}
