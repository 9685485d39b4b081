"""A client with money, people, keys and a menu, from which money leaves in every way that the gate knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from enum import Enum
from io import BytesIO

from tests.conftest import MovableClock
from tests.services.payouts.desk import row
from tests.support.example_client import ExampleClient
from tests.support.money import balances, deposit, request, work
from tests.support.shop import CODE, PHONE, Shop, client_call, shop_document
from ussd_server.bootstrap import Services, build_services
from ussd_server.context import RequestContext, operator_context
from ussd_server.models.transactions import Transaction
from ussd_server.services.bank.messages import (
    ConfirmBankAccount,
    ProposeSettlements,
    RecordSettlements,
    StateBankAccount,
)
from ussd_server.services.clients.keys.messages import ApiKeyView, CreateApiKey, UpdateApiKey
from ussd_server.services.gates.messages import MONEY_OUT, WayOut
from ussd_server.services.menus.messages import SaveDraft
from ussd_server.services.payouts.messages import ApprovePayout, CreatePayout
from ussd_server.services.payouts.payouts import by_operators
from ussd_server.services.transactions.messages import CreateRefund, OperatorRefund
from ussd_server.services.ussd.messages import BeginSession, EnterText

ADDRESS = "192.0.2.1"
MENU = "pays"


class Sender(Enum):
    """What stands behind money that leaves: a key, a person or an operator; of a menu, its publisher."""

    KEY = "key"
    PERSON = "person"
    OPERATOR = "operator"


class World:
    """`sender` requests or approves what leaves, or has published the menu that pays."""

    def __init__(self, services: Services, clock: MovableClock, sender: Sender) -> None:
        self.services, self.clock, self.sender = services, clock, sender
        self.client = ExampleClient(services)
        self.operator = operator_context(self.client.id)
        self.boss = self.client.at_console("owner")
        deposit(services, self.operator, 900_000)
        self.sale = services.transactions.create(request(shillings=50_000, reference="sale"), self.operator)
        self.shop = Shop(services, shop_document(id=MENU, nodes={"pay": paying_node()}), client_id=self.client.id)
        work(services, clock, 2)
        self.key: ApiKeyView = services.api_keys.create(
            CreateApiKey(("transactions:*", "menus:*", "ussd:*", "payouts:approve", "payouts:read"), name="sender"),
            self.operator,
        )
        self.person = self.client.call("admin").caller.user_id or ""
        if sender is not Sender.OPERATOR:
            self.publish()

    def caller(self) -> RequestContext:
        """The sender, as it is authenticated now."""
        if self.sender is Sender.KEY:
            auth = self.services.auth
            return RequestContext(auth.authenticate_key(self.key.apikey, self.key.apisecret, ADDRESS).caller)
        if self.sender is Sender.PERSON:
            return self.client.at_console("admin")
        return self.operator

    def publish(self) -> None:
        """Publish the menu in the sender's name."""
        document = shop_document(id=MENU, title="In its name", nodes={"pay": paying_node()})
        self.services.menus.save_draft(SaveDraft(MENU, document), self.caller())
        self.services.menus.publish(MENU, self.caller())

    def send(self, way: WayOut) -> None:
        """Record money that leaves in this way; it leaves when the worker works. ServiceError where it is refused."""
        WAYS[way](self)

    def work(self, days: float = 0) -> None:
        """What the worker does in the next seconds, after so many days."""
        self.clock.advance(days * 86_400)
        for _ in range(4):
            for payout_id in self.services.payout_sender.claim(10):
                self.services.payout_sender.advance(payout_id)
            work(self.services, self.clock, 1)

    def left(self) -> list[Transaction]:
        """The payments that left, or may have left."""
        rows = Transaction.select().where(
            Transaction.client_id == self.client.id,
            Transaction.type.in_(MONEY_OUT),
            Transaction.asked_at.is_null(False) | (Transaction.status == "succeeded"),
        )
        return list(rows)

    def reserved_cents(self) -> int:
        """What is reserved on the main account."""
        return balances(self.client.id)["main"][1]

    def disable_client(self) -> None:
        self.services.clients.set_active(self.client.id, False, operator_context())

    def change_key(self, **changes: object) -> None:
        request = UpdateApiKey(self.key.id, **changes)  # type: ignore[arg-type]
        self.services.api_keys.change(request, self.operator)

    def held(self) -> Services:
        """The services of an installation that holds new money."""
        return build_services(replace(self.services.settings, hold_money=True), self.clock)


def paying_node() -> dict[str, object]:
    """A node that pays the phone that dials."""
    return shop_document()["nodes"]["pay"] | {"kind": "disbursement"}


def _pay(world: World) -> None:
    world.services.transactions.create(request("disbursement", shillings=1000, reference="pay"), world.caller())


def _refund(world: World) -> None:
    wanted = CreateRefund(world.sale.transaction.transaction_id, "back", 1000_00, "wrong price")
    world.services.refunds.create(wanted, world.caller())


def _refund_by_operators(world: World) -> None:
    wanted = OperatorRefund(world.sale.transaction.transaction_id, "wrong price", "Mary Akello", "John Okot", 1000_00)
    world.services.refunds.create_by_operators(wanted, operator_context())


def _dial(world: World) -> None:
    sessions, call = world.services.api_sessions, client_call(world.client.id)
    session = sessions.begin(BeginSession(PHONE, CODE), call)
    for text in ("1", "1000", "1"):
        session = sessions.enter(EnterText(session.session_id, text), call)


def _approve(world: World, days: float = 0) -> None:
    send_at = world.clock.now() + timedelta(days=days) if days else None
    order = CreatePayout("wages", items=[row("a", amount=1000)], send_at=send_at)
    maker = world.client.at_console("developer")
    payout_id = world.services.payouts.create(order, maker).payout.payout_id
    if world.sender is Sender.OPERATOR:
        operators = by_operators(world.operator, "Mary Akello", "John Okot")
        world.services.payouts.approve(ApprovePayout(payout_id), operators)
    else:
        world.services.payouts.approve(ApprovePayout(payout_id), world.caller())


def _approve_for_later(world: World) -> None:
    _approve(world, days=3)


def _settle(world: World) -> None:
    services = world.services
    stated = services.bank_accounts.state(StateBankAccount("Stanbic", "9030001234567", "ACME"), world.boss)
    confirmed = ConfirmBankAccount(world.client.id, "Mary Akello", digest=stated.digest)
    services.bank_accounts.confirm(confirmed, operator_context())
    proposed = services.bank_settlements.propose(ProposeSettlements("Mary Akello"), operator_context())
    written = b"".join(services.bank_settlements.file(proposed)).decode().splitlines()
    file = "\n".join([written[0], *(f"{line}FT1" for line in written[1:])]).encode()
    services.bank_settlements.record(RecordSettlements(BytesIO(file), "Mary Akello", "John Okot"), operator_context())


def _recover(world: World) -> None:
    """Book what a provider has paid already: nothing leaves, so nothing stops it."""


WAYS: dict[WayOut, Callable[[World], None]] = {
    WayOut.PAYMENT: _pay,
    WayOut.REFUND: _refund,
    WayOut.MENU: _dial,
    WayOut.PAYOUT: _approve,
    WayOut.DATED_PAYOUT: _approve_for_later,
    WayOut.OPERATOR_REFUND: _refund_by_operators,
    WayOut.SETTLEMENT: _settle,
    WayOut.RECOVERY: _recover,
}
