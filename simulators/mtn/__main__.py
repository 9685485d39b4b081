"""`python -m simulators.mtn --port 9001`: MTN MoMo on the loopback interface."""

import click

from simulators.mtn.company import MtnMomo, MtnSettings
from simulators.server import serve
from simulators.switches import Switches


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=9001, show_default=True, help="0 takes any free port.")
@click.option("--certificate", default=None, help="A file of a certificate and its key (PEM): speak TLS.")
@click.option("--book", default=":memory:", help="A file for the book, kept over restarts.")
@click.option("--environment", default="sandbox", show_default=True, help="sandbox, mtnuganda, ...")
@click.option("--currency", default=None, help="EUR in the sandbox, UGX elsewhere, unless named.")
@click.option("--collection-key", default="collection-key", show_default=True)
@click.option("--disbursement-key", default="disbursement-key", show_default=True)
@click.option("--remittance-key", default="remittance-key", show_default=True)
@click.option("--api-user", default="", help="An API user that exists from the start.")
@click.option("--api-key", default="", help="Its key.")
@click.option("--callback-host", default="127.0.0.1", show_default=True, help="The host it registered.")
@click.option("--token-seconds", type=click.IntRange(1), default=3600, show_default=True)
@click.option("--approve-delay", type=click.FloatRange(0), default=0.0, help="Seconds until a payer approves.")
@click.option("--callback-delay", type=click.FloatRange(0), default=0.0, help="Seconds from outcome to callback.")
def main(
    port: int,
    certificate: str | None,
    book: str,
    environment: str,
    currency: str | None,
    collection_key: str,
    disbursement_key: str,
    remittance_key: str,
    api_user: str,
    api_key: str,
    callback_host: str,
    token_seconds: int,
    approve_delay: float,
    callback_delay: float,
) -> None:
    """Serve a stand-in for MTN MoMo; its book, switches and clock are under /_control."""
    settings = MtnSettings(
        target_environment=environment,
        currency=currency or ("EUR" if environment == "sandbox" else "UGX"),
        subscription_keys={
            "collection": collection_key,
            "disbursement": disbursement_key,
            "remittance": remittance_key,
        },
        api_user=api_user,
        api_key=api_key,
        callback_host=callback_host,
        token_seconds=token_seconds,
    )
    switches = Switches(approve_delay_seconds=approve_delay, callback_delay_seconds=callback_delay)
    serve(MtnMomo(settings, book, switches).app(), port, "MTN MoMo", certificate)


if __name__ == "__main__":
    main()
