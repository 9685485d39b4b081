"""One request and its answer, as the document shows them: long texts and secrets are cut."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

_SECRET_FIELDS = {"apisecret", "secret", "access_token", "refresh_token", "service_identifier"}
_LONGEST_SHOWN, _LONGEST_LINE = 160, 400
_LINES_OF_TEXT, _LINES_SHOWN = 8, 60
_WIDTH = 124
_SHOWN_HEADERS = ("Location", "Retry-After", "Idempotent-Replayed", "Allow")


@dataclass(frozen=True)
class Exchange:
    """One request that was sent and the answer that came."""

    method: str
    path: str
    body: Any
    sent: dict[str, str]
    status: int
    headers: dict[str, str]
    answer: Any

    @property
    def curl(self) -> str:
        """The request as a command; credentials stand in variables."""
        words = ["curl", "-sS", "-i"] + (["-X", self.method] if self.method not in ("GET", "POST") else [])
        lines = [shlex.join(words) + f' "$BASE{self.path}"']
        for name, value in self.sent.items():
            lines.append(f'-H "{name}: {value}"')
        if self.method == "POST" and self.body is None:
            lines.append("-X POST")
        if isinstance(self.body, str):
            lines.append(f"-d {shlex.quote(_shortened(self.body))}")
        elif self.body is not None:
            lines.append(f"-d {shlex.quote(json.dumps(_shortened(self.body), ensure_ascii=False))}")
        return " \\\n  ".join(lines)

    @property
    def reply(self) -> str:
        """The answer as it came, long texts and secrets shortened."""
        head = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        head += [f"{name}: {self.headers[name]}" for name in _SHOWN_HEADERS if name in self.headers]
        if isinstance(self.answer, str):
            lines = self.answer.splitlines()
            # Of measures the names alone: their values, and which come first, are another thing in every run.
            lines = sorted(line for line in lines if line.startswith("# HELP")) or lines
            shown = lines[:_LINES_OF_TEXT]
            text = "\n".join(line[:_LONGEST_LINE] + "…" * (len(line) > _LONGEST_LINE) for line in shown)
        else:
            lines = _laid_out(_shortened(self.answer)).splitlines()
            text = "\n".join(lines[:_LINES_SHOWN] + ["…"] * (len(lines) > _LINES_SHOWN))
        return "\n".join([*head, "", text])


def _shortened(value: Any, name: str = "") -> Any:
    """What can be shown: secrets and long texts are cut, of long lists the beginning stands."""
    if isinstance(value, dict):
        return {key: _shortened(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value[:2]] + (["…"] if len(value) > 2 else [])
    if name == "password":
        return "…"
    if isinstance(value, str) and name in _SECRET_FIELDS:
        return value[:10] + "…"
    if isinstance(value, str) and len(value) > _LONGEST_SHOWN:
        return value[:60] + "…"
    return value


def _laid_out(value: Any, indent: str = "") -> str:
    """JSON with a line for everything that fits on one."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(flat) <= _WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    deeper = indent + "  "
    if isinstance(value, list):
        return "[\n" + ",\n".join(deeper + _laid_out(item, deeper) for item in value) + f"\n{indent}]"
    items = (f"{deeper}{json.dumps(name)}: {_laid_out(item, deeper)}" for name, item in value.items())
    return "{\n" + ",\n".join(items) + f"\n{indent}}}"
