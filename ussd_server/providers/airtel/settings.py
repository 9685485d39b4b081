"""How Airtel is reached: the settings `USSD_AIRTEL_...`, and its polling schedule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ussd_server.providers.messages import PollingSchedule
from ussd_server.providers.package import ProviderAccess
from ussd_server.providers.settings import SettingsReader

_DISBURSEMENT_ENQUIRY_PATH = "/standard/v1/disbursements/{id}"

# Airtel wants no enquiry sooner than three minutes after the request.
AIRTEL_SCHEDULE = PollingSchedule(
    delays=(180.0, 60.0, 60.0, 120.0, 300.0, 600.0, 1800.0),
    not_found_means_lost_after=180.0,
    late_check_after=1800.0,
    give_up_after=21_600.0,
    per_second=5.0,
)


@dataclass(frozen=True, slots=True)
class AirtelAccess(ProviderAccess):
    """How Airtel is reached.

    `version` v2 signs every body. The PIN of disbursements is given plain in `pin`, or as Airtel's portal encrypted it
    in `encrypted_pin`. `disbursement_enquiry_path` takes `{id}`: two paths are in use.
    """

    client_id: str
    client_secret: str = field(repr=False)
    country: str = "UG"
    version: Literal["v1", "v2"] = "v1"
    pin: str | None = field(default=None, repr=False)
    encrypted_pin: str | None = field(default=None, repr=False)
    disbursement_enquiry_path: str = _DISBURSEMENT_ENQUIRY_PATH
    schedule: PollingSchedule = field(default=AIRTEL_SCHEDULE, kw_only=True)


def read_settings(reader: SettingsReader) -> AirtelAccess:
    access = AirtelAccess(
        base_url=reader.base_url(),
        client_id=reader.required("CLIENT_ID"),
        client_secret=reader.required("CLIENT_SECRET"),
        country=reader.text("COUNTRY", "UG"),
        currency=reader.text("CURRENCY", "UGX"),
        version=reader.choice("VERSION", "v1", "v2"),  # type: ignore[arg-type]
        pin=reader.text("PIN") or None,
        encrypted_pin=reader.text("ENCRYPTED_PIN") or None,
        disbursement_enquiry_path=reader.text("DISBURSEMENT_ENQUIRY_PATH", _DISBURSEMENT_ENQUIRY_PATH),
        schedule=reader.schedule(AIRTEL_SCHEDULE),
    )
    if access.pin and access.encrypted_pin:
        reader.refuse("ENCRYPTED_PIN", "give the PIN plain or encrypted, not both")
    if "{id}" not in access.disbursement_enquiry_path or not access.disbursement_enquiry_path.startswith("/"):
        reader.refuse("DISBURSEMENT_ENQUIRY_PATH", "must begin with / and contain {id}")
    return access
