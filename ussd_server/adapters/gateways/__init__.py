"""Companies that carry phone conversations to us, by the word that stands for them in the gateway path."""

from __future__ import annotations

from ussd_server.adapters.gateways.africastalking import AfricasTalking
from ussd_server.adapters.gateways.comviva import Comviva
from ussd_server.adapters.gateways.dmark import DMark
from ussd_server.adapters.gateways.hubtel import Hubtel
from ussd_server.adapters.gateways.madapi import Madapi
from ussd_server.adapters.gateways.plain_json import PlainJson
from ussd_server.messages.gateways import EventGateway, Gateway

_africastalking = AfricasTalking()

ADAPTERS: dict[str, Gateway] = {
    "africastalking": _africastalking,
    "at": _africastalking,
    "comviva": Comviva(),
    "dmark": DMark(),
    "hubtel": Hubtel(),
    "json": PlainJson(),
    "madapi": Madapi(),
}

EVENT_ADAPTERS: dict[str, EventGateway] = {"africastalking": _africastalking, "at": _africastalking}
