"""The book for operators, typed on an empty Debian: the installation on one machine, then every other command.

A command with a state that only hours or a person in the console can make is refused, in the sentence that is tested.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.outbound.certificates import Authority
from tests.support.book import DOCS, Book, chapter
from tests.support.debian import Debian, running_debian
from tests.support.mail_server import MailServer
from tests.support.stand_ins import mtn_settings

pytestmark = [pytest.mark.nightly, pytest.mark.needs_debootstrap, pytest.mark.timeout(3000)]

REPOSITORY = Path(__file__).parents[2]
HOST = "ussd.example.com"
CERTIFICATE = f"/etc/letsencrypt/live/{HOST}"
# Files of commands are here, because they run as the user of the service.
KAMPALA = timezone(timedelta(hours=3))
RETRIED = "curl -sS --fail --retry 30 --retry-all-errors"
READY = f"{RETRIED} http://127.0.0.1:8000/health/ready"
UNKNOWN = "01a22803-f254-7581-8e66-10b50e209786"
DESK = "/var/lib/ussd-server"
PROVIDER = "https://127.0.0.1:9001"
# This machine, as a machine in namespaces sees it.
OUTSIDE = "10.0.2.2"
BY, BOTH = {"--by NAME": "--by Ann"}, {"--by NAME": "--by Ann", "--and NAME": "--and Ben"}
NUMBER = "+256772123456"
STAND_IN = (
    "systemd-run --quiet /opt/ussd-server/.venv/bin/python -m simulators.mtn --environment mtnuganda --port 9001 "
    "--certificate /root/provider.pem --api-user {user} --api-key {key} --callback-host ussd.example.com"
)


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def debian(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    """An empty Debian 12, and an empty Debian 13."""
    with running_debian(request.param, tmp_path_factory.mktemp("debian")) as machine:
        yield machine


@pytest.fixture(scope="module")
def mails() -> Iterator[MailServer]:
    server = MailServer()
    yield server
    server.stop()


def test_every_command_of_the_book_does_what_it_says(debian: Debian, mails: MailServer) -> None:
    prepare(debian)
    installation = Book(chapter("INSTALL.md", "On one machine"), debian, "/root")
    install(installation, debian, mails)
    assert installation.waiting == []
    book = Book((DOCS / "OPERATIONS.md").read_text(), debian, DESK)
    for part in (look, money, payouts, days, movements, bank, subscriber, rotate, people, back_up, upgrade):
        part(book, Shop(debian))
    assert book.waiting == []


class Shop:
    """The client and its key, in the machine."""

    def __init__(self, machine: Debian) -> None:
        self.machine = machine
        self._key = json.loads(machine.run("ussd keys create --client acme --json"))

    def call(self, path: str, **body: Any) -> dict[str, Any]:
        """Send a request through nginx; give the data of its reply."""
        headers = [f"-H 'x-api-{name}: {self._key[f'api{name}']}'" for name in ("key", "secret")]
        sent = f"-d '{json.dumps(body)}'" if body else ""
        words = f"curl -sS -H 'Content-Type: application/json' {' '.join(headers)} {sent} https://{HOST}{path}"
        return dict(json.loads(self.machine.run(words))["data"])

    def pay(self, reference: str, kind: str = "collection", amount: int = 5000) -> dict[str, Any]:
        """A payment that has come to its end."""
        order = {"type": kind, "phone_number": NUMBER, "amount": amount, "reference": reference}
        return self.call("/api/transactions?wait=20", **order)

    def ask(self, command: str) -> Any:
        """What a command says, for programs."""
        return json.loads(self.machine.run(f"ussd {command} --json"))


def prepare(machine: Debian) -> None:
    """Give the machine a checkout, the names of the service, its certificates, and those of its provider."""
    checkout = machine.root / "root/repository"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    for name in filter(None, files.split("\0")):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, checkout / name)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "one"], ["tag", "v1.0.0"]):
        subprocess.run(["git", *words], cwd=checkout, check=True)
    authority = Authority()
    for path, name in (("root/provider.pem", "127.0.0.1"), (f"{CERTIFICATE[1:]}/fullchain.pem", HOST)):
        (machine.root / path).parent.mkdir(parents=True, exist_ok=True)
        authority.certify(machine.root / path, name)
    machine.run(f"cp {CERTIFICATE}/fullchain.pem {CERTIFICATE}/privkey.pem")
    machine.write("/usr/local/share/ca-certificates/tests.crt", authority.pem)
    machine.run(f"update-ca-certificates; echo '127.0.0.1 {HOST} www.{HOST}' >> /etc/hosts")


def install(book: Book, machine: Debian, mails: MailServer) -> None:
    """The installation, from the first step to the last."""
    for beginning in ("apt-get install", "useradd", "install -d -o ussd"):
        book.type(beginning)
    book.type("git clone", {"REPOSITORY": "/root/repository"})
    for beginning in ("cd /opt", "deploy/install", "runuser -u postgres -- createuser", "runuser", "install -o ussd"):
        book.type(beginning)
    provider = mtn_settings(PROVIDER)
    settings = {
        **provider,
        "USSD_CA_FILE": "/etc/ssl/certs/ca-certificates.crt",
        "USSD_SMTP_URL": mails.url.replace("127.0.0.1", OUTSIDE),
        "USSD_MAIL_FROM": "noreply@example.com",
    }
    machine.run(
        STAND_IN.format(user=provider["USSD_MTN_COLLECTION_API_USER"], key=provider["USSD_MTN_COLLECTION_API_KEY"])
    )
    written = "".join(f"{name}={value}\n" for name, value in settings.items())
    book.edit("nano /etc/ussd-server/environment", {r"\Z": written})
    for beginning in ("install -m 0755 deploy/ussd", "ussd secrets create", "ussd migrate", "ussd doctor"):
        book.type(beginning)
    for beginning in ("cp deploy/ussd-server-*.service", "install -m 0755 deploy/ussd-backup", "install -d"):
        book.type(beginning)
    for beginning in ("systemctl daemon-reload", "systemctl enable --now", "systemctl enable --now", "curl http://"):
        book.type(beginning)
    book.leave("certbot", "a public name leads to no machine of a test")
    for beginning in ("cp deploy/nginx-main", "cp deploy/nginx.conf"):
        book.type(beginning)
    book.edit("nano /etc/nginx", {"/etc/ussd-server/tls": CERTIFICATE})
    for beginning in ("echo 'tmpfs", "mount", "nginx -t"):
        book.type(beginning)
    # A reload does not wait for its end.
    machine.run(f"{RETRIED} https://{HOST}/health/ready")
    book.type("curl https")
    first_client(book, machine)


def first_client(book: Book, machine: Debian) -> None:
    """The first client, its code, its phone, and lists of others."""
    for beginning in ("ussd clients create", "ussd users create", "ussd keys create", "ussd codes assign"):
        book.type(beginning)
    channel = book.type("ussd channels create")
    for beginning in ("ussd callbacks", "ussd menu publish"):
        book.type(beginning)
    # Its session stays open, and an erasure waits for the end of those of its number.
    book.type("ussd dial", {"PATH": channel.split()[-1], NUMBER: "+256772000000"})
    machine.write(f"{DESK}/clients.csv", "name\nother\n")
    machine.write(f"{DESK}/keys.csv", "client,apikey,apisecret\nother,ownkey2042,a-secret-of-before\n")
    book.type("ussd clients seed", {"FILE": f"{DESK}/clients.csv"})
    book.type("ussd keys seed", {"FILE": f"{DESK}/keys.csv"})


def look(book: Book, shop: Shop) -> None:
    """What shows how the service is."""
    for beginning in ("ussd doctor", "curl", "systemctl status 'ussd", "journalctl", "journalctl", "journalctl"):
        book.type(beginning)
    for beginning in ("ussd channels list", "systemctl status ussd-server-worker", "ussd check --full", "ussd check"):
        book.type(beginning)
    book.warns("systemctl status ussd-server-smpp", "inactive")
    for beginning in (
        "ussd providers",
        "ussd callbacks",
        "systemctl restart ussd-server-worker",
        "systemctl restart ussd-server-worker ussd-server-web",
        "systemctl reload nginx",
    ):
        book.type(beginning)
    book.type("ussd mail test")
    book.type("GRANT", {"GRANT pg_monitor TO ussd": "runuser -u postgres -- psql -c 'GRANT pg_monitor TO ussd'"})


def money(book: Book, shop: Shop) -> None:
    """Payments, and money that is given back."""
    payment, other = (shop.pay(f"order-{number}") for number in (1, 2))
    assert (payment["status"], other["status"]) == ("succeeded", "succeeded")
    book.type("ussd find TEXT", {"TEXT": NUMBER})
    book.type("ussd find REFERENCE", {"REFERENCE": "order-1"})
    book.type("ussd transactions show", {"ID": payment["transaction_id"]})
    book.warns(
        "ussd transactions review --settle",
        "not on the review list",
        {"ID": payment["transaction_id"], "R": "5", **BOTH},
    )
    book.type("ussd transactions review")
    credit = "--client acme --amount 900000 --reference slip-17 --by Ann --and Ben --json"
    booked = json.loads(book.type("ussd accounts credit", {"ussd accounts credit": f"ussd accounts credit {credit}"}))
    shop.machine.run(f"ussd accounts credit {credit.replace('17', '18')}")
    book.type("ussd accounts credit --undo", {"ID": booked["transaction"]["transaction_id"], **BOTH})


def payouts(book: Book, shop: Shop) -> None:
    """A payout that waits, and is cancelled."""
    rows = [{"reference": "r1", "phone_number": NUMBER, "amount": 700}]
    payout = shop.call("/api/payouts", reference="salaries", items=rows)["payout_id"]
    client = {"NAME": "acme"}
    book.type("ussd payouts list", client)
    book.type("ussd payouts show", {"ID": payout, **client})
    book.type("ussd payouts cancel", {"ID": payout, **client})
    book.warns("ussd payouts retry", "The payout is cancelled", {"ID": payout, "--client NAME": "--client acme", **BY})


def days(book: Book, shop: Shop) -> None:
    """A statement with a payment that we do not know, and the days."""
    today = datetime.now(KAMPALA)
    yesterday, day = f"{today - timedelta(days=1):%Y-%m-%d}", f"{today:%Y-%m-%d}"
    fetch_statement(shop.machine)
    book.warns("ussd reconcile mtn statement.csv --dry-run", "1 not_ours")
    book.warns("ussd reconcile mtn statement.csv --csv", "Statement ")
    compared = shop.machine.try_to(f"cd {DESK}; ussd reconcile mtn statement.csv").stdout
    (statement,) = re.findall(r"Statement (\S+)", compared)
    book.type("ussd reconcile undo", {"STATEMENT_ID": statement, **BOTH})
    shop.machine.try_to(f"cd {DESK}; ussd reconcile mtn statement.csv")
    book.type("ussd reconcile review list")
    # The line of which we know nothing is a held movement.
    book.warns("ussd reconcile review end", "not found", {"ID": UNKNOWN, **BY})
    book.warns("ussd reconcile review conclude", "not found", {"ID": UNKNOWN, **BOTH})
    book.type("ussd day list")
    book.warns(
        "ussd day close 2026-11-20 mtn --by NAME --and",
        "No statement covers this day",
        {"2026-11-20": yesterday, **BOTH},
    )
    book.warns("ussd day close 2026-11-20", "The day is not over", {"2026-11-20": day, **BY})
    book.type("ussd day close 2026-11-22", {"2026-11-22": yesterday, **BY})
    book.type("ussd report daily", {"2026-11-20": yesterday})
    dates = {"2026-11-20": yesterday, "2026-11-21": day}
    book.type("ussd accounts statement", {"CLIENT": "acme", **dates})
    lost = {"2026-11-20T14:00:00Z": f"{today - timedelta(hours=1):%Y-%m-%dT%H:%M:%S+03:00}"}
    lost["mtn=mtn.csv --statement airtel=airtel.csv"] = "mtn=statement.csv"
    book.type(
        "ussd recover --since 2026-11-20T14:00:00Z --statement mtn=mtn.csv --statement airtel=airtel.csv --csv", lost
    )
    book.type("ussd recover", {**lost, **BOTH})


def fetch_statement(machine: Debian) -> None:
    """The statement of the provider, with one line more, of which it told us nothing."""
    path = f"{DESK}/statement.csv"
    machine.run(f"curl -sS --fail {PROVIDER}/_control/statement > {path}")
    *lines, last, total = (machine.root / path[1:]).read_text().splitlines()
    unknown = last
    for ours, theirs in (("5,000.00", "3,000.00"), ("010,000.00", "013,000.00"), ("256772", "256773")):
        unknown = unknown.replace(ours, theirs)
    receipt, name = unknown.split(",")[:2]
    unknown = unknown.replace(receipt, f"{receipt}9").replace(name, "")
    machine.write(path, "\n".join([*lines, last, unknown, total]))


def movements(book: Book, shop: Shop) -> None:
    """What moved otherwise than by a payment."""
    payment = shop.call("/data/collection")["items"][0]["transaction_id"]
    book.type("ussd movements list")
    movement = {"ID": shop.ask("movements list --held")["items"][0]["movement_id"]}
    book.type("ussd movements correct", {**movement, "--payment T": f"--payment {payment}", **BOTH})
    book.type("ussd movements release", {**movement, **BOTH})
    book.warns("ussd movements unmoved", "No statement that covers it lacks it", {"TRANSACTION": payment, **BOTH})
    book.type("ussd transactions refund", {"ID": payment, **BOTH})
    book.warns("ussd accounts fill", "no shortfall", BOTH)


def bank(book: Book, shop: Shop) -> None:
    """Settlements: only the client's owner states a bank account, in the console."""
    book.type("ussd settlements accounts")
    book.warns(
        "ussd settlements confirm", "has not stated a bank account", {"CLIENT": "acme", "NUMBER": "9030001234567", **BY}
    )
    book.type("ussd settlements set", {"CLIENT": "acme"})
    book.type("ussd settlements propose --csv", BY)
    book.type("ussd settlements propose")
    book.type("ussd settlements list")
    book.type("ussd settlements record", BOTH)
    book.warns("ussd settlements cancel", "Settlement not found", {"ID": UNKNOWN, **BOTH})
    book.warns("ussd settlements returned", "Settlement not found", {"ID": UNKNOWN, **BOTH})
    book.type("ussd settlements waiting", {"FILE": "waiting.csv"})


