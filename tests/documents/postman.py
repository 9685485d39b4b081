"""Writes docs/postman.json: a Postman collection of every operation, with its recorded example."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.documents.player import FORM

PAGE = Path(__file__).resolve().parents[2] / "docs/postman.json"
_SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
_Json = dict[str, Any]
_VARIABLES = {"base_url": "http://127.0.0.1:8000", "apikey": "", "apisecret": "", "access_token": ""}
_CREDENTIALS = {
    "apiKey": [("x-api-key", "{{apikey}}"), ("x-api-secret", "{{apisecret}}")],
    "bearer": [("Authorization", "Bearer {{access_token}}")],
}
# Later requests use the token of the last login.
_KEEP_TOKEN = (
    'if (pm.response.code === 200) pm.collectionVariables.set("access_token", pm.response.json().data.access_token);'
)
_LOGINS = {"log_in", "refresh_login"}


def postman_files(document: _Json) -> dict[str, str]:
    """Return the collection, by its path."""
    folders: dict[str, list[_Json]] = {}
    for path, methods in document["paths"].items():
        for method, stated in methods.items():
            folders.setdefault(stated["tags"][0], []).append(_item(path, method, stated))
    collection = {
        "info": {"name": "USSD server", "description": document["info"]["description"], "schema": _SCHEMA},
        "variable": [{"key": key, "value": value} for key, value in _VARIABLES.items()],
        "item": [{"name": name.replace("_", " ").capitalize(), "item": items} for name, items in folders.items()],
    }
    return {str(PAGE): json.dumps(collection, indent=1, ensure_ascii=False) + "\n"}


def _item(path: str, method: str, stated: _Json) -> _Json:
    segments = [{"key": each, "value": ""} for each in re.findall(r"{(\w+)}", path)]
    parts = re.sub(r"{(\w+)}", r":\1", path).strip("/").split("/")
    query = [
        {"key": each["name"], "value": "", "disabled": not each.get("required"), "description": each["description"]}
        for each in stated.get("parameters", [])
        if each["in"] == "query"
    ]
    schemes = [scheme for each in stated["security"] for scheme in each]
    headers = [header for scheme in schemes for header in _CREDENTIALS.get(scheme, [])]
    content = stated.get("requestBody", {}).get("content", {})
    kind = next(iter(content), "application/json")
    request = {
        "method": method.upper(),
        "description": stated["description"],
        "header": [{"key": key, "value": value} for key, value in (*headers, ("Content-Type", kind))],
        "url": {
            "raw": "{{base_url}}/" + "/".join(parts),
            "host": ["{{base_url}}"],
            "path": parts,
            "variable": segments,
            "query": query,
        },
    }
    if kind == FORM:
        fields = [{"key": key, "value": value} for key, value in content[kind]["example"].items()]
        request["body"] = {"mode": "urlencoded", "urlencoded": fields}
    elif content:
        example = next(iter(content.values())).get("example")
        raw = "" if example is None else json.dumps(example, indent=2, ensure_ascii=False)
        request["body"] = {"mode": "raw", "raw": raw, "options": {"raw": {"language": "json"}}}
    item = {"name": stated["summary"], "request": request}
    if stated["operationId"] in _LOGINS:
        item["event"] = [{"listen": "test", "script": {"type": "text/javascript", "exec": [_KEEP_TOKEN]}}]
    return item
