"""The scenario: every endpoint and every refusal, in the order in which a client meets them."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from standardwebhooks import Webhook

from tests.documents.player import FORM, Player
from ussd_server.security.key_ring import Keyring
from ussd_server.security.tokens import Tokens
from ussd_server.status import Code

_MENU = {
    "id": "shop", "title": "ACME", "start": "root", "default_language": "en", "languages": ["en"],
    "vars": {"amount": {"type": "amount", "max_len": 6}},
    "nodes": {
        "root": {
            "type": "menu", "text": {"en": "Welcome to ACME"},
            "options": [{"label": {"en": "Pay"}, "goto": "amount"}],
        },
        "amount": {
            "type": "input", "text": {"en": "Enter amount (UGX)"}, "var": "amount",
            "validate": [{"rule": "amount", "min": 500, "max": 999999}], "goto": "sure",
        },
        "sure": {"type": "confirm", "text": {"en": "Pay UGX {{vars.amount|ugx}}?"}, "yes": "pay", "no": "root"},
        "pay": {
            "type": "pay", "kind": "collection", "amount": "vars.amount", "phone_number": "session.phone_number",
            "accepted": {"end": {"en": "Approve the prompt on your phone."}}, "rejected": {"goto": "bye"},
        },
        "bye": {"type": "end", "text": {"en": "Goodbye"}},
    },
}  # fmt: skip
_FORM = {"Content-Type": FORM}
_CLOCKS_APART_SECONDS = 0.05
_TOO_LARGE = '{"description": "' + "x" * 70_000 + '"}'


def play(player: Player) -> None:
    """Play everything, from the login to the rate limit."""
    play_key_management(player)
    play_money(player)
    play_incoming(player)
    play_payouts(player)
    play_conversations(player)
    play_menus(player)
    play_messages(player)
    play_webhooks(player)
    play_machines(player)
    play_refusals(player)


def play_key_management(player: Player) -> None:
    """Sign in, manage keys, sign out."""
    known = player.service.demonstration
    login = {"email": known["email"], "password": known["password"]}
    first = player.send("POST", "/api/clients/login", login)["data"]
    second = player.send("POST", "/api/clients/token/refresh", {"refresh_token": first["refresh_token"]})["data"]
    player.token = second["access_token"]
    player.manage("GET", "/service-identifier")
    wanted = {"scopes": "transactions:* balance:read", "expires_at": None}
    keys = []
    for _ in range(5):
        keys.append(player.manage("POST", "/api-keys", wanted))
        # Lists are in order of time, and the clocks of two web processes differ by some milliseconds.
        time.sleep(_CLOCKS_APART_SECONDS)
    bounds = {"name": "Till 4", "allowed_addresses": ["192.0.2.10", "2001:db8::/32"], "daily_limit": 2_000_000}
    player.manage("PATCH", f"/api-keys/{keys[0]['id']}", bounds)
    player.manage("GET", f"/api-keys/{keys[0]['id']}")
    # What was looked at is written to the audit trail a moment later.
    player.until(lambda: player.look_as_person("/audit-events?limit=1")["items"][0]["action"] == "api_key.revealed")
    player.manage("POST", f"/api-keys/{keys[0]['id']}/rotate", {"grace_period_seconds": 3600})
    player.manage("DELETE", f"/api-keys/{keys[0]['id']}")
    patched = "/requests?path=/api/clients/api-keys/%7Bapi_key_id%7D&limit=1"
    player.until(lambda: [each["method"] for each in player.look_as_person(patched)["items"]] == ["DELETE"])
    (request,) = player.manage("GET", patched)["items"]
    player.manage("GET", f"/requests/{request['request_id']}")
    player.manage("GET", "/audit-events?limit=2")
    player.manage("GET", "/api-keys")
    missing = keys[0]["id"]
    player.manage("DELETE", "/api-keys/bulk", {"api_key_ids": [keys[1]["id"], keys[2]["id"]], "atomic": True})
    player.manage("POST", "/api-keys/bulk-delete", {"api_key_ids": [keys[3]["id"], missing]})
    _play_management_refusals(player, login, missing)
    player.send("POST", "/api/clients/token/refresh", {"refresh_token": first["refresh_token"] + "x"})


def _play_management_refusals(player: Player, login: dict[str, str], missing: str) -> None:
    """Every kind of refusal of key management; `missing` is the id of a deleted key."""
    known = player.service.demonstration
    player.manage("POST", "/api-keys", {"colour": "red"})
    player.manage("POST", "/api-keys", {"scopes": "everything"})
    player.manage("POST", "/api-keys", {}, token="stale")
    player.manage("POST", "/api-keys", "scopes=", **_FORM)
    player.manage("POST", "/api-keys", _TOO_LARGE)
    player.manage("GET", "/api-keys?page=1")
    player.manage("POST", f"/api-keys/{missing}/rotate", {})
    player.manage("PATCH", f"/api-keys/{missing}", {"colour": "red"})
    player.manage("PATCH", f"/api-keys/{missing}", {})
    player.manage("GET", f"/api-keys/{missing}")
    player.manage("DELETE", "/api-keys/not-an-id")
    player.manage("DELETE", f"/api-keys/{missing}")
    player.manage("GET", f"/payouts/{missing}")
    player.send("POST", "/api/clients/login", login | {"password": "a wrong password"})
    for is_required in (1, 0):
        with closing(sqlite3.connect(player.service.folder / "ussd.db")) as database, database:
            database.execute("UPDATE clients SET requires_second_factor = ?", (is_required,))
        if is_required:
            player.send("POST", "/api/clients/login", login)
    viewer = {"email": known["viewer_email"], "password": known["viewer_password"]}
    seen = player.send("POST", "/api/clients/login", viewer)["data"]["access_token"]
    player.manage("POST", "/api-keys", {}, token=seen)
    player.manage("GET", "/api-keys", token=seen)
    player.manage("DELETE", f"/api-keys/{missing}", token=seen)
    for method, path in (("DELETE", "/api-keys/bulk"), ("POST", "/api-keys/bulk-delete")):
        player.manage(method, path, {"api_key_ids": ["not-an-id"]})
        player.manage(method, path, {"api_key_ids": [missing], "atomic": True})
        player.manage(method, path, {"api_key_ids": [missing]}, token=seen)
    for _ in range(12):
        player.send("POST", "/api/clients/login", {"email": "unknown@client.example", "password": "a guess"})


def play_money(player: Player) -> None:
    """Collect, refund, read."""
    request = {"type": "collection", "phone_number": "+256770000000", "amount": 5000, "reference": "order-1001"}
    request |= {"description": "Order 1001", "metadata": {"basket": 17}}
    paid = player.data("POST", "/api/transactions?wait=10", request)
    player.data("POST", "/api/transactions", request)
    player.data("GET", f"/api/transactions/{paid['transaction_id']}")
    player.data("GET", "/api/transactions?type=collection&limit=1")
    player.data("GET", "/data/collection?status=succeeded&limit=1")
    player.data("GET", "/api/search?q=order-1001")
    player.data("GET", "/api/providers")
    player.data("GET", "/api/subscribers?phone_number=%2B256770000042")
    player.data("GET", f"/api/subscribers/{request['phone_number']}/history?limit=2")
    player.data("DELETE", f"/api/subscribers/{request['phone_number']}/pin")
    refund = {"amount": 1500, "reference": "order-1001-back", "reason": "Delivered too late"}
    back = player.data("POST", f"/api/transactions/{paid['transaction_id']}/refunds", refund)
    player.until(lambda: player.look(f"/api/transactions/{back['transaction_id']}")["data"]["completed_at"])
    player.data("POST", f"/api/transactions/{paid['transaction_id']}/refunds", refund)
    player.data("GET", "/api/balance")
    player.data("GET", "/api/key")
    player.data("GET", "/api/statements?limit=2")
    player.data("GET", "/api/reports/daily?date=2020-01-01")


def play_incoming(player: Player) -> None:
    """Make a payment code, pay with it at a till, read and delete it."""
    with closing(sqlite3.connect(player.service.folder / "ussd.db")) as database, database:
        database.execute("INSERT INTO payment_code_prefixes SELECT id, 'SCH' FROM clients")
    code = {"description": "School fees of Achieng", "min_amount": 1000, "max_amount": 500_000}
    player.data("PUT", "/api/payment-codes/SCH1042", code)
    player.data("GET", "/api/payment-codes/SCH1042")
    player.data("GET", "/api/payment-codes?limit=1")
    tokens = Tokens(Keyring(player.service.folder / "secrets.json"))
    path = tokens.incoming_path("sandbox")
    player.send("POST", f"{path}/check", {"code": "SCH1042", "amount": 5000})
    notice = {"provider_transaction_id": "22314599001", "code": "sch 1042", "amount": 5000}
    notice |= {"phone_number": "+256770000000", "name": "Sarah Achieng", "at": "2026-11-20T08:15:30.000Z"}
    text, now = json.dumps(notice), datetime.now(UTC)
    signature = Webhook(tokens.incoming_signing_secrets("sandbox")[-1]).sign("msg_22314599001", now, text)
    signed = {"webhook-id": "msg_22314599001", "webhook-timestamp": f"{int(now.timestamp())}"}
    player.send(
        "POST", f"{path}/notify", text, {"Content-Type": "application/json", **signed, "webhook-signature": signature}
    )
    player.data("DELETE", "/api/payment-codes/SCH1042")


def play_payouts(player: Player) -> None:
    """Draft, approve, cancel and read payouts, as a program and as people."""
    rows = [
        {"phone_number": "+256770000000", "amount": 3000, "reference": "E-17", "name": "Sarah Namubiru"},
        {"phone_number": "0770000001", "amount": 2500, "reference": "E-18"},
    ]
    wages = {"reference": "wages-47", "description": "Wages", "items": rows}
    draft = player.manage("POST", "/payouts", wages)
    player.manage("POST", "/payouts", wages)
    path = f"/api/payouts/{draft['payout_id']}"
    player.until(lambda: _names_are_compared(player, path))
    own_key, own_token = player.key, player.token
    known = player.service.demonstration
    login = {"email": known["approver_email"], "password": known["approver_password"]}
    player.token = player.send("POST", "/api/clients/login", login)["data"]["access_token"]
    approving_key_id = _take_key(player, scopes="payouts:*")
    player.data("POST", f"{path}/approve", {"total_fee": 0})
    player.key, player.token = own_key, own_token
    usage = f"/api-keys/{approving_key_id}/usage?days=7"
    player.until(lambda: player.look_as_person(usage)["items"])
    player.manage("GET", usage)
    player.until(lambda: player.look(path)["data"]["status"] == "completed")
    player.data("GET", path)
    player.data("GET", f"{path}/items")
    player.data("GET", "/api/payouts?limit=1")
    made = player.data("POST", "/api/payouts", wages | {"reference": "wages-48"})
    player.data("POST", "/api/payouts", wages | {"reference": "wages-48"})
    player.data("POST", f"/api/payouts/{made['payout_id']}/cancel", {})
    other = player.data("POST", "/api/payouts", {"reference": "wages-49", "items": rows[:1]})
    player.until(lambda: _names_are_compared(player, f"/api/payouts/{other['payout_id']}"))
    player.manage("GET", "/payouts?limit=1")
    player.manage("GET", f"/payouts/{other['payout_id']}")
    player.manage("GET", f"/payouts/{other['payout_id']}/items")
    # The person of the example has read the secret of the key, and is no second person.
    player.token = player.send("POST", "/api/clients/login", login)["data"]["access_token"]
    player.manage("POST", f"/payouts/{other['payout_id']}/approve", {"total_fee": 0, "note": "Checked"})
    player.token = own_token
    waiting = player.data("POST", "/api/payouts", {"reference": "wages-50", "items": rows[:1]})
    player.manage("POST", f"/payouts/{waiting['payout_id']}/cancel", {})
    failing = [{"phone_number": "+256770000001", "amount": 2500, "reference": "E-18"}]
    first, second = (_played_failure(player, f"wages-{number}", failing, login) for number in (51, 52))
    for _ in range(2):
        player.data("POST", f"/api/payouts/{first}/retry", {"rows": ["E-18"]})
        player.manage("POST", f"/payouts/{second}/retry", {})


def _played_failure(player: Player, reference: str, rows: list[dict[str, Any]], login: dict[str, str]) -> str:
    """A completed payout whose only row has failed for certain; return its id."""
    made: str = player.data("POST", "/api/payouts", {"reference": reference, "items": rows})["payout_id"]
    own_token = player.token
    player.token = player.send("POST", "/api/clients/login", login)["data"]["access_token"]
    player.manage("POST", f"/payouts/{made}/approve", {})
    player.token = own_token
    player.until(lambda: _has_failed(player, f"/api/payouts/{made}"))
    return made


def _has_failed(player: Player, path: str) -> bool:
    (row,) = player.look(f"{path}/items")["data"]["items"]
    return row["state"] == "failed" and row["retry_at"] is None


def _names_are_compared(player: Player, path: str) -> bool:
    rows = player.look(f"{path}/items")["data"]["items"]
    return all(row["name"] is None or row["name_match"] != "unknown" for row in rows)


def play_conversations(player: Player) -> None:
    """A session by API, and one through a gateway."""
    code = player.service.demonstration["service_code"]
    dialled = {"phone_number": "+256770000000", "service_code": code, "network": "64110"}
    session = player.data("POST", "/api/ussd/sessions", dialled)
    path = f"/api/ussd/sessions/{session['session_id']}"
    player.data("POST", f"{path}/input", {"text": "1", "turn": 1})
    player.data("GET", path)
    player.data("GET", "/api/ussd/sessions?status=active&limit=1")
    player.data("POST", f"{path}/input", {"text": "1", "turn": 7})
    player.data("DELETE", path)
    player.data("POST", f"{path}/input", {"text": "1"})
    gateway = player.service.demonstration["gateway_path"]
    phone = {"sessionId": "ATUid_1", "phoneNumber": "+256770000000", "serviceCode": code}
    step, over = phone | {"networkCode": "64110", "text": ""}, phone | {"status": "Success"}
    player.send("POST", gateway, step, _FORM)
    player.send("POST", f"{gateway}/events", over, _FORM)
    player.send("GET", f"{gateway}?{urlencode(step)}")
    tokens = Tokens(Keyring(player.service.folder / "secrets.json"))
    callback = tokens.callback_path("airtel")
    for method in ("POST", "PUT"):
        body = {"reference": "5b1f8f0e-3c44-4c0c-9d5e-6a1f2f0b7a11"}
        player.send(method, callback, body)


def play_menus(player: Player) -> None:
    """Draft, check, publish, bind, go back."""
    path, code = f"/api/ussd/menus/{_MENU['id']}", player.service.demonstration["service_code"].rstrip("#")
    player.data("PUT", path, _MENU)
    player.data("POST", f"{path}/check", _MENU)
    player.data("POST", f"{path}/publish", {})
    player.data("POST", f"{path}/publish", {})
    player.data("POST", f"{path}/rollback", {"version": 1})
    for look in ("", "/versions", "/graph"):
        player.data("GET", path + look)
    player.data("POST", f"{path}/replay", {"session_ids": ["01a20241-0b4c-7118-8dc8-8c1b064635cf"]})
    player.data("GET", "/api/ussd/menus")
    player.data("PUT", f"/api/ussd/codes/{code}", {"menu_id": _MENU["id"]})
    player.data("GET", "/api/ussd/codes")
    player.data("PUT", "/api/ussd/menus/broken", {"id": "broken", "start": "nowhere"})
    player.data("POST", "/api/ussd/menus/broken/publish", {})


def play_messages(player: Player) -> None:
    """Send a message, see it delivered, and give payments receipts."""
    body = {"phone_number": "+256770000000", "text": "Your order 1001 is ready.", "reference": "order-1001-ready"}
    sent = player.data("POST", "/api/messages", body)
    player.data("POST", "/api/messages", body)
    player.until(lambda: player.look(f"/api/messages/{sent['message_id']}")["data"]["completed_at"])
    player.data("GET", f"/api/messages/{sent['message_id']}")
    player.data("GET", "/api/messages?status=delivered&limit=1")
    player.data("POST", "/api/messages", body | {"text": "Your order 1001 is late."})
    text = "ACME received UGX {{amount|ugx}} for {{reference}}. Thank you."
    player.manage("PATCH", "/settings", {"receipts": {"collection": {"en": text}}})
    rules = [{"above": 0, "approvals": 1}, {"above": 5_000_000, "approvals": 2}]
    player.manage("PATCH", "/settings", {"approval_rules": rules})
    player.manage("GET", "/settings")
    player.manage("PATCH", "/settings", {"receipts": {"collection": {"en": "Paid by {{name}}"}}})


def play_webhooks(player: Player) -> None:
    """Create, rotate, test, redeliver and delete webhooks."""
    # Earlier events must not reach the webhook.
    player.until(lambda: "ussd_events_pending 0" in player.look("/metrics"))
    webhook = player.data(
        "POST",
        "/api/webhooks",
        {"url": "http://127.0.0.1:9090/events", "types": ["transaction.succeeded", "transaction.failed"]},
    )
    path = f"/api/webhooks/{webhook['id']}"
    player.data("GET", path)
    player.data("GET", "/api/webhooks")
    player.data("POST", f"{path}/enable")
    player.data("POST", f"{path}/rotate", {"grace_period_seconds": 3600})
    player.data("POST", "/api/webhooks/callbacks/rotate", {"grace_period_seconds": 3600})
    event = player.data("GET", "/api/events?type=transaction.succeeded&limit=1")["items"][0]
    player.data("POST", f"/api/events/{event['id']}/redeliver")
    player.until(lambda: any(one["trouble"] for one in player.look(f"/api/events/{event['id']}")["data"]["deliveries"]))
    player.data("GET", f"/api/events/{event['id']}")
    player.data("POST", f"{path}/test")
    hour = timedelta(hours=1)
    period = {"from": (datetime.now(UTC) - hour).isoformat(), "to": datetime.now(UTC).isoformat()}
    player.data("POST", "/api/events/redeliver", period | {"type": "transaction.succeeded", "only": "failed"})
    player.data("DELETE", path)


def play_machines(player: Player) -> None:
    """Health, metrics and the document."""
    for path in ("/health/live", "/health/ready", "/metrics", "/openapi.json", "/menu.schema.json", "/docs"):
        player.send("GET", path)


def play_refusals(player: Player) -> None:
    """Every error code that a request can cause."""
    request = {"type": "collection", "phone_number": "+256770000000", "amount": 5000, "reference": "order-2001"}
    player.data("POST", "/api/transactions", request | {"phone_number": "0770000000"})
    player.data("POST", "/api/transactions", request | {"amount": 1_000_000})
    player.data("POST", "/api/transactions", request | {"colour": "red"})
    player.data("POST", "/api/transactions", request | {"reference": "order-1001"})
    player.data("POST", "/api/transactions", request | {"type": "disbursement", "amount": 999_999})
    player.data("POST", "/api/transactions", request | {"provider": "mtn"})
    player.data("GET", "/api/transactions/0193a3f2-9b7c-7d4e-8f10-2a3b4c5d6e7f")
    player.data("GET", "/api/nowhere")
    player.data("PATCH", "/api/transactions")
    player.data("POST", "/api/transactions", "amount=5000", **_FORM)
    player.data("POST", "/api/transactions", _TOO_LARGE)
    _play_without_database(player, request)
    player.send("GET", "/api/balance", None, player.key | {"x-api-secret": "wrong"})
    _take_key(player, daily_limit=1000)
    player.data("POST", "/api/transactions", request | {"type": "disbursement", "reference": "wage-1"})
    _take_key(player, scopes="balance:read")
    player.data("GET", "/api/transactions")
    _take_key(player, allowed_addresses=["192.0.2.10"])
    player.data("GET", "/api/balance")
    _take_key(player, expires_at=(datetime.now(UTC) + timedelta(seconds=3)).isoformat())
    player.until_refused(Code.API_KEY_DISABLED, "GET", "/api/balance", 0.2)
    _take_key(player)
    player.until_refused(Code.RATE_LIMIT_EXCEEDED, "GET", "/api/balance")
    player.manage("POST", "/logout", {"all": True})


def _take_key(player: Player, **wanted: Any) -> str:
    """Make a key and use it from now on; return its id."""
    made = player.manage("POST", "/api-keys", wanted)
    player.key = {"x-api-key": made["apikey"], "x-api-secret": made["apisecret"]}
    return str(made["id"])


def _play_without_database(player: Player, request: dict[str, Any]) -> None:
    """Hold the write lock of SQLite until a call gives up waiting for it."""
    with closing(sqlite3.connect(player.service.folder / "ussd.db", isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        player.data("POST", "/api/transactions", request | {"reference": "order-2002"})
        player.manage("POST", "/api-keys", {})
        database.execute("ROLLBACK")