def subscriber(book: Book, shop: Shop) -> None:
    """What is held about a number."""
    for beginning, words in (("show", {}), ("export", {}), ("erase", BOTH)):
        book.type(f"ussd subscribers {beginning}", words)


def people(book: Book, shop: Shop) -> None:
    """Keys, people and operators."""
    key = json.loads(shop.machine.run("ussd keys create --client acme --json"))["id"]
    book.type("ussd keys requests", {"KEY": key, "DAY": f"{datetime.now(KAMPALA):%Y-%m-%d}"})
    book.type("ussd keys disable", {"KEY": key})
    book.type("ussd clients readers", {"CLIENT": "acme"})
    book.type("ussd clients approval-rules", {"CLIENT": "acme"})
    owner, operator = {"EMAIL": "owner@acme.example"}, {"EMAIL": "ops@example.org"}
    book.type("ussd users confirm", owner)
    book.warns("ussd users remove-factor", "The person has no second factor", owner)
    book.type("ussd users disable", owner)
    for beginning in ("create --email", "reset-factor", "password", "disable"):
        book.type(f"ussd operators {beginning}", operator)
    made = "ussd channels create --client acme --adapter africastalking --code '*384*123#' --json"
    channel = json.loads(book.type("ussd channels create", {"ussd channels create": made}))
    book.type("ussd channels disable", {"disable": f"disable {channel['channel_id']}"})


