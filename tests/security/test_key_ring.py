"""The master keys in their file."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from ussd_server.security import key_ring
from ussd_server.security.key_ring import Keyring
from ussd_server.security.secrets_file import Ring


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


def test_a_key_of_a_renewal_elsewhere_is_found_by_its_id_also_between_two_checks_of_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_ring, "CHECK_SECONDS", 3600.0)
    here, there = Keyring.create(path), Keyring(path)
    old = here.newest(Ring.SEALING)
    there.add_keys()
    assert here.newest(Ring.SEALING) == old
    renewed = there.newest(Ring.SEALING)
    assert here.find(Ring.SEALING, renewed.id) == renewed


def test_a_key_that_was_dropped_elsewhere_is_found_no_more(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_ring, "CHECK_SECONDS", 0.0)
    keyring, elsewhere = Keyring.create(path), Keyring(path)
    old = keyring.newest(Ring.TOKENS)
    elsewhere.add_keys()
    assert keyring.find(Ring.TOKENS, old.id) == old
    elsewhere.drop_keys_before(elsewhere.newest_ids())
    assert keyring.find(Ring.TOKENS, old.id) is None


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


def test_rotations_leave_the_reference_key_as_it_is(path: Path) -> None:
    keyring = Keyring.create(path)
    reference = keyring.reference_key
    keyring.add_keys()
    keyring.drop_keys_before(keyring.newest_ids())
    assert Keyring(path).reference_key == keyring.reference_key == reference
    assert len(reference) == 32


def test_a_running_service_follows_no_file_with_another_reference_key(path: Path, tmp_path: Path) -> None:
    keyring, other = Keyring.create(path), tmp_path / "other.json"
    reference = keyring.reference_key
    Keyring.create(other)
    other.replace(path)
    keyring.newest(Ring.TOKENS)
    assert keyring.reference_key == reference


def test_a_running_service_keeps_its_keys_when_the_file_is_gone(path: Path) -> None:
    keyring = Keyring.create(path)
    key = keyring.newest(Ring.TOKENS)
    path.unlink()
    assert keyring.newest(Ring.TOKENS) == key
    assert keyring.find(Ring.TOKENS, "unknown") is None


def _halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200])


def _drop_a_ring(path: Path) -> None:
    document = json.loads(path.read_text())
    del document["tokens"]
    path.write_text(json.dumps(document))


def _empty_a_ring(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tokens": []}))


def _shorten_a_key(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tokens": [{"id": "short", "key": "AAAA"}]}))


def _spoil_a_key(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tokens": [{"id": "spoilt", "key": "é"}]}))


def _write_a_list(path: Path) -> None:
    path.write_text("[1, 2]")


def _write_no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


def _put_a_folder_there(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "damage",
    [
        _halve,
        _drop_a_ring,
        _empty_a_ring,
        _shorten_a_key,
        _spoil_a_key,
        _write_a_list,
        _write_no_text,
        _put_a_folder_there,
    ],
)
def test_a_running_service_keeps_its_keys_while_the_file_is_unreadable_and_logs_that_once(
    path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    keyring = Keyring.create(path)
    key, whole = keyring.newest(Ring.TOKENS), path.read_text()
    damage(path)
    for _ in range(3):
        assert keyring.newest(Ring.TOKENS) == key
        assert keyring.find(Ring.TOKENS, "unknown") is None
        assert keyring.all_materials(Ring.TOKENS) == [key.material]
    assert len(caplog.records) == 1
    assert key.id not in caplog.text
    if path.is_dir():
        path.rmdir()
    path.write_text(whole)
    Keyring(path).add_keys()
    assert keyring.newest(Ring.TOKENS) != key
    damage(path)
    assert keyring.all_materials(Ring.TOKENS)[0] == key.material
    assert len(caplog.records) == 2


def test_a_service_that_starts_with_an_unreadable_file_does_not_start(path: Path) -> None:
    Keyring.create(path)
    _halve(path)
    with pytest.raises(ValueError, match="secrets"):
        Keyring(path)


def test_keys_that_could_not_be_read_for_lack_of_rights_are_read_when_the_rights_are_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = Keyring.create(path)
    old = keyring.newest(Ring.TOKENS)
    Keyring(path).add_keys()
    with monkeypatch.context() as without_rights:
        without_rights.setattr(Path, "read_bytes", mock.Mock(side_effect=PermissionError))
        path.chmod(0)
        assert keyring.newest(Ring.TOKENS) == old
    path.chmod(0o600)
    assert keyring.newest(Ring.TOKENS) != old


def test_a_key_never_shows_in_a_repr(path: Path) -> None:
    key = Keyring.create(path).newest(Ring.TOKENS)
    assert repr(key) == f"MasterKey({key.id})"
    assert repr(key.material) not in f"{key}{[key]}"
