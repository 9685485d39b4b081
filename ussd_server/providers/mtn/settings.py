"""How MTN is reached: the settings `USSD_MTN_...`, and its polling schedule."""

from __future__ import annotations

from dataclasses import dataclass, field

from ussd_server.providers.messages import PollingSchedule
from ussd_server.providers.package import ProviderAccess
from ussd_server.providers.settings import SettingsReader

SANDBOX = "sandbox"
_PRODUCT_KEYS = ("SUBSCRIPTION_KEY", "API_USER", "API_KEY")

# Payers have five minutes to approve, so most replies are final early and all of them after six minutes.
MTN_SCHEDULE = PollingSchedule(
    delays=(5.0, 5.0, 10.0, 10.0, 20.0, 30.0, 60.0, 60.0, 120.0, 300.0, 600.0),
    not_found_means_lost_after=60.0,
    late_check_after=600.0,
    give_up_after=7200.0,
    per_second=10.0,
)


@dataclass(frozen=True, slots=True)
class MtnProduct:
    """Access to one product: MTN gives a subscription key, a user and a key for each."""

    subscription_key: str = field(repr=False)
    api_user: str
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class MtnAccess(ProviderAccess):
    """How MTN is reached. `currency` is EUR in MTN's sandbox; a product that is None is not in use.

    `callback_url` is sent in live environments only and must be on the host that is registered with MTN.
    """

    target_environment: str
    collection: MtnProduct | None = None
    disbursement: MtnProduct | None = None
    schedule: PollingSchedule = field(default=MTN_SCHEDULE, kw_only=True)


def read_settings(reader: SettingsReader) -> MtnAccess:
    environment = reader.text("ENVIRONMENT", SANDBOX)
    access = MtnAccess(
        base_url=reader.base_url(),
        target_environment=environment,
        collection=_read_product(reader, "COLLECTION"),
        disbursement=_read_product(reader, "DISBURSEMENT"),
        currency=reader.text("CURRENCY", "EUR" if environment == SANDBOX else "UGX"),
        schedule=reader.schedule(MTN_SCHEDULE),
    )
    if access.collection is None and access.disbursement is None:
        reader.refuse("COLLECTION_SUBSCRIPTION_KEY", "MTN is switched on, but none of its products is")
    if reader.in_production and environment == SANDBOX:
        reader.refuse("ENVIRONMENT", "names MTN's sandbox, where no money moves; production needs mtnuganda")
    return access


def _read_product(reader: SettingsReader, product: str) -> MtnProduct | None:
    names = [f"{product}_{key}" for key in _PRODUCT_KEYS]
    return MtnProduct(*map(reader.required, names)) if any(map(reader.text, names)) else None
