"""`python -m simulators.airtel --port 9002`: Airtel Money on the loopback interface."""

import click

from simulators.airtel.access import AirtelSettings
from simulators.airtel.api import AirtelMoney
from simulators.server import command


@command(AirtelMoney, 9002, AirtelMoney.layouts)
@click.option("--client-id", default="airtel-client", show_default=True)
@click.option("--client-secret", default="airtel-secret", show_default=True)
@click.option("--pin", default="1234", show_default=True, help="The PIN of the account that disburses.")
@click.option("--country", default="UG", show_default=True)
@click.option("--currency", default="UGX", show_default=True)
@click.option("--callback-url", default="", help="The URL that the application registered; without it no callbacks.")
def main(**access: str) -> AirtelSettings:
    """Serve a stand-in for Airtel Money; its book, switches and clock are under /_control."""
    return AirtelSettings(**access)


if __name__ == "__main__":
    main()
