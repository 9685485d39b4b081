"""Keys and secrets: their format, their checksums, and the vault that stores them."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from ussd_server.security.credentials import may_be_apikey, may_be_apisecret, new_apikey, new_apisecret
from ussd_server.security.key_ring import DecryptionError, Keyring, Vault

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


def test_the_checksum_reveals_any_single_mistyped_letter_of_a_key() -> None:
    key = new_apikey()
    mistyped = [
        key[:place] + letter + key[place + 1 :]
        for place in range(2, len(key))
        for letter in string.digits + string.ascii_letters
        if letter != key[place]
    ]
    # Four digits of base 62 let one in fifteen million pass.
    assert sum(map(may_be_apikey, mistyped)) <= 1


def test_the_checksum_reveals_swapped_letters_of_a_key() -> None:
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


def test_a_secret_is_decrypted_in_its_own_row_only(vault: Vault) -> None:
    encrypted = vault.encrypt("the secret", CLIENT, KEY)
    assert vault.decrypt(encrypted, CLIENT, KEY) == "the secret"
    assert b"the secret" not in encrypted
    for client, key in [(OTHER_CLIENT, KEY), (CLIENT, OTHER_KEY), (KEY, CLIENT), ("", "")]:
        with pytest.raises(DecryptionError):
            vault.decrypt(encrypted, client, key)


def test_an_altered_secret_is_not_decrypted(vault: Vault) -> None:
    encrypted = vault.encrypt("the secret", CLIENT, KEY)
    for place in range(len(encrypted)):
        with pytest.raises(DecryptionError):
            vault.decrypt(encrypted[:place] + bytes([encrypted[place] ^ 1]) + encrypted[place + 1 :], CLIENT, KEY)
    for rubbish in (b"", b":", b"\xff", encrypted[:-1], encrypted + b"x", encrypted[:12]):
        with pytest.raises(DecryptionError):
            vault.decrypt(rubbish, CLIENT, KEY)


def test_two_encryptions_of_one_secret_differ(vault: Vault) -> None:
    assert vault.encrypt("the secret", CLIENT, KEY) != vault.encrypt("the secret", CLIENT, KEY)


def test_a_digest_knows_its_secret_in_its_row_only(vault: Vault) -> None:
    kept = vault.keep("the secret", "the one before", CLIENT, KEY)
    digest, master_key_id = kept["secret_digest"], kept["digest_key_id"]
    assert vault.matches("the secret", KEY, digest, master_key_id)
    assert vault.matches("the one before", KEY, kept["previous_secret_digest"], master_key_id)
    assert not vault.matches("the secret", OTHER_KEY, digest, master_key_id)
    assert not vault.matches("the one before", KEY, digest, master_key_id)
    assert not vault.matches("the secret", KEY, digest, "gone")
    for odd in ("é", "\ud800", "", "\x00", "\U0001f600"):
        assert not vault.matches(odd, KEY, digest, master_key_id)
        vault.pretend_to_match(odd)


def test_what_was_kept_before_the_keys_were_renewed_still_opens(keyring: Keyring, vault: Vault) -> None:
    kept = vault.keep("the secret", None, CLIENT, KEY)
    keyring.add_keys()
    assert vault.decrypt(kept["secret_sealed"], CLIENT, KEY) == "the secret"
    assert vault.matches("the secret", KEY, kept["secret_digest"], kept["digest_key_id"])
    assert not vault.is_current(kept["secret_sealed"], kept["digest_key_id"])
    again = vault.keep("the secret", None, CLIENT, KEY)
    assert vault.is_current(again["secret_sealed"], again["digest_key_id"])
    keyring.drop_keys_before(keyring.newest_ids())
    with pytest.raises(DecryptionError):
        vault.decrypt(kept["secret_sealed"], CLIENT, KEY)
    assert not vault.matches("the secret", KEY, kept["secret_digest"], kept["digest_key_id"])
    assert vault.decrypt(again["secret_sealed"], CLIENT, KEY) == "the secret"
