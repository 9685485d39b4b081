"""Writes docs/postman.json: a Postman collection of every operation, with its recorded example.

It runs from top to bottom: a login first, then each group, whose requests use the ids of earlier replies. A request
with the path `P/{transaction_id}` uses the id of the last transaction in a reply to the path `P`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from tests.documents.player import FORM

PAGE = Path(__file__).resolve().parents[2] / "docs/postman.json"
_SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
_Json = dict[str, Any]
_ABOUT = (
    "\n\nTo run it from top to bottom, set the variables that are empty. `demo.json` of a sandbox has the login, the "
    "key, the login of a second person, who approves, and `gateway_path`, which ends in `channel_secret`. "
    "`ussd-server callbacks --show-secrets` prints the paths with `callback_secret` and `secret`, and `signing_secret`."
)
_VARIABLES = {
    "base_url": "http://127.0.0.1:8000", "email": "", "password": "", "apikey": "", "apisecret": "",
    "approver_email": "", "approver_password": "", "channel_secret": "", "callback_secret": "", "secret": "",
    "signing_secret": "", "run": "1", "phone_number": "+256770000000", "code": "DEMO1042", "menu_id": "shop",
    "adapter": "africastalking", "provider": "sandbox",
}  # fmt: skip
_CREDENTIALS = {
    "apiKey": [("x-api-key", "{{%sapikey}}"), ("x-api-secret", "{{%sapisecret}}")],
    "bearer": [("Authorization", "Bearer {{%saccess_token}}")],
}


class _Step(NamedTuple):
    """A request: an operation, and how it differs from its example. `prefix` is that of the credentials' variables.

    `keeps` are variables, with the fields of the reply's data; `until` is repeated until it holds of the data.
    """

    operation: str
    title: str = ""
    prefix: str = ""
    body: Any = None
    query: tuple[tuple[str, str], ...] = ()
    keeps: tuple[tuple[str, str], ...] = ()
    until: str = ""
    before: str = ""


_TOKENS = (("access_token", "access_token"), ("refresh_token", "refresh_token"))
_APPROVER = "approver_"
_BY_APPROVER = "as the person who approves"
# The run's name keeps references apart; a period begins with the run.
_BEGINNING = 'pm.collectionVariables.set("run", `${Date.now()}`);'
_PERIOD = (
    'pm.collectionVariables.set("to", new Date().toISOString());'
    'pm.collectionVariables.set("from", new Date(Date.now() - 3600000).toISOString());'
)
# The runner waits for timers of a script.
_AGAIN = "setTimeout(() => {}, 500); pm.execution.setNextRequest(pm.info.requestId);"
_SIGNING = (
    'const id = "msg_" + pm.variables.get("run"), at = Math.floor(Date.now() / 1000);'
    'const key = CryptoJS.enc.Base64.parse(pm.variables.get("signing_secret").replace("whsec_", ""));'
    "const body = pm.variables.replaceIn(pm.request.body.raw);"
    "const signature = CryptoJS.enc.Base64.stringify(CryptoJS.HmacSHA256(`${id}.${at}.${body}`, key));"
    'pm.request.headers.add({key: "webhook-id", value: id});'
    'pm.request.headers.add({key: "webhook-timestamp", value: `${at}`});'
    'pm.request.headers.add({key: "webhook-signature", value: `v1,${signature}`});'
)
_DIALLED = (("sessionId", "ATUid_{{run}}"), ("phoneNumber", "{{phone_number}}"), ("serviceCode", "{{service_code}}"))
_FAILING = [{"phone_number": "+256770000001", "amount": 2500, "reference": "E-18"}]
_NOTICE = {"provider_transaction_id": "{{run}}", "code": "{{code}}", "amount": 5000, "phone_number": "{{phone_number}}"}


def _payouts(kind: str) -> list[_Step]:
    """Make a payout whose only row fails, approve it as another person, try the row again; make one and cancel it."""
    create, are_final = f"create{kind}_payout", 'reply.items[0].state === "failed" && reply.items[0].retry_at === null'
    return [
        _Step(create, body={"reference": f"wages{kind}-{{{{run}}}}", "items": _FAILING}),
        _Step(f"list{kind}_payouts"),
        _Step(f"get{kind}_payout"),
        _Step(f"approve{kind}_payout", prefix=_APPROVER, body={}),
        _Step(f"list{kind}_payout_items", until=are_final),
        _Step(f"retry{kind}_payout", body={}),
        _Step(create, "to be cancelled", body={"reference": f"bonus{kind}-{{{{run}}}}", "items": _FAILING}),
        _Step(f"cancel{kind}_payout"),
    ]


# The groups that need an order of their own; the others have that of the document.
_STEPS: dict[str, list[_Step]] = {
    "logins": [
        _Step("log_in", keeps=_TOKENS, before=_BEGINNING),
        _Step("refresh_login", body={"refresh_token": "{{refresh_token}}"}, keeps=_TOKENS),
        _Step(
            "log_in", _BY_APPROVER,
            body={"email": "{{approver_email}}", "password": "{{approver_password}}"},
            keeps=(("approver_access_token", "access_token"),),
        ),
        _Step(
            "create_api_key", _BY_APPROVER, _APPROVER, {"scopes": "payouts:*"},
            keeps=(("approver_apikey", "apikey"), ("approver_apisecret", "apisecret")),
        ),
    ],
    "payouts": _payouts(""),
    "client_payouts": _payouts("_client"),
    "webhooks": [
        _Step("create_webhook"), _Step("list_webhooks"), _Step("get_webhook"), _Step("enable_webhook"),
        _Step("rotate_webhook"), _Step("rotate_callbacks"), _Step("test_webhook"), _Step("list_events"),
        _Step("get_event"), _Step("redeliver_event"),
        _Step("redeliver_events", body={"from": "{{from}}", "to": "{{to}}", "only": "failed"}, before=_PERIOD),
        _Step("delete_webhook"),
    ],
    "clients": [
        _Step("show_service_identifier"), _Step("create_api_key"), _Step("list_api_keys"), _Step("get_api_key"),
        _Step("update_api_key"), _Step("get_api_key_usage"), _Step("rotate_api_key"), _Step("delete_api_key"),
        _Step("create_api_key", "to be deleted"),
        _Step("delete_api_keys", body={"api_key_ids": ["{{api_key_id}}"]}),
        _Step("create_api_key", "to be deleted by POST"),
        _Step("delete_api_keys_by_post", body={"api_key_ids": ["{{api_key_id}}"]}),
        _Step("list_requests"), _Step("get_request"), _Step("list_audit_events"), _Step("log_out"),
    ],
}  # fmt: skip
# The facts of requests in the order of the document.
_FACTS = {
    step.operation: step
    for step in (
        _Step("create_transaction", query=(("wait", "20"),)),
        _Step("find", query=(("q", "order-1001"),)),
        _Step("get_subscriber", query=(("phone_number", "{{phone_number}}"),)),
        _Step("begin_session", keeps=(("service_code", "service_code"),)),
        _Step("replay_menu", body={"session_ids": ["{{session_id}}"]}),
        _Step("take_step_get", query=_DIALLED),
        _Step("take_step_post", body=dict(_DIALLED) | {"text": "1"}),
        _Step("take_report", body=dict(_DIALLED) | {"status": "Success"}),
        _Step("receive_callback_post", body={"reference": "{{transaction_id}}"}),
        _Step("receive_callback_put", body={"reference": "{{transaction_id}}"}),
        _Step("check_payment", body={"code": "{{code}}", "amount": 5000}),
        _Step("notify_payment", body=_NOTICE, before=_SIGNING),
    )
}
# Whoever is signed out makes no further calls with the token.
_FIRST, _LAST = ["logins"], ["clients"]


def postman_files(document: _Json) -> dict[str, str]:
    """Return the collection, by its path."""
    operations = {
        stated["operationId"]: (method, path, stated)
        for path, methods in document["paths"].items()
        for method, stated in methods.items()
    }
    names = [tag["name"] for tag in document["tags"]]
    groups = sorted(names, key=lambda name: (name not in _FIRST, name in _LAST))
    kept = _kept_ids(operations)
    folders = []
    for name in groups:
        of_group = [each for each, (_, _, stated) in operations.items() if stated["tags"][0] == name]
        steps = _STEPS.get(name, [_FACTS.get(each, _Step(each)) for each in of_group])
        items = [_item(step, *operations[step.operation], kept) for step in steps]
        folders.append({"name": name.replace("_", " ").capitalize(), "item": items})
    collection = {
        "info": {"name": "USSD server", "description": document["info"]["description"] + _ABOUT, "schema": _SCHEMA},
        "variable": [{"key": key, "value": value} for key, value in _VARIABLES.items()],
        "item": [folder for folder in folders if folder["item"]],
    }
    return {str(PAGE): json.dumps(collection, indent=1, ensure_ascii=False) + "\n"}


def _kept_ids(operations: dict[str, tuple[str, str, _Json]]) -> dict[str, str]:
    """The variable in which the id in a reply of each path is kept: the last one of a path below it."""
    below = (re.fullmatch(r"(.*)/{(\w+)}", path) for _, path, _ in operations.values())
    return {match[1]: match[2] for match in below if match and match[2] not in _VARIABLES}


def _item(step: _Step, method: str, path: str, stated: _Json, kept: dict[str, str]) -> _Json:
    schemes = [scheme for each in stated["security"] for scheme in each]
    headers = [(key, value % step.prefix) for each in schemes for key, value in _CREDENTIALS.get(each, ())]
    body, kind = _body(step, stated)
    parts = re.sub(r"{(\w+)}", r":\1", path).strip("/").split("/")
    request = {
        "method": method.upper(),
        "description": stated["description"],
        "header": [{"key": key, "value": value} for key, value in (*headers, ("Content-Type", kind))],
        "url": {
            "raw": "{{base_url}}/" + "/".join(parts),
            "host": ["{{base_url}}"],
            "path": parts,
            "variable": [{"key": each, "value": f"{{{{{each}}}}}"} for each in re.findall(r"{(\w+)}", path)],
            "query": _query(step, stated),
        },
    }
    if body is not None:
        request["body"] = body
    scripts = {"prerequest": step.before, "test": _checks(step, kept.get(path) if method != "delete" else None)}
    return {
        "name": f"{stated['summary']} {step.title}".strip(),
        "request": request,
        "event": [
            {"listen": when, "script": {"type": "text/javascript", "exec": script.splitlines()}}
            for when, script in scripts.items()
            if script
        ],
    }


def _query(step: _Step, stated: _Json) -> list[_Json]:
    sent = dict(step.query)
    described = {each["name"]: each["description"] for each in stated["parameters"] if each["in"] == "query"}
    return [
        {"key": name, "value": sent.get(name, ""), "disabled": name not in sent, "description": about}
        for name, about in (dict.fromkeys(sent, "") | described).items()
    ]


def _body(step: _Step, stated: _Json) -> tuple[_Json | None, str]:
    """The body and its media type. References are those of the run, because each is unique for ever."""
    content = stated.get("requestBody", {}).get("content", {})
    kind, media = next(iter(content.items()), ("application/json", {}))
    body = media.get("example") if step.body is None else step.body
    if body is None:
        return None, kind
    if kind == FORM:
        fields = [{"key": key, "value": value} for key, value in body.items()]
        return {"mode": "urlencoded", "urlencoded": fields}, kind
    own = {"reference": f"{body.get('reference')}-{{{{run}}}}", "email": "{{email}}", "password": "{{password}}"}
    if step.body is None:
        body = body | {name: value for name, value in own.items() if name in body}
    raw = json.dumps(body, indent=2, ensure_ascii=False)
    return {"mode": "raw", "raw": raw, "options": {"raw": {"language": "json"}}}, kind


def _checks(step: _Step, kept_id: str | None) -> str:
    """The script after a request: it was accepted, what later requests need is kept, and what is awaited is so."""
    keeps = {variable: f"reply.{field}" for variable, field in step.keeps}
    if kept_id:
        keeps[kept_id] = f"one.{kept_id} || one.id"
    lines = ['pm.test("accepted", () => pm.expect(pm.response.code).to.be.oneOf([200, 201]));']
    if keeps or step.until:
        lines.append("const reply = pm.response.json().data;")
    if kept_id:
        lines.append("const one = reply.items ? reply.items[0] : Array.isArray(reply) ? reply[0] : reply;")
    lines += [f'pm.collectionVariables.set("{name}", {value});' for name, value in keeps.items()]
    if step.until:
        lines.append(f"if (!({step.until})) {{ {_AGAIN} }}")
    return "\n".join(lines)
