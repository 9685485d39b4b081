"""How the sender of messages is reached: the settings `USSD_SMS_...`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from environs import Env

from ussd_server.providers.settings import SettingsReader, problems_of_address

_ADAPTERS = ("africastalking", "sandbox")
_LIVE = "https://api.africastalking.com"


@dataclass(frozen=True, slots=True)
class SmsAccess:
    """The adapter, and how its sender is reached. `sent_from` is the name or short code that phones show."""

    adapter: str
    base_url: str = _LIVE
    username: str = ""
    api_key: str = field(default="", repr=False)
    sent_from: str = ""


def read_sms_settings(env: Env, given: Collection[str], *, in_production: bool) -> tuple[SmsAccess | None, list[str]]:
    """The access, None where messages are off, and what is wrong with the settings.

    `given` are the names that are set, without `USSD_`.
    """
    if not any(name.startswith("SMS_") for name in given):
        return None, []
    reader = SettingsReader(env, "sms", given, in_production=in_production)
    adapter = reader.required("ADAPTER")
    if adapter and adapter not in _ADAPTERS:
        reader.refuse("ADAPTER", f"must be one of {', '.join(_ADAPTERS)}")
    if adapter == "sandbox":
        if in_production:
            reader.refuse("ADAPTER", "the sandbox sends nothing; production needs another one")
        return SmsAccess(adapter), reader.problems
    base_url = reader.text("BASE_URL", _LIVE)
    reader.problems += problems_of_address("SMS_BASE_URL", base_url, https_only=in_production)
    access = SmsAccess(adapter, base_url, reader.required("USERNAME"), reader.required("API_KEY"), reader.text("FROM"))
    return access, reader.problems
