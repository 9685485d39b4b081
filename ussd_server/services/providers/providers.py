"""The providers that are switched on, those that operators take out of use, and which one moves a payment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from ussd_server.clock import Clock
from ussd_server.context import CallerKind, RequestContext, automatic_context
from ussd_server.database.unit_of_work import DATABASE_ERRORS, unit_of_work
from ussd_server.models.providers import ProviderSwitch
from ussd_server.providers.messages import Direction, Provider
from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.providers.registry import PACKAGES
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.operator_names import require_reason
from ussd_server.services.providers.messages import SwitchProvider
from ussd_server.services.providers.own_connections import Owners
from ussd_server.settings import MOBILE_BLOCKS
from ussd_server.status import Code, ServiceError
from ussd_server.threads import CachedValue
from ussd_server.values import grouped, national_number, written_amount

_REFRESH_SECONDS = 1.0
_MOST_REFUSALS = 100
REFUSES = "it refused a hundred calls in a row"
_GRANTED = "it grants access tokens again"


class ProviderSwitches:
    """The connections that are switched off. Every process reads the table at most once a second."""

    def __init__(self, names: Collection[str], clock: Clock) -> None:
        """`names` are those of the connections that are set up here."""
        self._names = names
        self._clock = clock
        self._off = CachedValue[Mapping[str, ProviderSwitch]](self._read, _REFRESH_SECONDS, {})

    def is_off(self, connection: str) -> bool:
        """Whether a connection is switched off, as read at most a second ago."""
        return self.find(connection) is not None

    def why_off(self, connection: str) -> str | None:
        """What operators tell clients of a connection that is switched off; None for one in use."""
        switch = self.find(connection)
        return switch.reason if switch else None

    def find(self, connection: str) -> ProviderSwitch | None:
        """The switch of a connection that is switched off, None for one in use."""
        return self._off.refresh().get(connection)

    def set(self, request: SwitchProvider, context: RequestContext) -> None:
        """Switch a connection off or on. Existing payments are still sent and queried.

        Raises INVALID_REQUEST for a connection that is not set up, and unless a reason of 1 to 200 characters is given.
        """
        context.require_operator()
        if request.connection not in self._names:
            raise ServiceError(Code.INVALID_REQUEST, f"provider: Must be one of: {', '.join(self._names)}.")
        require_reason(request.reason)
        self._set(request, context)

    def follow_refusals(self, connection: Provider) -> None:
        """Switch a connection off that refused a hundred calls in a row, and on when it grants a token again."""
        switch = self._read().get(connection.connection)
        if switch is None and connection.refused_in_a_row >= _MOST_REFUSALS:
            self._set(SwitchProvider(connection.connection, True, REFUSES), automatic_context())
        elif switch is not None and switch.reason == REFUSES:
            seconds = (self._clock.now() - switch.changed_at).total_seconds()
            if connection.has_access_since(seconds):
                self._set(SwitchProvider(connection.connection, False, _GRANTED), automatic_context())

    def _set(self, request: SwitchProvider, context: RequestContext) -> None:
        now, reason = self._clock.now(), request.reason.strip()
        with unit_of_work():
            state = {"is_off": request.is_off, "reason": reason, "changed_at": now}
            ProviderSwitch.put({"connection": request.connection}, state)
            write_audit_event(
                "provider.switched_off" if request.is_off else "provider.switched_on",
                context,
                now,
                client_id=None,
                object_id=request.connection,
                reason=reason,
                is_automatic=context.caller.kind is CallerKind.NOBODY,
            )
        self._off.set(self._read())

    def _read(self) -> Mapping[str, ProviderSwitch]:
        try:
            return {row.connection: row for row in ProviderSwitch.select().where(ProviderSwitch.is_off)}
        except DATABASE_ERRORS:
            return self._off.value


class Providers:
    def __init__(
        self,
        switched_on: Iterable[Provider],
        is_away: Callable[[str], bool] = lambda _: False,
        why_off: Callable[[str], str | None] = lambda _: None,
        mobile_blocks: tuple[str, ...] = MOBILE_BLOCKS,
        owners: Callable[[], Owners] = Owners,
    ) -> None:
        """`is_away` says whether another process has lately found the connection of a name unavailable.

        `why_off` gives the reason for which operators have switched it off. `mobile_blocks` begin the numbers of mobile
        networks. `owners` says which clients have connections of their own.
        """
        self.connections = tuple(switched_on)
        # Of each provider the connection that takes new payments: the first one that does not drain.
        last_draining = sorted(self.connections, key=lambda each: each.draining)
        self._last_draining, self.owners = last_draining, owners
        self._switched_on = {each.name: each for each in reversed(last_draining)}
        self.accounts: Mapping[str, Provider] = {each.account: each for each in reversed(last_draining)}
        """A connection of each account, one that takes new payments where there is one."""
        self._is_away = is_away
        self._why_off = why_off
        self._mobile_blocks = mobile_blocks

    def __iter__(self) -> Iterator[Provider]:
        """Of each provider the connection that takes new payments, in the order of the settings."""
        return iter([each for each in self.connections if self.get(each.name) is each])

    def close(self) -> None:
        for connection in self.connections:
            connection.close()

    def get(self, name: str, client_id: str | None = None) -> Provider | None:
        """The connection to the provider of that name that takes new payments, None for one that is not set up.

        The client's own, where it has one; else the first that does not drain and is no client's.
        """
        owners = self.owners()
        if not owners.connections:
            return self._switched_on.get(name)
        own = owners.connections.get((client_id, name)) if client_id else None
        for each in self._last_draining:
            if each.name == name and (each.connection == own if own else owners.of(each.connection) is None):
                return each
        return None

    def of_payment(
        self, name: str, sent_to: str | None, direction: Direction, client_id: str | None = None
    ) -> Provider | None:
        """The connection that has a payment which was sent to a place, or would get one that was never sent; else None.

        None where the settings have neither the provider nor the place.
        """
        if sent_to is None:
            return self.get(name, client_id)
        own = (each for each in self.connections if each.name == name and each.place(direction) == sent_to)
        return next(own, None)

    def problem_of_number(self, phone_number: str) -> str | None:
        """Why no provider has a number of Uganda, as a sentence; None for one of a mobile network.

        MTN's own sandbox chooses its answers by numbers of another country.
        """
        digits = national_number(phone_number)
        if digits.startswith(self._mobile_blocks) or not phone_number.startswith("+256"):
            return None
        return f"phone_number: No mobile network of Uganda has numbers that begin with 0{digits[:2]}."

    def of_number(self, phone_number: str) -> str | None:
        """The provider to which a phone number belongs by its prefix, else the sandbox if it is switched on."""
        return None if self.problem_of_number(phone_number) else self._predict(phone_number)

    def _predict(self, phone_number: str) -> str | None:
        predicted = predict_provider(phone_number)
        return predicted if predicted in self._switched_on or "sandbox" not in self._switched_on else "sandbox"

    def is_away(self, name: str, client_id: str | None = None) -> bool:
        """Whether the provider does not answer, as this or another process found."""
        provider = self.get(name, client_id)
        return provider is None or self.is_connection_away(provider)

    def is_connection_away(self, connection: Provider) -> bool:
        return not connection.available or self._is_away(connection.connection)

    def is_off(self, name: str, client_id: str) -> bool:
        """Whether the connection that would take a client's new payments is switched off."""
        provider = self.get(name, client_id)
        return provider is not None and self._why_off(provider.connection) is not None

    def takes_payments(self, name: str, client_id: str | None = None) -> bool:
        """Whether a new payment may be created for the provider now."""
        provider = self.get(name, client_id)
        return provider is not None and self._takes(provider)

    def _takes(self, connection: Provider) -> bool:
        is_off = self._why_off(connection.connection) is not None
        return not (connection.draining or self.is_connection_away(connection) or is_off)

    def choose(
        self,
        name: str | None,
        phone_number: str,
        amount_cents: int,
        direction: Direction,
        moved_cents: int = 0,
        client_id: str | None = None,
    ) -> Provider:
        """The provider for a new payment: the one named, else the one predicted, else the sandbox if it is switched on.

        Raises INVALID_REQUEST for an unknown name, for a number of no mobile network unless it is paid back to, when
        none can be predicted, and for a direction for which the provider is not set up, TRANSACTION_FAILED (502) when
        the provider is not set up, switched off or unavailable, INVALID_AMOUNT for an amount that it does not move in
        this direction. `client_id` is the client that pays. `moved_cents` is what the provider has moved in one piece,
        and so moves back.
        """
        if name is not None and name not in PROVIDER_NAMES:
            raise ServiceError(Code.INVALID_REQUEST, f"provider: Must be one of: {', '.join(PROVIDER_NAMES)}.")
        problem = self.problem_of_number(phone_number)
        if problem is not None and direction is not Direction.REFUND:
            raise ServiceError(Code.INVALID_REQUEST, problem)
        if name is None:
            name = self._predict(phone_number)
        if name is None:
            raise ServiceError(Code.INVALID_REQUEST, "provider: The phone number does not show the provider; name it.")
        provider = self.get(name, client_id)
        if provider is not None and not provider.bounds[direction].enabled:
            raise ServiceError(Code.INVALID_REQUEST, f"provider: {provider.name} moves no {direction}s on this server.")
        problems = problems_of_amount(provider, amount_cents, direction, moved_cents) if provider else []
        if problems:
            raise ServiceError(Code.INVALID_AMOUNT, " ".join(problems))
        if provider is None:
            raise ServiceError(
                Code.TRANSACTION_FAILED, f"The provider {name} is not switched on here. Nothing was recorded"
            )
        if not self._takes(provider):
            reason = self._why_off(provider.connection)
            why_not = "not available" if reason is None else f"switched off: {reason.rstrip('.')}"
            raise ServiceError(
                Code.TRANSACTION_FAILED,
                f"The provider {name} is {why_not}. Nothing was recorded; retry with the same reference",
                retry_after_seconds=30,
            )
        return provider


def predict_provider(phone_number: str) -> str | None:
    """The provider whose prefixes cover a number (`+256` and nine digits), None for no provider.

    Subscribers can keep their number when they change the provider, so this is a guess.
    """
    for package in PACKAGES:
        if national_number(phone_number).startswith(package.number_prefixes):
            return package.name
    return None


def problems_of_amount(provider: Provider, amount_cents: int, direction: Direction, moved_cents: int = 0) -> list[str]:
    """Why a provider never moves an amount in a direction, in sentences; empty when it does, as up to `moved_cents`."""
    problems = []
    if provider.moves_whole_shillings_only and amount_cents % 100:
        problems.append(f"amount: {provider.name} moves whole shillings only.")
    bounds = provider.bounds[direction]
    if not bounds.min_amount_cents <= amount_cents <= max(bounds.max_amount_cents, moved_cents):
        least, most = written_amount(bounds.min_amount_cents), grouped(bounds.max_amount_cents)
        problems.append(f"amount: {provider.name} moves {least} to {most} at a time.")
    return problems
