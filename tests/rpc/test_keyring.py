"""The keys of the house in their file."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from ussd_server.rpc.keyring import Keyring, Ring


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "secrets.json"


def test_a_fresh_file_has_a_key_in_every_ring_and_is_its_owners_alone(path: Path) -> None:
    keyring = Keyring.create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    materials = {keyring.newest(ring).material for ring in Ring}
    assert len(materials) == len(Ring)
    assert all(len(material) == 32 for material in materials)


def test_an_existing_file_is_left_alone(path: Path) -> None:
    Keyring.create(path)
    before = path.read_bytes()
    Keyring.create(path)
    assert path.read_bytes() == before


def test_many_who_create_at_once_end_with_the_same_keys(path: Path) -> None:
    together, found = threading.Barrier(8), []

    def create() -> None:
        together.wait(10)
        found.append(Keyring.create(path).newest(Ring.SEALING).id)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_a_renewal_elsewhere_is_followed_without_a_restart(path: Path) -> None:
    here, there = Keyring.create(path), Keyring(path)
    old = here.newest(Ring.SEALING)
    there.add_keys()
    assert here.newest(Ring.SEALING).id == there.newest_ids()[Ring.SEALING] != old.id
    assert here.find(Ring.SEALING, old.id) == old
    assert here.all_materials(Ring.SEALING) == [old.material, here.newest(Ring.SEALING).material]
    there.drop_keys_before(there.newest_ids())
    assert here.all_materials(Ring.SEALING) == [here.newest(Ring.SEALING).material]
    assert here.find(Ring.SEALING, old.id) is None
    assert path.stat().st_mode & 0o777 == 0o600


def test_renewals_at_once_lose_no_key(path: Path) -> None:
    keyrings = [Keyring.create(path) for _ in range(6)]
    threads = [threading.Thread(target=keyring.add_keys) for keyring in keyrings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads(path.read_text())["sealing"]) == 7
    assert sorted(file.name for file in path.parent.iterdir()) == ["secrets.json", "secrets.lock"]


def test_a_key_that_is_added_while_old_ones_are_dropped_stays(path: Path) -> None:
    keyring = Keyring.create(path)
    keyring.add_keys()
    checked = keyring.newest_ids()
    Keyring(path).add_keys()
    keyring.drop_keys_before(checked)
    assert len(keyring.all_materials(Ring.SEALING)) == 2
    assert keyring.find(Ring.SEALING, checked[Ring.SEALING])


def test_a_running_service_keeps_its_keys_when_the_file_is_gone(path: Path) -> None:
    keyring = Keyring.create(path)
    key = keyring.newest(Ring.TOKENS)
    path.unlink()
    assert keyring.newest(Ring.TOKENS) == key
    assert keyring.find(Ring.TOKENS, "unknown") is None


def test_a_key_never_shows_in_a_repr(path: Path) -> None:
    key = Keyring.create(path).newest(Ring.TOKENS)
    assert repr(key) == f"HouseKey({key.id})"
    assert repr(key.material) not in f"{key}{[key]}"
