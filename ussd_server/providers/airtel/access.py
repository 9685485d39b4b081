"""How Airtel is reached: the settings `USSD_AIRTEL_...`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ussd_server.providers.airtel.encryption import AirtelKey, PinPadding, read_key
from ussd_server.providers.messages import Direction, PollingSchedule
from ussd_server.providers.package import ProviderAccess
from ussd_server.providers.settings import SettingsReader

Version = Literal["v1", "v2", "v3"]
# The versions of each product. What others push in earnest are collections of v2.
_VERSIONS: dict[Direction, tuple[Version, ...]] = {
    Direction.COLLECTION: ("v2", "v1"),
    Direction.DISBURSEMENT: ("v1", "v2", "v3"),
    Direction.REFUND: ("v1", "v2"),
}

# Airtel wants no status query sooner than three minutes after the request.
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

    `version` is that of every product that has none of its own in `versions`; None: v2 for collections, else v1.
    `signing` signs every body (`on`), none (`off`), or those of v2 and v3 (`auto`). `public_key` is Airtel's RSA key;
    None: it is fetched from Airtel. The PIN of disbursements is given plain in `pin`, or as Airtel's portal encrypted
    it in `encrypted_pin`.
    `disbursement_enquiry_path` takes `{id}`; None: the path of the version, because several are in use. `balance_path`
    takes `{type}`, which is COLL or DISB; None: the path of the version, and none for disbursements under v1.
    """

    client_id: str
    client_secret: str = field(repr=False)
    country: str = "UG"
    version: Version | None = None
    versions: dict[Direction, Version] = field(default_factory=dict)
    signing: Literal["auto", "on", "off"] = "auto"
    public_key: AirtelKey | None = None
    pin: str | None = field(default=None, repr=False)
    encrypted_pin: str | None = field(default=None, repr=False)
    pin_padding: PinPadding = "pkcs1"
    disbursement_enquiry_path: str | None = None
    balance_path: str | None = None
    schedule: PollingSchedule = field(default=AIRTEL_SCHEDULE, kw_only=True)

    def identity(self, direction: Direction) -> tuple[str, ...]:
        return (self.country, self.client_id)

    def version_of(self, direction: Direction) -> Version:
        return self.versions.get(direction) or self.version or _VERSIONS[direction][0]

    def signs(self, direction: Direction) -> bool:
        return self.signing == "on" or (self.signing == "auto" and self.version_of(direction) != "v1")

    def enquiry_path(self, direction: Direction) -> str:
        """The path of a query, with `{id}` for our name of the payment."""
        if direction is not Direction.DISBURSEMENT:
            return "/standard/v1/payments/{id}"
        if self.disbursement_enquiry_path is not None:
            return self.disbursement_enquiry_path
        version = self.version_of(direction)
        return f"/standard/{version}/disbursements/{{id}}" + ("" if version == "v1" else "?transactionType=B2C")

    def balance_path_of(self, direction: Direction) -> str | None:
        """The path of the balance for a direction, None where Airtel shows none."""
        kind = "COLL" if direction is Direction.COLLECTION else "DISB"
        if self.balance_path is not None:
            return self.balance_path.replace("{type}", kind)
        if self.version_of(direction) != "v1":
            return f"/standard/v2/users/balance?type={kind}"
        return "/standard/v1/users/balance" if direction is Direction.COLLECTION else None


def read_settings(reader: SettingsReader) -> AirtelAccess:
    encoded_key = reader.text("PUBLIC_KEY")
    access = AirtelAccess(
        base_url=reader.base_url(),
        client_id=reader.required("CLIENT_ID"),
        client_secret=reader.required("CLIENT_SECRET"),
        country=reader.text("COUNTRY", "UG"),
        currency=reader.text("CURRENCY", "UGX"),
        version=reader.choice("VERSION", "", "v1", "v2") or None,  # type: ignore[arg-type]
        versions=_read_versions(reader),
        signing=reader.choice("SIGNING", "auto", "on", "off"),  # type: ignore[arg-type]
        public_key=read_key("".join(encoded_key.split())) if encoded_key else None,
        pin=reader.text("PIN") or None,
        encrypted_pin=reader.text("ENCRYPTED_PIN") or None,
        pin_padding=reader.choice("PIN_PADDING", "pkcs1", "oaep"),  # type: ignore[arg-type]
        disbursement_enquiry_path=reader.text("DISBURSEMENT_ENQUIRY_PATH") or None,
        balance_path=reader.text("BALANCE_PATH") or None,
        schedule=reader.schedule(AIRTEL_SCHEDULE),
    )
    if encoded_key and access.public_key is None:
        reader.refuse("PUBLIC_KEY", "must be Airtel's RSA key in base64, without the lines that begin and end it")
    if access.pin and access.encrypted_pin:
        reader.refuse("ENCRYPTED_PIN", "give the PIN plain or encrypted, not both")
    path = access.disbursement_enquiry_path
    if path is not None and ("{id}" not in path or not path.startswith("/")):
        reader.refuse("DISBURSEMENT_ENQUIRY_PATH", "must begin with / and contain {id}")
    if not (access.balance_path or "/").startswith("/"):
        reader.refuse("BALANCE_PATH", "must begin with /")
    return access


def _read_versions(reader: SettingsReader) -> dict[Direction, Version]:
    """The versions of the products that have one of their own: `COLLECTION_VERSION` and so on."""
    chosen = {each: reader.choice(f"{each.upper()}_VERSION", "", *_VERSIONS[each]) for each in Direction}
    return {direction: version for direction, version in chosen.items() if version}  # type: ignore[misc]
