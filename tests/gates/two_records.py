"""What the tests of money that two records have share: a payer, a receipt, and what the records say."""

from __future__ import annotations

from tests.gates.ways_in import BY, SECOND, World
from tests.support.books import check_everything
from tests.support.example_client import ExampleClient
from tests.support.money import balances, operator
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.incoming.messages import PutPaymentCode, SetPrefix
from ussd_server.services.movements.messages import ListMovements, MovementView
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.transactions.messages import GetTransaction, TransactionHistory

PAYER, HASHED = "+256772123456", None
RECEIPT = "31000000041"


def seen(world: World, transaction_id: str | None) -> TransactionHistory:
    found = world.services.transactions.get(GetTransaction(transaction_id or ""), operator_context(world.client.id))
    assert isinstance(found, TransactionHistory)
    return found


def held(world: World) -> tuple[MovementView, ...]:
    return world.services.movements.list(ListMovements(is_held=True), operator()).items


def main_of(client_id: str) -> int:
    return balances(client_id).get("main", (0, 0))[0]


def settle(world: World, transaction_id: str, *, has_succeeded: bool) -> None:
    request = EndReview(transaction_id, "We asked the payer", BY, SECOND, has_succeeded=has_succeeded)
    world.services.reviews.end(request, operator())


def other_client(services: Services) -> ExampleClient:
    """A client of its own with the payment code TEA1."""
    client = ExampleClient(services, "tea")
    services.payment_codes.set_prefix(SetPrefix(client.id, "TEA"), operator())
    services.payment_codes.put(PutPaymentCode("TEA1", "Tea"), operator_context(client.id))
    return client


def named_by_check() -> set[str]:
    return {violation.id for violation in check_everything()}
