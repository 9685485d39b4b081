"""One payment while the address of its provider changes: two stand-ins, and services with the settings of each."""

from __future__ import annotations

from contextlib import ExitStack
from unittest import mock

from simulators.airtel import AirtelMoney, AirtelSettings
from simulators.mtn import MtnMomo, MtnSettings
from simulators.server import run
from simulators.standin import StandIn
from tests.conftest import MovableClock
from tests.faults.workers import services_of
from tests.support.money import a_client, deposit, request
from tests.support.stand_ins import airtel_settings, mtn_settings
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.settings import Settings

NUMBERS = {"mtn": "+256772123456", "airtel": "+256752123456"}


class Move:
    """Services, a client with money, and the stand-ins of the old and the new address of one provider."""

    def __init__(
        self, stack: ExitStack, settings: Settings, clock: MovableClock, provider: str, receipts_apart: int = 1000
    ) -> None:
        self.provider, self.clock = provider, clock
        self._stack, self._settings = stack, settings
        self.old, self.new = self._stand_in(), self._stand_in()
        # Else both would give the same receipts.
        number = self.new.book.next_number
        stack.enter_context(
            mock.patch.object(self.new.book, "next_number", side_effect=lambda: number() + receipts_apart)
        )
        self.addresses = {each: stack.enter_context(run(each)) for each in (self.old, self.new)}
        self.services = self.start(self.old)
        self.client: RequestContext = a_client()
        deposit(self.services, self.client, 20_000)

    def _stand_in(self) -> StandIn:
        mtn = mtn_settings("")
        keys = {"api_user": mtn["USSD_MTN_COLLECTION_API_USER"], "api_key": mtn["USSD_MTN_COLLECTION_API_KEY"]}
        return (
            MtnMomo(MtnSettings("mtnuganda", "UGX", **keys))
            if self.provider == "mtn"
            else AirtelMoney(AirtelSettings())
        )

    def start(self, stand_in: StandIn, **more: str) -> Services:
        """Restart with the address of a stand-in in the settings."""
        named = mtn_settings if self.provider == "mtn" else airtel_settings
        places = named(self.addresses[stand_in]) | more
        self.services = self._stack.enter_context(services_of(self._settings, self.clock, **places))
        return self.services

    def pay(self, kind: str, reference: str = "first", amount: int = 600) -> str:
        order = request(kind, NUMBERS[self.provider], amount, reference=reference)
        return str(self.services.transactions.create(order, self.client).transaction.transaction_id)

    def work(self, seconds: float) -> None:
        """Advance what falls due within `seconds`."""
        for _ in range(int(seconds / 10) + 1):
            for claimed in self.services.processing.claim(10):
                self.services.processing.advance(claimed)
            self.clock.advance(10)

    def submits(self, stand_in: StandIn) -> int:
        return len(stand_in.book.payments())


def old_connection(move: Move) -> dict[str, str]:
    """The settings of a second connection, to the old stand-in, that takes no new payments."""
    return second_connection(move, "OLD") | {f"USSD_{move.provider.upper()}_OLD_DRAINING": "1"}


def second_connection(move: Move, title: str, account: str | None = None) -> dict[str, str]:
    """The settings of a second connection, to the old stand-in; without `account` of the first one's account."""
    kind = move.provider
    named = (mtn_settings if kind == "mtn" else airtel_settings)(move.addresses[move.old])
    prefix = f"USSD_{kind.upper()}_"
    own = {name.replace(prefix, f"{prefix}{title}_"): value for name, value in named.items()}
    more = {f"{prefix}{title}_KIND": kind, f"{prefix}{title}_ACCOUNT": account or kind}
    return own | more | {"USSD_PROVIDERS": f"{kind}-{title.lower()},{kind},sandbox"}
