"""Tokens: accepted only if this service signed them, for their purpose, and until they expire."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest

from ussd_server.security.key_ring import Keyring
from ussd_server.security.secrets_file import Ring
from ussd_server.security.tokens import ACCESS_SECONDS, AccessClaims, RefreshClaims, Tokens
from ussd_server.status import Code, ServiceError

NOW = datetime(2026, 11, 20, 8, 15, 30, tzinfo=UTC)
CLAIMS = AccessClaims(user_id="a-user", client_id="a-client", login_id="a-login")


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring.create(tmp_path / "secrets.json")


@pytest.fixture
def tokens(keyring: Keyring) -> Tokens:
    return Tokens(keyring)


def test_an_access_token_is_read_back_until_it_expires(tokens: Tokens) -> None:
    token = tokens.issue_access(CLAIMS, NOW)
    assert tokens.read_access(token, NOW) == CLAIMS
    assert tokens.read_access(token, NOW + timedelta(seconds=ACCESS_SECONDS - 1)) == CLAIMS
    assert tokens.read_access(token, NOW + timedelta(seconds=ACCESS_SECONDS)) is None


def test_any_jwt_library_reads_an_access_token(tokens: Tokens, keyring: Keyring) -> None:
    token = tokens.issue_access(CLAIMS, NOW)
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "kid": keyring.newest(Ring.TOKENS).id, "typ": "JWT"}
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 900
    assert (claims["sub"], claims["client_id"], claims["login_id"]) == ("a-user", "a-client", "a-login")


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_a_forged_token_is_refused(tokens: Tokens, keyring: Keyring) -> None:
    key = keyring.newest(Ring.TOKENS)
    good = jwt.decode(tokens.issue_access(CLAIMS, NOW), options={"verify_signature": False})

    def signed(
        claims: dict[str, Any], material: bytes = key.material, kid: Any = key.id, algorithm: str = "HS256"
    ) -> str:
        return jwt.encode(claims, material, algorithm=algorithm, headers={"kid": kid})

    assert tokens.read_access(signed(good), NOW) == CLAIMS
    forged = [
        signed(good, b"x" * 32),
        signed(good, kid="gone"),
        signed(good, algorithm="HS512"),
        signed({**good, "aud": "another"}),
        signed({**good, "iss": "another"}),
        signed({**good, "exp": "never"}),
        signed(good, keyring.newest(Ring.SIGNING).material, keyring.newest(Ring.SIGNING).id),
        *[signed({name: value for name, value in good.items() if name != missing}) for missing in good],
    ]
    assert [tokens.read_access(token, NOW) for token in forged] == [None] * len(forged)


def test_a_token_without_a_signature_is_refused(tokens: Tokens, keyring: Keyring) -> None:
    token = tokens.issue_access(CLAIMS, NOW)
    header, payload, signature = token.split(".")
    for algorithm in ("none", "None", "NONE", "RS256", ""):
        for kid in (keyring.newest(Ring.TOKENS).id, None, 5, [], {}):
            unsigned = _segment({"alg": algorithm, "typ": "JWT", "kid": kid})
            for end in ("", signature):
                assert tokens.read_access(f"{unsigned}.{payload}.{end}", NOW) is None
    assert tokens.read_access(f"{header}.{payload}.", NOW) is None
    changed = _segment({**jwt.decode(token, options={"verify_signature": False}), "client_id": "another"})
    assert tokens.read_access(f"{header}.{changed}.{signature}", NOW) is None


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "a.b.c", "é", "\ud800", "\x00", "null", "e30.e30.e30", "W10.W10.W10", "=" * 100, "." * 10_000],
)
def test_a_text_that_is_no_token_is_refused(text: str, tokens: Tokens) -> None:
    assert tokens.read_access(text, NOW) is None
    assert tokens.read_refresh(text) is None


def test_a_deeply_nested_token_is_refused(tokens: Tokens) -> None:
    nested = base64.urlsafe_b64encode(b"[" * 20_000).decode().rstrip("=")
    assert tokens.read_access(f"{nested}.{nested}.x", NOW) is None


def test_tokens_outlive_a_renewal_of_the_keys_until_the_old_ones_are_dropped(tokens: Tokens, keyring: Keyring) -> None:
    access, refresh = tokens.issue_access(CLAIMS, NOW), tokens.issue_refresh(RefreshClaims("a-login", 3))
    keyring.add_keys()
    assert tokens.read_access(access, NOW) == CLAIMS
    assert tokens.read_refresh(refresh) == RefreshClaims("a-login", 3)
    newer = tokens.issue_access(CLAIMS, NOW)
    assert jwt.get_unverified_header(newer)["kid"] != jwt.get_unverified_header(access)["kid"]
    keyring.drop_keys_before(keyring.newest_ids())
    assert tokens.read_access(access, NOW) is None
    assert tokens.read_refresh(refresh) is None
    assert tokens.read_access(newer, NOW) == CLAIMS


def test_no_signed_text_serves_another_purpose(tokens: Tokens) -> None:
    refresh = tokens.issue_refresh(RefreshClaims("a-login", 0))
    identifier = tokens.service_identifier("a-client", NOW)
    cursor = tokens.cursor("audit", "a-position")
    assert tokens.read_cursor("audit", cursor) == "a-position"
    assert tokens.read_refresh(identifier) is None
    assert tokens.read_refresh(cursor) is None
    for kind, text in [
        ("audit", refresh),
        ("audit", identifier),
        ("transactions", cursor),
        ("audit", ""),
        ("", cursor),
    ]:
        with pytest.raises(ServiceError) as refusal:
            tokens.read_cursor(kind, text)
        assert refusal.value.code is Code.INVALID_REQUEST


def _segment(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
