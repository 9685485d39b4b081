"""MTN Mobile Money."""

from functools import partial

from ussd_server.providers.known_replies import read_known_replies
from ussd_server.providers.mtn.adapter import MtnProvider, read_settings
from ussd_server.providers.package import ProviderPackage
from ussd_server.providers.statement_format import read_statement_format

PACKAGE = ProviderPackage(
    name=MtnProvider.name,
    title="MTN Mobile Money",
    short_name="MTN",
    build=lambda access, transport, _: MtnProvider(access, transport),
    read_settings=read_settings,
    number_prefixes=("39", "76", "77", "78", "79"),
    statement=read_statement_format(__name__),
    known_replies=partial(read_known_replies, __name__),
)
