"""The examples of the OpenAPI document: what a scenario sent, what the service replied, and what webhooks receive."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.documents.player import Player
from tests.documents.scenario import play
from tests.documents.steady import steady
from tests.support.real_service.service import Service
from tests.support.stand_ins import airtel_settings
from ussd_server.status import Code

PAGE = Path(__file__).resolve().parents[2] / "ussd_server/api/examples.json"
_Json = dict[str, Any]
_SECRET_FIELDS = {"apisecret", "secret", "access_token", "refresh_token", "service_identifier"}
_LONGEST_SHOWN, _LONGEST_LIST = 160, 2
# They are documents themselves, or hold measurements.
_WITHOUT_EXAMPLES = {"show_api_document", "show_menu_schema", "show_docs", "show_metrics"}
# No known request causes this one.
_NEVER_PLAYED = {Code.INTERNAL_ERROR}


def played_examples() -> _Json:
    """Play the scenario against the real service and return the examples. LookupError for what was not played."""
    with tempfile.TemporaryDirectory() as folder:
        # A provider is switched on for the callbacks; the scenario sends it nothing.
        provider = airtel_settings("http://127.0.0.1:1")
        service = Service(
            Path(folder) / "data", USSD_ALLOW_PRIVATE_ADDRESSES="1", USSD_SMS_ADAPTER="sandbox", **provider
        )
        try:
            player = Player(service)
            play(player)
        finally:
            service.stop()
    if forgotten := _unplayed(player):
        raise LookupError("Nothing was played for: " + ", ".join(forgotten))
    return _examples_of(player)


def written_examples() -> _Json:
    """Return the examples that the service has."""
    written: _Json = json.loads(PAGE.read_text(encoding="utf-8"))
    return written


def write_examples(examples: _Json) -> None:
    """Replace the examples that the service has."""
    PAGE.write_text(json.dumps(examples, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _unplayed(player: Player) -> list[str]:
    played = {name for name, _ in player.played}
    names = [operation.name for operation in player.operations if operation.name not in played]
    return names + [code.error for code in Code if code not in _NEVER_PLAYED and code.error not in player.refused]


def _examples_of(player: Player) -> _Json:
    requests: _Json = {}
    replies: dict[str, _Json] = {}
    management: dict[str, dict[str, _Json]] = {}
    for (name, status), exchange in player.played.items():
        if name not in _WITHOUT_EXAMPLES:
            if isinstance(exchange.body, dict):
                requests.setdefault(name, exchange.body)
            replies.setdefault(name, {})[str(status)] = exchange.answer
    for (name, status, message), exchange in player.management.items():
        management.setdefault(name, {}).setdefault(str(status), {})[message] = exchange.answer
    found = {
        "requests": requests,
        "replies": replies,
        "errors": {code.error: player.refused[code.error].answer for code in Code if code not in _NEVER_PLAYED},
        "management_errors": management,
    }
    examples: _Json = json.loads(steady(json.dumps(_shortened(found), ensure_ascii=False)))
    return examples


def _shortened(value: Any, name: str = "") -> Any:
    """Cut secrets and long texts; keep the beginning of long lists."""
    if isinstance(value, dict):
        return {key: _shortened(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value[:_LONGEST_LIST]]
    if name == "password":
        return "…"
    if isinstance(value, str) and name in _SECRET_FIELDS:
        return value[:10] + "…"
    if isinstance(value, str) and len(value) > _LONGEST_SHOWN:
        return value[:60] + "…"
    return value
