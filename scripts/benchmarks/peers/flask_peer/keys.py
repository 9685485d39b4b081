"""Key management: all keys of a client with their secrets."""

from __future__ import annotations

import os
import uuid
from datetime import timedelta
from hashlib import sha256
from typing import Any

import jwt
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from flask import Response, abort, g, jsonify, request
from marshmallow import Schema, fields

from benchmarks.peers import common
from benchmarks.peers.flask_peer.app import app, limiter
from benchmarks.peers.flask_peer.models import ApiKey, AuditEvent, Client, Login, now

_cipher = AESGCM(sha256(common.PEPPER).digest())
_NONCE_BYTES = 12


def seal(secret: str) -> bytes:
    """Encrypt a secret."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + _cipher.encrypt(nonce, secret.encode(), None)


def unseal(sealed: bytes) -> str:
    """Decrypt a secret."""
    return _cipher.decrypt(bytes(sealed[:_NONCE_BYTES]), bytes(sealed[_NONCE_BYTES:]), None).decode()


def token_for(login: Login) -> str:
    """An access token."""
    claims = {"sub": str(login.id), "exp": now() + timedelta(hours=1)}
    return jwt.encode(claims, common.PEPPER, algorithm="HS256")


class KeyRecord(Schema):
    """A key as its owner sees it."""

    id = fields.String()
    client_id = fields.String()
    apikey = fields.String()
    apisecret = fields.Function(lambda row: unseal(row.secret_sealed))
    scopes = fields.String()
    is_active = fields.Integer()
    created_at = fields.Function(lambda row: common.written(row.created_at))
    updated_at = fields.Function(lambda row: common.written(row.updated_at))
    expires_at = fields.Function(lambda row: common.written(row.expires_at))
    last_used_at = fields.Function(lambda row: common.written(row.last_used_at))


_records = KeyRecord(many=True)


@app.get("/api/clients/api-keys")
def list_keys() -> Response:
    """All keys of the client, oldest first."""
    login = _login()
    g.identity = login.id
    return _listed(login)


@limiter.limit("600 per minute; 10000 per hour")
def _listed(login: Login) -> Response:
    AuditEvent.create(client=login.client, login=login, action="api_key.listed", address=request.remote_addr)
    rows = ApiKey.select().where(ApiKey.client == login.client).order_by(ApiKey.created_at)
    return _answer(200, "API keys list", _records.dump(rows))


def _login() -> Login:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    try:
        login_id = uuid.UUID(jwt.decode(token if scheme == "Bearer" else "", common.PEPPER, ["HS256"])["sub"])
    except jwt.PyJWTError:
        abort(_answer(401, "Invalid JWT token", None))
    login = (
        Login.select(Login, Client)
        .join(Client)
        .where(Login.id == login_id, Login.ended_at.is_null(), Login.expires_at > now(), Client.is_active)
        .first()
    )
    if login is None:
        abort(_answer(401, "Invalid JWT token", None))
    return login


def _answer(status: int, message: str, data: Any) -> Response:
    response = jsonify({"status": status, "message": message, "data": data})
    response.status_code = status
    return response
