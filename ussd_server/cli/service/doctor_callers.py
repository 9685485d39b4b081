"""The checks of `doctor` about the addresses of callers, which limits and allowed addresses depend on."""

from __future__ import annotations

from ipaddress import ip_address

from ussd_server.models.keys import ApiKey
from ussd_server.services.operations.messages import DoctorFinding
from ussd_server.settings import Settings

_EVERY_ADDRESS = ("0.0.0.0", "[::]")  # noqa: S104


def proxies(settings: Settings) -> DoctorFinding:
    """Check that the service gets clients' addresses from its proxies."""
    host, trusted = settings.bind.rpartition(":")[0], settings.trusted_proxies
    if not trusted:
        mend = "Set USSD_TRUSTED_PROXIES to the number of proxies in front, 1 for deploy/nginx.conf."
        return DoctorFinding(
            "proxies", "none is trusted, so all callers seem to be one, with one limit for wrong secrets", mend
        )
    if host in _EVERY_ADDRESS:
        mend = "Set USSD_BIND to an address that only the proxies reach."
        return DoctorFinding(
            "proxies", f"{trusted} trusted, but others reach {settings.bind} too and may name any address", mend
        )
    return DoctorFinding("proxies", f"{trusted} trusted about the address of a caller")


def callers() -> DoctorFinding:
    """Check that the last calls of all keys did not come from one private address, which is that of a proxy."""
    used = [row for row in ApiKey.select(ApiKey.client_id, ApiKey.last_used_address) if row.last_used_address]
    addresses, clients = {str(row.last_used_address) for row in used}, {row.client_id for row in used}
    if len(addresses) == 1 and _is_of_a_proxy(*addresses, is_shared=len(clients) > 1):
        bound = ApiKey.select().where(ApiKey.allowed_addresses.is_null(False)).count()
        found = f"the last calls of all keys came from {addresses.pop()}, which seems to be a proxy of yours"
        mend = "Correct USSD_TRUSTED_PROXIES: the number of proxies that each add to X-Forwarded-For."
        return DoctorFinding("callers", f"{found}; {bound} keys have allowed addresses" if bound else found, mend)
    return DoctorFinding("callers", f"keys were last used from {len(addresses)} addresses")


def _is_of_a_proxy(address: str, *, is_shared: bool) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return parsed.is_loopback or (is_shared and not parsed.is_global)
