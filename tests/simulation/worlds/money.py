"""A world of money that moves otherwise than it was asked for, or told: taken back, silently, late, in part, never."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random

from simulators.layouts import IN, OUT
from tests.simulation.worlds.callers import Answer
from tests.simulation.worlds.desk import Desk
from tests.simulation.worlds.gates.days import Days
from tests.simulation.worlds.money_plan import ACCOUNTS
from tests.simulation.worlds.moved_money import Move, MovedMoney
from tests.simulation.worlds.outcome import Outcome
from tests.simulation.worlds.payers import create_codes
from tests.simulation.worlds.plan import Incident
from tests.simulation.worlds.provider import Entry, SimulatedProvider
from tests.simulation.worlds.virtual_time import STARTED_AT, TIME
from tests.simulation.worlds.world import World
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext, operator_context
from ussd_server.models.sending import Webhook
from ussd_server.services.incoming.messages import NotifyPayment
from ussd_server.services.movements.messages import FillShortfall
from ussd_server.services.operations.book_check.sums import account_sums
from ussd_server.services.reconciliation.messages import ReconcileStatement
from ussd_server.status import ServiceError

_TILL = RequestContext(Caller(CallerKind.NOBODY))
_RETURNED_WITHIN = 50_000.0
_MOVEMENTS = (
    "SELECT id, account, direction, receipt, amount_cents, use_kind, transaction_id, told FROM movements "
    "WHERE same_as IS NULL"
)
_DIFFERENCES = (
    "SELECT id, verdict FROM statement_differences WHERE ended_at IS NULL AND movement_id IS NULL AND statement_id IN "
    "(SELECT id FROM provider_statements WHERE state = 'stored')"
)


class Money(World):
    """Its accounts have a list of what moved, its operators look at it, and its rules compare the books with it."""

    tables = {name: World.tables[name] for name in ("account", "transfer", "transaction", "closed_day", "event")} | {
        "movement": _MOVEMENTS,
        "open_difference": _DIFFERENCES,
    }
    # So little that what is taken back is sometimes more than there is.
    deposit_cents = 1_500_000

    def __init__(self, seed: int, folder: Path, threads: int = 2) -> None:
        self._clients: dict[str, int] = {}
        super().__init__(seed, folder, threads)
        self._notices: dict[str, Incident] = {}
        self.desk = Desk(
            {each.name: each for each in self._accounts},
            self.callers,
            self.database,
            self.note,
            f"seed {seed}",
            self._give_back,
        )
        self.callers.kinds |= {"payer": self._pay, "own": self._move_own, "desk": self._work}
        for each in self._accounts:
            each.when_taken = partial(self._taken, each)

    def _make_providers(self, seed: str) -> Sequence[SimulatedProvider]:
        self._accounts = [
            MovedMoney(name, self._clients, self.scheduler, f"{seed}/{name}", self.note) for name in ACCOUNTS
        ]
        return self._accounts

    def run(self, plan: list[Incident], days: float) -> Outcome:
        """Run a plan; whose a payment is, its phone number says."""
        self._clients |= {
            each.given["phone"]: each.given["client"]
            for each in plan
            if each.kind in ("collection", "disbursement", "refund")
        }
        self._books = [Days(self.note, days, name) for name in ACCOUNTS]
        return super().run(plan, days)

    def _prepare(self, services: Services) -> None:
        create_codes(services, self.callers.contexts)
        Webhook.delete().execute()

    def _do(self, incident: Incident) -> None:
        if incident.given.get("notices") and incident.kind == "collection":
            self._notices[incident.given["phone"]] = incident
        super()._do(incident)

    def _taken(self, account: MovedMoney, entry: Entry) -> None:
        """The till tells of a collection that somebody asked for, too."""
        incident = self._notices.pop(entry.phone, None)
        move = account.moves[-1] if account.moves and account.moves[-1].of is None else None
        if incident is not None and move is not None and move.reference == entry.reference:
            self._tell(incident, account.name, move)

    def _pay(self, incident: Incident) -> None:
        """A payer pays, and the till tells of it."""
        given, account = incident.given, self.desk.accounts[incident.given["provider"]]
        payer = {"code": given["code"], "is_payers": True}
        move = account.move(1, given["cents"], given["phone"], TIME.now, given["client"], IN, **payer)
        if given["given_back_after"] is not None:
            account.give_back(move, TIME.now + given["given_back_after"], names_original=False)
        self._tell(incident, account.name, move)

    def _tell(self, incident: Incident, account: str, move: Move) -> None:
        for notice in incident.given["notices"]:
            told = NotifyPayment(
                account,
                notice["written"].format(move.receipt),
                notice["typed"],
                notice["cents"],
                move.phone if notice["is_numbered"] else None,
                STARTED_AT + timedelta(seconds=move.at) if notice["is_dated"] else None,
            )
            call = Incident(incident.at, "till", {"again": [], "patience": 30.0})

            def notify(call: Incident = call, told: NotifyPayment = told) -> None:
                self.callers.insist(call, [], lambda services: _notified(services, told))

            after = move.at - TIME.now + notice["after"]
            self.scheduler.spawn(self._outside, "till", notify, after)

    def _move_own(self, incident: Incident) -> None:
        given = incident.given
        kind = IN if given["sign"] > 0 else OUT
        account = self.desk.accounts[given["provider"]]
        account.move(given["sign"], given["cents"], given["phone"], TIME.now, None, kind)

    def _give_back(self, move: Move, account: MovedMoney) -> None:
        """The operators give money back that is nobody's, hours later."""
        at = TIME.now + _RETURNED_WITHIN * Random(f"{self.seed}/{move.receipt}").random()
        account.move(-1, move.cents, move.phone, at, None, OUT)

    def _work(self, incident: Incident) -> None:
        """Operators import statements, and decide; perhaps two of them at once."""
        given, services = incident.given, self.fleet.services("operator")
        rng = Random(f"{self.seed}/desk/{given['number']}")
        for account in self._accounts if given["imports"] else ():
            since = max(0.0, TIME.now - given["since"]) if given["since"] else 0.0
            self._import(services, account, since, given["wrong"], rng)
        if given["by_two"]:
            other = self.fleet.services("operator")
            self.scheduler.spawn(self._outside, "desk", lambda: self.desk.work(other))
        self.desk.work(services)
        self._check_sums()

    def _import(
        self, services: Services, account: MovedMoney, since: float, wrong: str | None, rng: Random
    ) -> str | None:
        file = account.file(since, wrong, rng)
        if file is None:
            return None
        request = ReconcileStatement(account.name, "statement.csv", io.BytesIO(file), is_confirmed=True)
        found = services.provider_statements.reconcile(request, operator_context())
        self.note("imported", account=account.name, wrong=wrong, statement=found.statement.statement_id)
        if wrong is not None and not found.is_repeat:
            self.desk.wrong_files.append(found.statement.statement_id)
        return found.statement.statement_id

    def _review(self, services: Services) -> None:
        """On quiet days every account's whole statement is right, and the operators correct their mistakes."""
        self.desk.is_calm = True
        for account, book in zip(self._accounts, self._books, strict=True):
            if (statement_id := self._import(services, account, 0.0, None, Random(0))) is not None:
                book.state(services, statement_id)
        for _ in range(2):
            self.desk.work(services)
            for book in self._books:
                book.close(services)
        self.desk.work(services)
        self._check_sums()

    def _compare(self, services: Services) -> None:
        self._review(services)
        for context in self.callers.contexts:
            try:
                services.corrections.fill(
                    FillShortfall(context.client_id, "fills up", "Ann", "Ben"), operator_context()
                )
            except ServiceError:
                continue

    def _reconcile(self, services: Services) -> None:
        """The statements were compared before."""

    def _check_sums(self) -> None:
        for sums in account_sums():
            self.note("sums", account=sums.account, ledger=sums.ledger_cents, used=sums.used_cents)

    def _note_book(self) -> None:
        for account in self._accounts:
            for move in account.moved():
                client = None if move.client is None else self.callers.contexts[move.client].client_id
                self.note(
                    "moved",
                    account=account.name,
                    receipt=move.receipt,
                    cents=move.sign * move.cents,
                    moved_at=move.at,
                    client=client,
                    is_back=move.of is not None,
                )


def _notified(services: Services, told: NotifyPayment) -> Answer:
    return {"status": services.notices.notify(told, _TILL).status}
