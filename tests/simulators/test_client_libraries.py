"""Client libraries that others run against MTN and Airtel in earnest: their calls work with the stand-ins."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.stand_ins import StandInProcess

pytestmark = pytest.mark.nightly

_USER, _KEY = "9f0f1a53-37c3-4b30-8c5d-2b1f2a9f6a11", "an-api-key"
_SUBSCRIPTIONS = {
    "collection": "0a83d9a2-61d4-4c46-9d7a-0b1f1a53c001",
    "disbursement": "4bd0a9c6-1c5c-4a5e-8f0e-1c5cf60b4002",
}

_MTNMOMO = """
import sys
from mtnmomo.collection import Collection
from mtnmomo.disbursement import Disbursement

address, user, key, collection, disbursement = sys.argv[1:]
both = {f"{name}_{what}": value for name in ("COLLECTION", "DISBURSEMENT")
        for what, value in (("USER_ID", user), ("API_SECRET", key))}
config = {"ENVIRONMENT": "mtnuganda", "BASE_URL": address, "CALLBACK_HOST": "127.0.0.1", **both,
          "COLLECTION_PRIMARY_KEY": collection, "DISBURSEMENT_PRIMARY_KEY": disbursement}
collecting, paying = Collection(config), Disbursement(config)
said = {"payee_note": "Order 7", "payer_message": "Order 7", "currency": "UGX"}
asked = collecting.requestToPay(mobile="256772123456", amount="5000", external_id="order-7", **said)
sent = paying.transfer(mobile="256772123456", amount="1000", external_id="pay-7", **said)
for client, made in ((collecting, asked), (paying, sent)):
    status = client.getTransactionStatus(made["transaction_ref"])
    print("RESULT", status["status"], status["amount"], int(client.getBalance()["availableBalance"]) > 0)
"""
_MOMO_OPENAPI = """
import sys
from momo_openapi import Collection, Disbursement, MomoConfig

address, user, key, collection, disbursement = sys.argv[1:]


def config(subscription):
    return MomoConfig(subscription_key=subscription, user_id=user, credential_token=key, base_url=address,
                      target_environment="mtnuganda", currency="UGX")


collecting, paying = Collection(config(collection)), Disbursement(config(disbursement))
asked = collecting.request_to_pay("5000", "256772123456", external_id="order-8", payer_message="Order 8")
sent = paying.transfer("1000", "256772123456", external_id="pay-8")
for client, made in ((collecting, asked), (paying, sent)):
    status = client.get_transaction_status(made)
    print("RESULT", status["status"], status["amount"], int(client.get_balance()["availableBalance"]) > 0)
"""
_MTN_MOMO = """
const momo = require("mtn-momo");
const [baseUrl, userId, userSecret, collection, disbursement] = process.argv.slice(1);
const { Collections, Disbursements } = momo.create({ baseUrl, environment: "mtnuganda", callbackHost: "127.0.0.1" });
const collecting = Collections({ userId, userSecret, primaryKey: collection });
const paying = Disbursements({ userId, userSecret, primaryKey: disbursement });
const party = { partyIdType: "MSISDN", partyId: "256772123456" };
const said = { currency: "UGX", payerMessage: "Order 9", payeeNote: "Order 9" };
(async () => {
  const asked = await collecting.requestToPay({ amount: "5000", externalId: "order-9", payer: party, ...said });
  const sent = await paying.transfer({ amount: "1000", externalId: "pay-9", payee: party, ...said });
  for (const [client, made] of [[collecting, asked], [paying, sent]]) {
    const status = await client.getTransaction(made);
    const balance = await client.getBalance();
    console.log("RESULT", status.status, status.amount, Number(balance.availableBalance) > 0 ? "True" : "False");
  }
})();
"""
_AIRTELMONEY = """
import sys
from airtelmoney import AirtelMoney

(address,) = sys.argv[1:]
client = AirtelMoney(client_id="airtel-client", client_secret="airtel-secret", base_url=address)
asked = client.collection.payment(reference="Order 10", msisdn="752604392", amount=5000)
sent = client.disbursement.payment(msisdn="752604392", amount=1000, reference="payout-10", pin="1234")
for product, made in ((client.collection, asked), (client.disbursement, sent)):
    status = product.enquiry(made["data"]["transaction"]["id"])
    print("RESULT", status["data"]["transaction"]["status"])
person, account = client.kyc.user_enquiry("752604392")["data"], client.account.balance()["data"]
print("RESULT", person["is_barred"], bool(account["balance"]))
"""


@contextmanager
def stand_in(name: str, *options: str) -> Iterator[StandInProcess]:
    running = StandInProcess(name, *options)
    try:
        yield running
    finally:
        running.stop()


def results(program: str, *arguments: str, package: str, folder: Path) -> list[list[str]]:
    """Install a pinned package into a folder of its own, run a program with it, and return the words of its results."""
    if "@" in package:
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), package]
        command, environment = ["node", "-e", program, "--"], {"NODE_PATH": str(folder / "node_modules")}
    else:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), package]
        command, environment = [sys.executable, "-c", program], {"PYTHONPATH": str(folder)}
    subprocess.run(install, check=True, timeout=300)
    path = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    ran = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=environment | path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return [line.split()[1:] for line in ran.stdout.splitlines() if line.startswith("RESULT")]


@pytest.mark.parametrize(
    ("package", "program", "platform"),
    [
        ("mtnmomo==3.0.1", _MTNMOMO, []),
        ("momo-openapi==0.1.2", _MOMO_OPENAPI, []),
        ("momo-openapi==0.1.2", _MOMO_OPENAPI, ["--new-platform"]),
        ("mtn-momo@2.0.0", _MTN_MOMO, []),
    ],
)
@pytest.mark.needs_node
def test_a_client_of_mtn(package: str, program: str, platform: list[str], tmp_path: Path) -> None:
    keys = [f"--{product}-key={key}" for product, key in _SUBSCRIPTIONS.items()]
    user = ["--environment=mtnuganda", f"--api-user={_USER}", f"--api-key={_KEY}"]
    with stand_in("mtn", *user, *keys, *platform) as mtn:
        arguments = (mtn.base_url, _USER, _KEY, *_SUBSCRIPTIONS.values())
        printed = results(program, *arguments, package=package, folder=tmp_path)
        assert printed == [["SUCCESSFUL", "5000", "True"], ["SUCCESSFUL", "1000", "True"]]
        assert sorted(mtn.paid().values()) == [100_000, 500_000]


def test_a_client_of_airtel(tmp_path: Path) -> None:
    with stand_in("airtel") as airtel:
        printed = results(_AIRTELMONEY, airtel.base_url, package="airtelmoney-py==1.0.6", folder=tmp_path)
        assert printed == [["TS"], ["TS"], ["False", "True"]]
        assert sorted(airtel.paid().values()) == [100_000, 500_000]
