"""The senders of messages by name, and the settings `USSD_SMS_...`, which switch one of them on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from environs import Env

from ussd_server.outbound.transport import Transport, authorities
from ussd_server.providers.settings import SettingsReader, problems_of_address
from ussd_server.senders.africastalking import LIVE, AfricasTalkingSender
from ussd_server.senders.messages import Sender, SmsAccess
from ussd_server.senders.sandbox import SandboxSender

_SENDERS: Mapping[str, Callable[[SmsAccess, Path | None], Sender]] = {
    AfricasTalkingSender.name: lambda access, trusted: AfricasTalkingSender(
        access, Transport(trust=authorities(trusted))
    ),
    SandboxSender.name: lambda _access, _trusted: SandboxSender(),
}


def build_sender(access: SmsAccess | None, trusted: Path | None) -> Sender | None:
    """The sender that is switched on; None where no messages are sent. `trusted` is the file of `USSD_CA_FILE`."""
    return None if access is None else _SENDERS[access.adapter](access, trusted)


def read_sms_settings(env: Env, names: Collection[str], *, in_production: bool) -> tuple[SmsAccess | None, list[str]]:
    """The access, None where messages are off, and what is wrong with the settings.

    Without any of these settings the sandbox has its own sender, which delivers every message at once.
    `names` are those of the settings that are set, without `USSD_`.
    """
    if not any(name.startswith("SMS_") for name in names):
        return None if in_production else SmsAccess(SandboxSender.name), []
    reader = SettingsReader(env, "sms", names, in_production=in_production)
    adapter = reader.required("ADAPTER")
    if adapter and adapter not in _SENDERS:
        reader.refuse("ADAPTER", f"must be one of {', '.join(_SENDERS)}")
    if adapter == SandboxSender.name:
        if in_production:
            reader.refuse("ADAPTER", "the sandbox sends nothing; production needs another one")
        return SmsAccess(adapter), reader.problems
    base_url = reader.text("BASE_URL", LIVE)
    reader.problems += problems_of_address("SMS_BASE_URL", base_url, https_only=in_production)
    access = SmsAccess(adapter, base_url, reader.required("USERNAME"), reader.required("API_KEY"), reader.text("FROM"))
    return access, reader.problems
