"""The names under which providers know payments, and the key that they are derived with."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.money import a_client, deposit, request
from ussd_server.bootstrap import Services, build_services
from ussd_server.models.operations import kept_check_value
from ussd_server.security.key_ring import Keyring
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.services.transactions.provider_references import ProviderReferences
from ussd_server.status import Code, ServiceError

CLIENT, OTHER = "01900000-0000-7000-8000-000000000001", "01900000-0000-7000-8000-000000000002"


def test_names_are_uuids_of_version_4_that_never_change(services: Services, tmp_path: Path) -> None:
    path = tmp_path / "fixed.json"
    Keyring.create(path)
    key = {"id": "fixed", "key": "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"reference": key}))
    references = ProviderReferences(Keyring(path))
    name = references.of_reference(CLIENT, TransactionType.COLLECTION, "order-1")
    assert name == "752a8127-a35f-4fd0-8ea8-253aeef20941"
    assert (uuid.UUID(name).version, uuid.UUID(name).variant) == (4, uuid.RFC_4122)


def test_client_kind_and_every_part_of_a_name_count(services: Services) -> None:
    references = services.runtime.references
    collection, disbursement = TransactionType.COLLECTION, TransactionType.DISBURSEMENT
    names = [
        references.of_reference(CLIENT, collection, "a"),
        references.of_reference(OTHER, collection, "a"),
        references.of_reference(CLIENT, disbursement, "a"),
        references.of_reference(CLIENT, TransactionType.REFUND, "a"),
        references.of_reference(CLIENT, collection, 'a", "b'),
        references.of_menu_step(CLIENT, collection, ("a", "b"), 1),
        references.of_menu_step(CLIENT, collection, ("a", "b"), 2),
        references.of_menu_step(CLIENT, collection, ("ab", ""), 1),
        references.of_menu_step(CLIENT, collection, ('a", "b',), 1),
    ]
    assert len(set(names)) == len(names)


def test_no_payment_is_created_in_production_with_money_that_a_sandbox_made_up(services: Services) -> None:
    client = a_client()
    deposit(services, client, 1000)
    production = build_services(replace(services.settings, environment="production"))
    try:
        with pytest.raises(ServiceError, match="The database holds money that the sandbox") as refused:
            production.transactions.create(request(reference="real"), client)
        assert refused.value.code is Code.SERVICE_UNAVAILABLE
    finally:
        production.close()


def test_no_payment_is_created_with_another_reference_key_than_before(services: Services, tmp_path: Path) -> None:
    client = a_client()
    services.transactions.create(request(reference="before"), client)
    assert kept_check_value() == Keyring(services.settings.secrets_file).reference_check_value
    other = build_services(replace(services.settings, secrets_file=tmp_path / "other.json"))
    try:
        for attempt in (
            other.runtime.references.verify,
            lambda: other.transactions.create(request(reference="after"), client),
        ):
            with pytest.raises(ServiceError, match="The reference key is not the one") as refused:
                attempt()
            assert refused.value.code is Code.SERVICE_UNAVAILABLE
    finally:
        other.close()
