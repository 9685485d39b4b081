"""The example in the help of every command, typed as it stands against one small service."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.conftest import run
from tests.documents.commands import commands, name_of
from tests.support.money import request
from ussd_server.bootstrap import Services
from ussd_server.cli import open_services
from ussd_server.cli.commands import EXAMPLE_ID
from ussd_server.context import Caller, CallerKind, RequestContext, operator_context
from ussd_server.services.bank.messages import SetSettlementTerms, StateBankAccount

EXAMPLES = {name_of(path): command.example_at(name_of(path)) for path, command in commands()}
_HEADINGS = "Id,External id,Date,Status,Type,From,To,Amount,Currency,Fee,Balance"
_PAYMENT = "S-1,x,2026-11-20 17:00:00,Successful,Payment,FRI:256772123456/MSISDN,FRI:41000001/MM,5000,UGX,0,0"
_DUE = "settlement_id,client_id,client,bank,number,name,amount,currency,bank_reference"
_CLIENT = "clients create"
_BEFORE = ("users create", "menu publish", "accounts credit", "keys create", "channels create", "payouts create")
# With accounts of operators, names are e-mail addresses.
_LAST = [name for name in EXAMPLES if name.startswith(("operators", "secrets"))]
_SERVING = {"run", "smpp", "webhooks listen", "worker"}
_REFUSED = {
    "clients connection": "Must be one of: sandbox",
    "clients approval-rules": "No approval rules wait",
    "day close": "No statement",
    "dial": "demo.json",
    "mail test": "USSD_SMTP_URL",
    "accounts fill": "no shortfall",
    "movements assign": "not found",
    "movements correct": "not found",
    "movements own": "not found",
    "movements release": "not found",
    "movements return": "not found",
    "movements same": "not found",
    "movements show": "not found",
    "movements unmoved": "not found",
    "operators code": "There is no operator",
    "menu rollback": "no version before",
    "secrets sign": "must be the e-mail address of an active operator",
    "settlements cancel": "not found",
    "settlements returned": "not found",
    "providers adopt": "Must be one of: sandbox",
    "providers off": "Must be one of: sandbox",
    "providers on": "Must be one of: sandbox",
    "providers try": "No such connection",
    "reconcile": "looks like the wrong file",
    "reconcile layouts remove": "not found",
    "reconcile review conclude": "not found",
    "reconcile review end": "not found",
    "reconcile undo": "not found",
    "users remove-factor": "no second factor",
    "webhooks trigger": "no connection",
}
"""What an example needs that this service does not have."""


def invoke(name: str, ids: dict[str, str]) -> Result:
    """Type an example, with the id of a real object in the place of its id."""
    typed = EXAMPLES[name].partition(" > ")[0].replace("/etc/", "")
    noun = "transaction" if name.startswith("transactions") else name.partition(" ")[0]
    return run(*shlex.split(typed.replace(EXAMPLE_ID, ids.get(noun, EXAMPLE_ID))))


def ids_of(services: Services) -> dict[str, str]:
    """The ids of the client's objects, and a collection that can be refunded."""
    client_id = services.clients.find("acme", operator_context()).client_id
    context = operator_context(client_id)
    owner = services.clients.find_user("owner@acme.example", context).user_id
    person = RequestContext(Caller(CallerKind.TOKEN, client_id=client_id, user_id=owner))
    # What stays is enough for the other examples.
    services.bank_accounts.set_terms(SetSettlementTerms(client_id, keep_cents=5_000_00), operator_context())
    services.bank_accounts.state(StateBankAccount("Stanbic", "9030001234567", "ACME Ltd"), person)
    program = RequestContext(Caller(CallerKind.KEY, client_id=client_id, grants=None))
    made = services.transactions.create(request(reference="order-17"), program).transaction
    for claimed in services.processing.claim(1):
        services.processing.advance(claimed)
    return {
        "transaction": made.transaction_id,
        "keys": services.key_reader.list(context)[0].id,
        "channels": services.channels.list(context)[0].channel_id,
    }


@pytest.fixture
def folder(tmp_path: Path, migrated_sqlite: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a new service and the files that examples name."""
    shutil.copy(migrated_sqlite, tmp_path / "ussd.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("USSD_REDIS_URL", redis_url)
    monkeypatch.delenv("USSD_DATABASE_URL", raising=False)
    menu = Path(__file__).parents[2] / "ussd_server" / "menus" / "examples" / "shop_bill.yaml"
    for name, content in {
        "shop.yaml": menu.read_text().replace("id: shop-bill", "id: shop"),
        "clients.csv": "name\nSeeded\n",
        "keys.csv": "client,apikey,apisecret\nacme,theirkey0001,a-secret-of-theirs-01\n",
        "salaries.csv": "phone_number,amount,reference\n0770000000,1000,a\n",
        "statement.csv": f"{_HEADINGS}\n{_PAYMENT}\n",
        "due.csv": f"{_DUE}\n",
    }.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "ussd-server").mkdir()
    return tmp_path


def test_the_example_of_every_command_does_what_it_says(folder: Path) -> None:
    ids: dict[str, str] = {}
    made = {name: invoke(name, ids) for name in (_CLIENT, *_BEFORE)}
    with open_services() as services:
        ids = ids_of(services)
    ids["payouts"] = made["payouts create"].stdout.split()[0]
    others = [name for name in EXAMPLES if name not in {*made, *_LAST, *_SERVING}]
    results = made | {name: invoke(name, ids) for name in (*others, *_LAST)}
    wrong = {
        name: result.output or repr(result.exception)
        for name, result in results.items()
        if (result.exit_code != 0) != (name in _REFUSED) or _REFUSED.get(name, "") not in result.output
    }
    assert not wrong, "\n".join(f"{name}: {said}" for name, said in wrong.items())
