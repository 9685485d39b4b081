"""The settings that switch money companies on: none of a company's is set, or all that it needs are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from environs import Env, validate

from ussd_server.providers.airtel.adapter import AirtelAccess
from ussd_server.providers.mtn.adapter import MtnAccess, MtnProduct

MTN_SANDBOX = "sandbox"
_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?")
_LONGEST_DELAY_SECONDS = 86_400
_PRODUCT = ("SUBSCRIPTION_KEY", "API_USER", "API_KEY")


@dataclass(frozen=True, slots=True)
class CompanySettings:
    """How the money companies that are switched on are reached; None for one that is not.

    `..._enquiry_seconds` are the waits between questions about an unfinished payment, empty for the usual ones.
    """

    mtn: MtnAccess | None = None
    mtn_enquiry_seconds: tuple[float, ...] = ()
    airtel: AirtelAccess | None = None
    airtel_enquiry_seconds: tuple[float, ...] = ()


def read_company_settings(env: Env, given: set[str]) -> tuple[CompanySettings, list[str]]:
    """The companies' settings and what is wrong with them; `given` are the names that are set, without `USSD_`."""
    settings = CompanySettings(
        mtn=_read_mtn(env) if any(name.startswith("MTN_") for name in given) else None,
        mtn_enquiry_seconds=_read_delays(env, "MTN_ENQUIRY_SECONDS"),
        airtel=_read_airtel(env) if any(name.startswith("AIRTEL_") for name in given) else None,
        airtel_enquiry_seconds=_read_delays(env, "AIRTEL_ENQUIRY_SECONDS"),
    )
    problems = [
        *_problems_of_mtn(settings.mtn, given),
        *_problems_of_delays("MTN_ENQUIRY_SECONDS", settings.mtn_enquiry_seconds),
        *_problems_of_airtel(settings.airtel, given),
        *_problems_of_delays("AIRTEL_ENQUIRY_SECONDS", settings.airtel_enquiry_seconds),
    ]
    return settings, problems


def _read_mtn(env: Env) -> MtnAccess:
    environment = _text(env, "MTN_ENVIRONMENT", MTN_SANDBOX)
    return MtnAccess(
        base_url=_text(env, "MTN_BASE_URL"),
        target_environment=environment,
        collection=_read_product(env, "COLLECTION"),
        disbursement=_read_product(env, "DISBURSEMENT"),
        currency=_text(env, "MTN_CURRENCY", "EUR" if environment == MTN_SANDBOX else "UGX"),
    )


def _read_product(env: Env, product: str) -> MtnProduct | None:
    keys = [_text(env, f"MTN_{product}_{name}") for name in _PRODUCT]
    return MtnProduct(*keys) if any(keys) else None


def _read_airtel(env: Env) -> AirtelAccess:
    return AirtelAccess(
        base_url=_text(env, "AIRTEL_BASE_URL"),
        client_id=_text(env, "AIRTEL_CLIENT_ID"),
        client_secret=_text(env, "AIRTEL_CLIENT_SECRET"),
        country=_text(env, "AIRTEL_COUNTRY", "UG"),
        currency=_text(env, "AIRTEL_CURRENCY", "UGX"),
        version=env.str("AIRTEL_VERSION", "v1", validate=validate.OneOf(("v1", "v2"))),  # type: ignore[arg-type]
        pin=_text(env, "AIRTEL_PIN") or None,
        encrypted_pin=_text(env, "AIRTEL_ENCRYPTED_PIN") or None,
        disbursement_enquiry_path=_text(env, "AIRTEL_DISBURSEMENT_ENQUIRY_PATH", "/standard/v1/disbursements/{id}"),
    )


def _read_delays(env: Env, name: str) -> tuple[float, ...]:
    """The delays of a list, of which those that are no numbers are 0."""
    parts = [part.strip() for part in _text(env, name).split(",") if part.strip()]
    return tuple(float(part) if _NUMBER.fullmatch(part) else 0.0 for part in parts)


def _problems_of_mtn(access: MtnAccess | None, given: set[str]) -> list[str]:
    if access is None:
        return []
    problems = _missing(given, "MTN_BASE_URL") or problems_of_address("MTN_BASE_URL", access.base_url)
    products = {"COLLECTION": access.collection, "DISBURSEMENT": access.disbursement}
    if not any(products.values()):
        problems.append("USSD_MTN_COLLECTION_SUBSCRIPTION_KEY: MTN is switched on, but none of its products is")
    for product, keys in products.items():
        if keys is not None:
            problems += _missing(given, *(f"MTN_{product}_{name}" for name in _PRODUCT))
    return problems


def _problems_of_airtel(access: AirtelAccess | None, given: set[str]) -> list[str]:
    if access is None:
        return []
    problems = _missing(given, "AIRTEL_BASE_URL") or problems_of_address("AIRTEL_BASE_URL", access.base_url)
    problems += _missing(given, "AIRTEL_CLIENT_ID", "AIRTEL_CLIENT_SECRET")
    if access.pin and access.encrypted_pin:
        problems.append("USSD_AIRTEL_ENCRYPTED_PIN: give the PIN plain or encrypted, not both")
    if "{id}" not in access.disbursement_enquiry_path or not access.disbursement_enquiry_path.startswith("/"):
        problems.append("USSD_AIRTEL_DISBURSEMENT_ENQUIRY_PATH: must begin with / and contain {id}")
    return problems


def _problems_of_delays(name: str, delays: tuple[float, ...]) -> list[str]:
    if all(0 < delay <= _LONGEST_DELAY_SECONDS for delay in delays):
        return []
    return [f"USSD_{name}: must be seconds from above 0 to 86400, separated by commas, such as 5,10,60"]


def _missing(given: set[str], *names: str) -> list[str]:
    sentence = "is missing, and the company is switched on by its other settings"
    return [f"USSD_{name}: {sentence}" for name in names if name not in given]


def problems_of_address(name: str, address: str) -> list[str]:
    """What is wrong with the address of a server: a scheme and a host, perhaps a port and a path, and nothing else."""
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_address = False
    if is_address and "@" not in address and "?" not in address and "#" not in address:
        return []
    return [f"USSD_{name}: must be an address such as https://api.example.com"]


def _text(env: Env, name: str, otherwise: str = "") -> str:
    found: Any = env.str(name, otherwise)
    return (found or otherwise).strip()
