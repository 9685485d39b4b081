"""The money companies that the settings switch on, made ready to be called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from ussd_server.messages.providers import PollingSchedule, Provider
from ussd_server.outbound.transport import Transport, authorities
from ussd_server.providers.airtel.adapter import AIRTEL_PACE, AirtelProvider
from ussd_server.providers.mtn.adapter import MTN_PACE, MtnProvider
from ussd_server.providers.sandbox.adapter import SandboxProvider

if TYPE_CHECKING:
    from ussd_server.settings import Settings


def build_companies(
    settings: Settings, now: Callable[[], datetime], callback_path: Callable[[str], str]
) -> list[Provider]:
    """Every company that is switched on; `callback_path` gives the path at which one of a name may call back."""
    chosen, companies = settings.companies, list[Provider]()
    if settings.is_sandbox:
        companies.append(SandboxProvider(now))
    trust = authorities(settings.ca_file)
    # A slow company must not take the connections of another, so each has a pool of its own.
    if chosen.mtn is not None:
        callback_url = settings.public_url and settings.public_url + callback_path(MtnProvider.name)
        access = replace(chosen.mtn, callback_url=callback_url)
        companies.append(MtnProvider(access, Transport(trust=trust), pace=_pace(MTN_PACE, chosen.mtn_enquiry_seconds)))
    if chosen.airtel is not None:
        pace = _pace(AIRTEL_PACE, chosen.airtel_enquiry_seconds)
        companies.append(AirtelProvider(chosen.airtel, Transport(trust=trust), pace=pace))
    return companies


def _pace(usual: PollingSchedule, enquiry_seconds: tuple[float, ...]) -> PollingSchedule:
    return replace(usual, delays=enquiry_seconds) if enquiry_seconds else usual
