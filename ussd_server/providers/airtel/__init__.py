"""Airtel Money."""

from functools import partial

from ussd_server.providers.airtel.access import read_settings
from ussd_server.providers.airtel.adapter import AirtelProvider
from ussd_server.providers.known_replies import read_known_replies
from ussd_server.providers.package import ProviderPackage
from ussd_server.providers.statement_format import read_statement_format

PACKAGE = ProviderPackage(
    name=AirtelProvider.name,
    title="Airtel Money",
    short_name="Airtel",
    build=lambda access, transport, _: AirtelProvider(access, transport),
    read_settings=read_settings,
    number_prefixes=("70", "74", "75"),
    statement=read_statement_format(__name__),
    known_replies=partial(read_known_replies, __name__),
    gives_two_receipts=True,
)
