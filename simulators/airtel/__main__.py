"""`python -m simulators.airtel --port 9002`: Airtel Money on the loopback interface."""

from typing import Any

import click

from simulators.airtel.access import AirtelSettings
from simulators.airtel.api import AirtelMoney
from simulators.server import options, serve


@click.command()
@options(9002)
@click.option("--client-id", default="airtel-client", show_default=True)
@click.option("--client-secret", default="airtel-secret", show_default=True)
@click.option("--pin", default="1234", show_default=True, help="The PIN of the account that disburses.")
@click.option("--country", default="UG", show_default=True)
@click.option("--currency", default="UGX", show_default=True)
@click.option("--callback-url", default="", help="The URL that the application registered; without it no callbacks.")
def main(
    client_id: str, client_secret: str, pin: str, country: str, currency: str, callback_url: str, **shared: Any
) -> None:
    """Serve a stand-in for Airtel Money; its book, switches and clock are under /_control."""
    serve(AirtelMoney, AirtelSettings(client_id, client_secret, pin, country, currency, callback_url), **shared)


if __name__ == "__main__":
    main()
