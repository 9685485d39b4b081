"""`python -m simulators.airtel --port 9002`: Airtel Money on the loopback interface."""

import click

from simulators.airtel.company import AirtelMoney, AirtelSettings
from simulators.server import serve
from simulators.switches import Switches


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=9002, show_default=True, help="0 takes any free port.")
@click.option("--certificate", default=None, help="A file of a certificate and its key (PEM): speak TLS.")
@click.option("--book", default=":memory:", help="A file for the book, kept over restarts.")
@click.option("--client-id", default="airtel-client", show_default=True)
@click.option("--client-secret", default="airtel-secret", show_default=True)
@click.option("--pin", default="1234", show_default=True, help="The PIN of the account that disburses.")
@click.option("--country", default="UG", show_default=True)
@click.option("--currency", default="UGX", show_default=True)
@click.option("--callback-url", default="", help="The address the application registered; none sends no callbacks.")
@click.option("--approve-delay", type=click.FloatRange(0), default=0.0, help="Seconds until a payer approves.")
@click.option("--callback-delay", type=click.FloatRange(0), default=0.0, help="Seconds from outcome to callback.")
def main(
    port: int,
    certificate: str | None,
    book: str,
    client_id: str,
    client_secret: str,
    pin: str,
    country: str,
    currency: str,
    callback_url: str,
    approve_delay: float,
    callback_delay: float,
) -> None:
    """Serve a stand-in for Airtel Money; its book, switches and clock are under /_control."""
    settings = AirtelSettings(client_id, client_secret, pin, country, currency, callback_url)
    switches = Switches(approve_delay_seconds=approve_delay, callback_delay_seconds=callback_delay)
    serve(AirtelMoney(settings, book, switches).app(), port, "Airtel Money", certificate)


if __name__ == "__main__":
    main()
