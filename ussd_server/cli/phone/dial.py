"""`dial`: a phone in the terminal, connected to a running server or to a menu file."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click
from rich.console import Console

from ussd_server.cli.commands import command, program, show, wants_json
from ussd_server.cli.names import KnownFile, TypedNumber
from ussd_server.cli.phone.menu import draw_phone, load
from ussd_server.menus.document.document import DocumentError, parse
from ussd_server.menus.engine.navigator import SessionFacts
from ussd_server.menus.text import Budget, measure
from ussd_server.menus.tools.simulator import Simulator, World
from ussd_server.outbound.transport import Transport
from ussd_server.settings import read_settings

_TIMEOUT_SECONDS = 10.0
_PREFIXES = {"CON ": False, "END ": True}


@dataclass(frozen=True, slots=True)
class PhoneScreen:
    """A screen on the phone; `node` is empty when it is not known."""

    message: str
    ends: bool
    node: str = ""


class GatewayConversation:
    """A session with a running server, over its gateway path, in the format of Africa's Talking."""

    def __init__(self, base_url: str, path: str, facts: SessionFacts, entries: str, key: dict[str, str]) -> None:
        """`key` holds the headers of an API key, with which the present node is queried; it may be empty."""
        self._base_url = base_url.rstrip("/")
        self._path = path
        self._facts = facts
        self._text = entries
        self._key = key
        self._transport = Transport()

    def dial(self) -> PhoneScreen:
        """Send the first step."""
        screen = self._post()
        if screen.ends and self._key and not screen.node:
            click.echo(
                f"No session began: no menu answers {self._facts.service_code} here. "
                f"`{program()} codes list --client NAME` shows the codes of a client; "
                f"`{program()} codes assign CODE --client NAME --menu MENU` gives one to a menu.",
                err=True,
            )
        return screen

    def send(self, entry: str) -> PhoneScreen:
        """Send the whole history with one entry more."""
        self._text = f"{self._text}*{entry}" if self._text else entry
        return self._post()

    def _post(self) -> PhoneScreen:
        form = {
            "sessionId": self._facts.session_id,
            "phoneNumber": self._facts.phone_number,
            "networkCode": self._facts.network,
            "serviceCode": self._facts.service_code,
            "text": self._text,
        }
        reply = self._transport.exchange(
            "POST",
            self._base_url + self._path,
            timeout_seconds=_TIMEOUT_SECONDS,
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            body=urlencode(form).encode(),
        )
        if reply.status is None:
            raise click.ClickException(f"Nothing answers at {self._base_url}; is the server running?")
        body = reply.body.decode("utf-8", "replace")
        if reply.status != 200 or body[:4] not in _PREFIXES:
            raise click.ClickException(f"The server refuses this channel (HTTP {reply.status}).")
        return PhoneScreen(body[4:], _PREFIXES[body[:4]], self._node())

    def _node(self) -> str:
        if not self._key:
            return ""
        query = urlencode({"phone_number": self._facts.phone_number, "limit": 1})
        reply = self._transport.exchange(
            "GET", f"{self._base_url}/api/ussd/sessions?{query}", timeout_seconds=_TIMEOUT_SECONDS, headers=self._key
        )
        if reply.status != 200:
            return ""
        sessions: list[dict[str, str]] = json.loads(reply.body)["data"]["items"]
        return sessions[0]["node"] if sessions and sessions[0]["service_code"] == self._facts.service_code else ""


class FileConversation:
    """A session with a menu file, simulated in memory: every balance is 0, every payment is accepted."""

    def __init__(self, raw: Any, facts: SessionFacts, entries: str, answers: Mapping[str, Any]) -> None:
        try:
            document = parse(raw)
        except DocumentError as error:
            raise click.ClickException(f"The menu cannot be read: {error}") from None
        self._simulator = Simulator(document, facts, World(answers=answers))
        self._entries = entries

    def dial(self) -> PhoneScreen:
        """Begin the simulated session."""
        self._simulator.dial(tuple(self._entries.split("*")) if self._entries else ())
        return self._screen()

    def send(self, entry: str) -> PhoneScreen:
        """Send one entry."""
        self._simulator.send(entry)
        return self._screen()

    def _screen(self) -> PhoneScreen:
        for node in self._simulator.unanswered:
            click.echo(
                f"The server of `{node}` was not called; the session goes on as after an error. "
                f"Give its answer with --answer {node}=JSON.",
                err=True,
            )
        self._simulator.unanswered.clear()
        last = self._simulator.screen
        return PhoneScreen(last.text, last.ends, last.node)


Conversation = GatewayConversation | FileConversation


