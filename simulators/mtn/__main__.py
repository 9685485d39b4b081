"""`python -m simulators.mtn --port 9001`: MTN MoMo on the loopback interface."""

from typing import Any

import click

from simulators.mtn.access import MtnSettings
from simulators.mtn.api import MtnMomo
from simulators.server import command


@command(MtnMomo, 9001, MtnMomo.layouts)
@click.option(
    "--environment", "target_environment", default="sandbox", show_default=True, help="sandbox, mtnuganda, ..."
)
@click.option("--currency", default=None, help="Default: EUR in the sandbox, UGX elsewhere.")
@click.option("--collection-key", default="collection-key", show_default=True)
@click.option("--disbursement-key", default="disbursement-key", show_default=True)
@click.option("--remittance-key", default="remittance-key", show_default=True)
@click.option("--api-user", default="", help="An API user that exists from the start.")
@click.option("--api-key", default="", help="Its key.")
@click.option("--callback-host", default="127.0.0.1", show_default=True, help="The host it registered.")
@click.option("--token-seconds", type=click.IntRange(1), default=3600, show_default=True)
@click.option("--new-platform", "is_new_platform", is_flag=True, help="Refuse what momoapi.momo.africa refuses.")
def main(
    currency: str | None, collection_key: str, disbursement_key: str, remittance_key: str, **access: Any
) -> MtnSettings:
    """Serve a stand-in for MTN MoMo; its book, switches and clock are under /_control."""
    return MtnSettings(
        currency=currency or ("EUR" if access["target_environment"] == "sandbox" else "UGX"),
        subscription_keys={
            "collection": collection_key,
            "disbursement": disbursement_key,
            "remittance": remittance_key,
        },
        **access,
    )


if __name__ == "__main__":
    main()
