"""Keys and secrets as things: their looks, their checksums, and the vault that keeps them."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from ussd_server.security.credentials import (
    SealBrokenError,
    Vault,
    may_be_apikey,
    may_be_apisecret,
    new_apikey,
    new_apisecret,
)
from ussd_server.security.key_ring import Keyring

CLIENT, OTHER_CLIENT = "0192e4a0-0000-7000-8000-000000000001", "0192e4a0-0000-7000-8000-000000000002"
KEY, OTHER_KEY = "0192e4a0-0000-7000-8000-00000000000a", "0192e4a0-0000-7000-8000-00000000000b"


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring.create(tmp_path / "secrets.json")


@pytest.fixture
def vault(keyring: Keyring) -> Vault:
    return Vault(keyring)


def test_a_fresh_key_is_letters_and_digits_with_a_checksum() -> None:
    keys = {new_apikey() for _ in range(1000)}
    assert len(keys) == 1000
    for key in keys:
        assert re.fullmatch(r"uk[0-9A-Za-z]{20}", key)
        assert may_be_apikey(key)


def test_any_single_mistyped_letter_of_a_key_is_told_by_the_checksum() -> None:
    key = new_apikey()
    mistyped = [
        key[:place] + letter + key[place + 1 :]
        for place in range(2, len(key))
        for letter in string.digits + string.ascii_letters
        if letter != key[place]
    ]
    # Four digits of base 62 let one in fifteen million pass.
    assert sum(map(may_be_apikey, mistyped)) <= 1


def test_swapped_letters_of_a_key_are_told_by_the_checksum() -> None:
    key = new_apikey()
    swapped = {key[:place] + key[place + 1] + key[place] + key[place + 2 :] for place in range(2, len(key) - 1)}
    assert not any(map(may_be_apikey, swapped - {key}))


def test_what_is_not_letters_and_digits_is_no_key() -> None:
    for text in ("", "short12", "x" * 65, "with space", "dash-dash", "éééééééé", "१२३४५६७८", "abcdefgh\n", "a,bcdefgh"):
        assert not may_be_apikey(text)


def test_what_cannot_stand_in_a_header_is_no_secret() -> None:
    for text in ("", "x" * 15, "x" * 129, "with a space in it", "é" * 20, "0123456789abcdef\n", "\x7f" * 16):
        assert not may_be_apisecret(text)


def test_a_fresh_secret_has_256_bits_and_a_prefix_that_scanners_know() -> None:
    secrets = {new_apisecret() for _ in range(1000)}
    assert len(secrets) == 1000
    for secret in secrets:
        assert re.fullmatch(r"ussdsk_[0-9A-Za-z]{49}", secret)
        assert may_be_apisecret(secret)
    assert 62**43 >= 2**256


def test_a_sealed_secret_opens_in_its_own_row_only(vault: Vault) -> None:
    sealed = vault.seal("the secret", CLIENT, KEY)
    assert vault.open(sealed, CLIENT, KEY) == "the secret"
    assert b"the secret" not in sealed
    for client, key in [(OTHER_CLIENT, KEY), (CLIENT, OTHER_KEY), (KEY, CLIENT), ("", "")]:
        with pytest.raises(SealBrokenError):
            vault.open(sealed, client, key)


def test_an_altered_seal_does_not_open(vault: Vault) -> None:
    sealed = vault.seal("the secret", CLIENT, KEY)
    for place in range(len(sealed)):
        with pytest.raises(SealBrokenError):
            vault.open(sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :], CLIENT, KEY)
    for rubbish in (b"", b":", b"\xff", sealed[:-1], sealed + b"x", sealed[:12]):
        with pytest.raises(SealBrokenError):
            vault.open(rubbish, CLIENT, KEY)


def test_two_seals_of_one_secret_differ(vault: Vault) -> None:
    assert vault.seal("the secret", CLIENT, KEY) != vault.seal("the secret", CLIENT, KEY)


def test_a_digest_knows_its_secret_in_its_row_only(vault: Vault) -> None:
    kept = vault.keep("the secret", "the one before", CLIENT, KEY)
    digest, house_key = kept["secret_digest"], kept["digest_key_id"]
    assert vault.matches("the secret", KEY, digest, house_key)
    assert vault.matches("the one before", KEY, kept["previous_secret_digest"], house_key)
    assert not vault.matches("the secret", OTHER_KEY, digest, house_key)
    assert not vault.matches("the one before", KEY, digest, house_key)
    assert not vault.matches("the secret", KEY, digest, "gone")
    for odd in ("é", "\ud800", "", "\x00", "\U0001f600"):
        assert not vault.matches(odd, KEY, digest, house_key)
        vault.pretend_to_match(odd)


def test_what_was_kept_before_the_keys_were_renewed_still_opens(keyring: Keyring, vault: Vault) -> None:
    kept = vault.keep("the secret", None, CLIENT, KEY)
    keyring.add_keys()
    assert vault.open(kept["secret_sealed"], CLIENT, KEY) == "the secret"
    assert vault.matches("the secret", KEY, kept["secret_digest"], kept["digest_key_id"])
    assert not vault.is_current(kept["secret_sealed"], kept["digest_key_id"])
    again = vault.keep("the secret", None, CLIENT, KEY)
    assert vault.is_current(again["secret_sealed"], again["digest_key_id"])
    keyring.drop_keys_before(keyring.newest_ids())
    with pytest.raises(SealBrokenError):
        vault.open(kept["secret_sealed"], CLIENT, KEY)
    assert not vault.matches("the secret", KEY, kept["secret_digest"], kept["digest_key_id"])
    assert vault.open(again["secret_sealed"], CLIENT, KEY) == "the secret"
