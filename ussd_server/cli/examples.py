"""An example for the `--help` of every command."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import click

_ID = "019ab3c4-0000-7000-8000-000000000000"

EXAMPLES = {
    "": "run",
    "accounts credit": "accounts credit --client acme --amount 500000 --reference slip-17",
    "accounts list": "accounts list --client acme",
    "accounts statement": "accounts statement acme --from 2026-11-01 --to 2026-12-01 --csv",
    "callbacks": "callbacks",
    "channels create": "channels create --client acme --adapter africastalking --code '*384*123#'",
    "channels disable": f"channels disable {_ID}",
    "channels enable": f"channels enable {_ID}",
    "channels list": "channels list",
    "check": "check",
    "clients create": "clients create acme",
    "clients disable": "clients disable acme",
    "clients enable": "clients enable acme",
    "clients export": "clients export acme acme.jsonl",
    "clients import": "clients import acme.jsonl",
    "clients list": "clients list",
    "clients readers": "clients readers acme --count",
    "clients take-back": "clients take-back acme --reason 'The import failed' --by Ann --and Ben",
    "clients seed": "clients seed clients.csv",
    "codes assign": "codes assign '*384*123#' --client acme --menu shop",
    "codes list": "codes list --client acme",
    "completion": "completion bash > ~/.local/share/bash-completion/completions/ussd-server",
    "day close": "day close 2026-11-20 mtn --by Ann",
    "day list": "day list --open",
    "dial": "dial '*165#' --phone +256770000000",
    "doctor": "doctor",
    "fees list": "fees list",
    "fees set": "fees set --client acme --type collection --fixed 200 --share-basis-points 150",
    "find": "find +256772123456",
    "incoming assign": f"incoming assign {_ID} SCH1042 --by Ann --and Bob",
    "incoming list": "incoming list",
    "incoming return": f"incoming return {_ID} --reason 'The payer asked for it' --by Ann --and Bob",
    "keys change": f"keys change {_ID} --scopes 'transactions:read' --daily-limit 2000000",
    "keys create": "keys create --client acme --scopes 'transactions:* balance:read'",
    "keys disable": f"keys disable {_ID}",
    "keys enable": f"keys enable {_ID}",
    "keys explain": f"keys explain {_ID}",
    "keys list": "keys list --client acme",
    "keys requests": f"keys requests {_ID} --since 2026-11-20",
    "keys seed": "keys seed keys.csv",
    "keys usage": f"keys usage {_ID} --days 7",
    "mail test": "mail test ops@example.org",
    "menu check": "menu check shop.yaml",
    "menu graph": "menu graph shop.yaml > shop.svg",
    "menu list": "menu list --client acme",
    "menu publish": "menu publish shop.yaml --client acme --code '*384*123#'",
    "menu rollback": "menu rollback shop --client acme",
    "menu script": "menu script shop.yaml",
    "menu secret": "menu secret --client acme",
    "menu show": "menu show shop --client acme > shop.yaml",
    "migrate": "migrate",
    "months export": "months export 2026-10 archive",
    "months verify": "months verify archive/2026-10",
    "operators create": "operators create --email ops@example.org",
    "operators disable": "operators disable ops@example.org",
    "operators enable": "operators enable ops@example.org",
    "operators list": "operators list",
    "operators reset-factor": "operators reset-factor ops@example.org",
    "payment-codes prefix": "payment-codes prefix acme SCH",
    "payouts approve": f"payouts approve {_ID} --client acme --by Ann --and Ben",
    "payouts cancel": f"payouts cancel {_ID} --client acme",
    "payouts create": "payouts create salaries.csv --client acme --reference 'Salaries 2026-11' --by Ann",
    "payouts list": "payouts list --client acme",
    "payouts show": f"payouts show {_ID} --client acme",
    "providers": "providers",
    "providers off": "providers off mtn --reason 'MTN is under maintenance until 14:00'",
    "providers on": "providers on mtn --reason 'MTN is back'",
    "reconcile": "reconcile mtn statement.csv --csv result.csv",
    "reconcile review conclude": f"reconcile review conclude {_ID} --reason 'Line 12' --by Ann --and Ben",
    "reconcile review end": f"reconcile review end {_ID} --reason 'Known' --by Ann",
    "reconcile review hold": f"reconcile review hold {_ID}",
    "reconcile review list": "reconcile review list",
    "reconcile undo": f"reconcile undo {_ID} --by Ann --and Ben",
    "recover": "recover --since 2026-11-20T14:00:00Z --statement mtn=statement.csv --csv lost.csv",
    "report daily": "report daily --date 2026-11-20 --client acme --csv",
    "run": "run --without-examples",
    "secrets add": "secrets add",
    "secrets create": "secrets create /etc/ussd-server/secrets.json",
    "secrets rekey": "secrets rekey",
    "secrets retire": "secrets retire",
    "secrets rotate": "secrets rotate",
    "settlements accounts": "settlements accounts",
    "settlements confirm": "settlements confirm acme --by Ann",
    "settlements list": "settlements list acme",
    "settlements propose": "settlements propose --csv due.csv",
    "settlements record": "settlements record due.csv --by Ann --and Ben",
    "settlements set": "settlements set acme --keep 50000 --minimum 10000",
    "subscribers erase": "subscribers erase +256772123456 --reason 'Asked on 2026-11-20' --by Ann --and Ben",
    "subscribers export": "subscribers export +256772123456 > subscriber.json",
    "subscribers show": "subscribers show +256772123456 --client acme",
    "transactions refund": f"transactions refund {_ID} --amount 2000 --reason 'Twice' --by Ann --and Ben",
    "transactions review": "transactions review",
    "transactions show": "transactions show order-17 --client acme",
    "users create": "users create --client acme --email owner@acme.example --role owner",
    "users disable": "users disable owner@acme.example",
    "users enable": "users enable owner@acme.example",
    "users list": "users list --client acme",
    "users password": "users password owner@acme.example",
    "users remove-factor": "users remove-factor owner@acme.example",
    "webhooks list": "webhooks list --client acme",
    "webhooks redeliver": "webhooks redeliver --client acme --from 2026-11-20T08:00:00Z --to 2026-11-20T10:00:00Z",
    "worker": "worker",
}
"""What follows `ussd-server`, by the name of the command. A group without one shows that of its first command."""


def program() -> str:
    """Return what to type for this command here: its name where the shell finds it, else its path."""
    here = Path(sys.executable).with_name("ussd-server")
    found = shutil.which("ussd-server")
    return "ussd-server" if not here.exists() or (found and Path(found).samefile(here)) else shlex.quote(str(here))


def with_program(text: str) -> str:
    """Return a text in which the commands between backticks can be pasted as they are."""
    return text.replace("`ussd-server ", f"`{program()} ")


def add_help(command: click.Command, name: str) -> None:
    """Give a command, and all below it, an example and a short help that is not cut."""
    if command.help:
        first_sentence = " ".join(command.help.partition("\n\n")[0].split()).partition(". ")[0]
        command.short_help = first_sentence.removesuffix(".") + "."
    command.epilog = f"\b\nExample:\n  {program()} {_example(command, name)}"
    if isinstance(command, click.Group):
        for below, each in command.commands.items():
            add_help(each, f"{name} {below}".strip())


def _example(command: click.Command, name: str) -> str:
    if name in EXAMPLES or not isinstance(command, click.Group):
        return EXAMPLES.get(name, name)
    below = min(each for each in command.commands if not command.commands[each].hidden)
    return _example(command.commands[below], f"{name} {below}")
