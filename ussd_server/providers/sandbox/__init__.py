"""The sandbox: a provider without money, for trying things."""

from ussd_server.providers.package import ProviderPackage
from ussd_server.providers.sandbox.adapter import SandboxProvider
from ussd_server.providers.statement_format import read_statement_format

PACKAGE = ProviderPackage(
    name=SandboxProvider.name,
    title="Sandbox",
    short_name="the sandbox",
    build=lambda *context: SandboxProvider(context[-1]),
    statement=read_statement_format(__name__),
)
