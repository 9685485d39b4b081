"""The adapters of all gateways, by their name in a channel's path."""

from __future__ import annotations

from ussd_server.gateways.africastalking import AfricasTalking
from ussd_server.gateways.comviva import Comviva
from ussd_server.gateways.dmark import DMark
from ussd_server.gateways.hubtel import Hubtel
from ussd_server.gateways.madapi import Madapi
from ussd_server.gateways.messages import Gateway
from ussd_server.gateways.plain_json import PlainJson
from ussd_server.gateways.smpp import Smpp

_africastalking = AfricasTalking()

ADAPTERS: dict[str, Gateway] = {
    "africastalking": _africastalking,
    "at": _africastalking,
    "comviva": Comviva(),
    "dmark": DMark(),
    "hubtel": Hubtel(),
    "json": PlainJson(),
    "madapi": Madapi(),
    "smpp": Smpp(),
}