def _read_answers(_context: click.Context, _parameter: click.Parameter, typed: tuple[str, ...]) -> dict[str, Any]:
    answers = {}
    for each in typed:
        node, _, answer = each.partition("=")
        try:
            answers[node] = json.loads(answer)
        except ValueError:
            raise click.BadParameter(f"""{each!r} must be NODE=JSON, such as office='{{"open": true}}'""") from None
    return answers


@command(example="'*165#' --phone +256770000000")
@click.argument("code")
@click.option("--phone", required=True, metavar="+256...", type=TypedNumber(), help="The number of the phone.")
@click.option("--network", default="64110", show_default=True, help="The code of the mobile network.")
@click.option("--text", "entries", default="", metavar="1*5000", help="Entries sent with the first step, joined by *.")
@click.option("--base-url", metavar="URL", help="The address of the server. Default: from demo.json.")
@click.option("--channel", metavar="PATH", help="The gateway path. Default: from demo.json.")
@click.option(
    "--menu",
    "menu_file",
    type=KnownFile(),
    metavar="FILE",
    help="Use the menu in FILE instead of a server.",
)
@click.option(
    "--answer",
    "answers",
    multiple=True,
    metavar="NODE=JSON",
    callback=_read_answers,
    help="With --menu: what the client's server answers at an http or handover node; repeat it for more.",
)
def dial(
    code: str,
    phone: str,
    network: str,
    entries: str,
    base_url: str | None,
    channel: str | None,
    menu_file: Path | None,
    answers: Mapping[str, Any],
) -> None:
    """Dial CODE, such as '*165#', and reply to the screens.

    On a terminal a phone is drawn; Ctrl-D hangs up. Otherwise every line of the input is an entry, and the screens are
    printed as text.
    """
    facts = SessionFacts(phone, code, network, f"dial-{secrets.token_hex(8)}")
    conversation = (
        FileConversation(load(menu_file), facts, entries, answers)
        if menu_file
        else _server_conversation(facts, entries, base_url, channel)
    )
    if wants_json():
        show({"screens": [_to_json(screen) for screen in _talk(conversation)]}, "")
    elif sys.stdin.isatty() and sys.stdout.isatty():
        _talk_on_terminal(conversation, phone)
    else:
        for screen in _talk(conversation):
            click.echo(f"{screen.message}\n-- {_caption(screen)}\n")


def _server_conversation(
    facts: SessionFacts, entries: str, base_url: str | None, channel: str | None
) -> GatewayConversation:
    """Return a session with the named server, or with the one in `demo.json` in the data folder."""
    file = read_settings(find_data=True).data_dir / "demo.json"
    try:
        demonstration: dict[str, str] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        demonstration = {}
    base_url, path = base_url or demonstration.get("base_url"), channel or demonstration.get("gateway_path")
    if not base_url or not path:
        raise click.ClickException(
            f"There is no {file} to dial by; name --base-url and --channel, or --menu, or set USSD_DATA_DIR."
        )
    # The key belongs to the demonstration; it is never sent for another channel.
    key = {} if channel else {"x-api-key": demonstration["apikey"], "x-api-secret": demonstration["apisecret"]}
    return GatewayConversation(base_url, path, facts, entries, key)


def _talk(conversation: Conversation) -> Iterator[PhoneScreen]:
    """Yield the screens of a session whose entries are the lines of the standard input."""
    screen = conversation.dial()
    yield screen
    for entry in sys.stdin:
        if screen.ends:
            return
        screen = conversation.send(entry.rstrip("\r\n"))
        yield screen


def _talk_on_terminal(conversation: Conversation, phone: str) -> None:
    """Draw the phone and send what the user types."""
    console = Console(highlight=False)
    screen = conversation.dial()
    while True:
        used, limit, unit = _measure(screen.message)
        console.print(draw_phone(screen.message, f"{phone}  {screen.node}".strip(), budget=limit, used=used, unit=unit))
        if screen.ends:
            return
        try:
            entry = console.input("Reply: ")
        except (EOFError, KeyboardInterrupt):
            console.print("\nHung up.")
            return
        screen = conversation.send(entry)


def _measure(message: str) -> tuple[int, int, str]:
    size = measure(message)
    return size.units, Budget().limit_of(size), size.unit


def _caption(screen: PhoneScreen) -> str:
    used, limit, unit = _measure(screen.message)
    details = [f"{used} of {limit} {unit}", screen.node, "ended" if screen.ends else ""]
    return ", ".join(each for each in details if each)


def _to_json(screen: PhoneScreen) -> dict[str, Any]:
    used, _, unit = _measure(screen.message)
    return {**asdict(screen), unit: used}
