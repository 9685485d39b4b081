"""docs/GATEWAYS.md names the fields that each adapter reads and writes, and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ussd_server.gateways import ADAPTERS
from ussd_server.gateways.fields import RequestFields
from ussd_server.gateways.messages import Action, GatewayReply, GatewayScreen, HandsetCall

_PAGE = (Path(__file__).parents[2] / "docs/GATEWAYS.md").read_text(encoding="utf-8")
_GATEWAYS = sorted({adapter.name for adapter in ADAPTERS.values()})
_CALL = HandsetCall("ATUid_1", "+256772123456", "*165#", "64110")
_WORDS = {"true", "false", "Initiation", "Response", "Release", "Timeout", "begin", "input", "end", "abort", "timeout"}


def row(heading: str, gateway: str) -> str:
    section = _PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(rf"^\| `{gateway}` \|(.*)\|$", section, re.MULTILINE)
    assert len(cells) == 1, f"docs/GATEWAYS.md needs a row of `{gateway}` under {heading!r}"
    return str(cells[0])


def test_every_gateway_stands_on_the_page() -> None:
    for name in ADAPTERS:
        assert f"`{name}`" in _PAGE


@pytest.mark.parametrize("gateway", _GATEWAYS)
def test_the_fields_that_an_adapter_reads_are_listed(gateway: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()

    class Recording(RequestFields):
        def value(self, name: str, longest: int = 40) -> str:
            read.add(name)
            return super().value(name, longest)

        def word(self, name: str) -> str:
            read.add(name)
            return super().word(name)

        def has(self, name: str) -> bool:
            read.add(name)
            return super().has(name)

    monkeypatch.setattr(f"{ADAPTERS[gateway].__module__}.RequestFields", Recording)
    ADAPTERS[gateway].read(ADAPTERS[gateway].request_of(_CALL, cumulative=None))
    listed = set(re.findall(r"`(.*?)`", row("Fields of a step", gateway)))
    assert read <= listed
    assert listed - read <= _WORDS
    if ADAPTERS[gateway].sends_events:
        read.clear()
        report = ADAPTERS[gateway].hang_up(_CALL)
        assert report is not None
        ADAPTERS[gateway].read_event(report)
        assert all(f"`{name}`" in _PAGE.partition("; the server reads")[2].partition(", never")[0] for name in read)


@pytest.mark.parametrize("gateway", _GATEWAYS)
def test_the_fields_that_an_adapter_writes_are_listed(gateway: str) -> None:
    step = ADAPTERS[gateway].read(ADAPTERS[gateway].request_of(_CALL, cumulative=None))
    listed = row("Fields of the reply", gateway)
    for action in Action:
        reply = ADAPTERS[gateway].write(GatewayScreen(action, "Welcome"), step)
        for name, value in written(reply).items():
            assert f"`{name}`" in listed
            assert not isinstance(value, str) or value in {"Welcome", "N", "0"} or name in _ECHOED or value in listed


_ECHOED = {"serviceCode", "msisdn", "MSISDN", "sessionID", "statusCode", "statusMessage", "transactionId"}


def written(reply: GatewayReply) -> dict[str, object]:
    """Return the names in a reply, with their values."""
    text = reply.body.decode()
    if text.startswith("{"):
        parsed = json.loads(text)
        return {**parsed, **parsed.get("data", {})}
    return dict(reply.headers) if reply.headers else {text[:4]: None}