def rotate(book: Book, shop: Shop) -> None:
    """The master keys."""
    for beginning in ("rotate", "add", "rekey", "retire"):
        book.type(f"ussd secrets {beginning}")
    book.type("ussd secrets sign", {"TEXT": "compared", **BOTH})


def back_up(book: Book, shop: Shop) -> None:
    """A backup, and a copy of the database that is made of it."""
    dump = book.type("systemctl start ussd-server-backup").split()[-1]
    book.type("runuser -u postgres")
    book.type("runuser -u ussd", {"ussd-20261120T013000Z.dump": dump})
    for beginning in ("sed", "SETTINGS=/etc/ussd-server/restored ussd check"):
        book.type(beginning)
    # It exits with 1, because the running processes use the other database.
    book.warns("SETTINGS", "keys: belong to this database")
    book.leave("sqlite3", "the service is on PostgreSQL")


def upgrade(book: Book, shop: Shop) -> None:
    """An upgrade, by a reload and with the socket of systemd, and a time that is set right."""
    for beginning in ("cd /opt", "deploy/install", "ussd migrate", "systemctl reload", "systemctl try-restart"):
        book.type(beginning)
    book.type("deploy/install fast otel")
    book.type("systemctl restart ussd-server-web")
    for beginning in ("cp deploy", "systemctl daemon", "systemctl stop ussd-server-web", "systemctl enable"):
        book.type(beginning)
    shop.machine.run(READY)
    book.type("systemctl stop ussd-server-web.socket")
    shop.machine.run("systemctl stop ussd-server-worker")
    book.type("UPDATE", {"UPDATE": "runuser -u ussd -- psql -c 'UPDATE", "NULL": "NULL'"})
    shop.machine.run("systemctl start ussd-server-web ussd-server-worker")
    shop.machine.run(READY)
