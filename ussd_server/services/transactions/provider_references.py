"""The names by which providers know payments: derived from the client's, so that a forgotten request keeps its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from ussd_server.logs import Logger
from ussd_server.models.operations import ReferenceKey, kept_check_value
from ussd_server.models.transactions import Transaction
from ussd_server.security.key_ring import Keyring
from ussd_server.services.accounts.ledger import holds_sandbox_money
from ussd_server.services.transactions.create import RequestIdentity
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.status import Code, ServiceError

log = Logger(__name__)

WRONG_REFERENCE_KEY = (
    "The reference key is not the one that the payments of this database were made with; "
    "put back the secrets file that belongs to this database"
)
SANDBOX_MONEY = (
    "The database holds money that the sandbox or its operator made up, and it would be paid out. "
    "Production needs a database of its own."
)
_NUMBERS_AT_ONCE = 50


class ProviderReferences:
    """Computes provider references: the HMAC of a client's reference, or of a USSD step, under the reference key.

    A request that is repeated after the database lost its commit has the same provider reference, so the provider
    refuses it as a duplicate. Providers keep references for ever, so the derivation never changes.
    """

    def __init__(
        self, keyring: Keyring, *, is_sandbox: bool = True, renamed: Callable[[], Sequence[str]] = tuple
    ) -> None:
        """`renamed` returns what is to be said of each connection whose account had another name."""
        self._keyring, self._is_sandbox, self._renamed = keyring, is_sandbox, renamed
        self._is_verified = False

    def of_request(self, identity: RequestIdentity) -> str:
        """The provider reference of a request; from the USSD step if it came by USSD."""
        if identity.menu_step is None:
            return self.of_reference(identity.client_id, identity.type, identity.reference)
        return self.of_menu_step(identity.client_id, identity.type, identity.menu_step, identity.step_number)

    def of_reference(self, client_id: str, kind: TransactionType, reference: str) -> str:
        """The provider reference of a payment, refund or payout row: its `reference` is unique for the client."""
        return self._derive(client_id, kind, "reference", reference)

    def of_menu_step(self, client_id: str, kind: TransactionType, menu_step: Sequence[str], number: int) -> str:
        """The provider reference of a payment by USSD: `number` counts the payments of one `menu_step`, from 1."""
        # "place" is in the references that providers keep, so it never changes.
        return self._derive(client_id, kind, "place", *menu_step, str(number))

    def with_next_step_number(self, identity: RequestIdentity) -> RequestIdentity:
        """The request with the first `step_number` that no transaction has; unchanged when it has no menu step.

        Costs one query for every 50 payments of the step.
        """
        if identity.menu_step is None:
            return identity
        for first in count(1, _NUMBERS_AT_ONCE):
            number_by_reference = {
                self.of_menu_step(identity.client_id, identity.type, identity.menu_step, number): number
                for number in range(first, first + _NUMBERS_AT_ONCE)
            }
            used = Transaction.select(Transaction.provider_reference).where(
                Transaction.provider_reference.in_(list(number_by_reference))
            )
            free = number_by_reference.keys() - {row.provider_reference for row in used}
            if free:
                return replace(identity, step_number=min(number_by_reference[each] for each in free))
        raise AssertionError("numbers do not end")

    def verify(self) -> None:
        """Raise SERVICE_UNAVAILABLE unless the reference key is the one that this database's payments were made with.

        Also in production, where a sandbox made up money in the database, and where an account got another name: no
        statement would fit payments of both. The first reference key that is used with a database is kept as its own,
        by a check value.
        """
        if self._is_verified:
            return
        check_value = self._keyring.reference_check_value
        if (kept_value := kept_check_value()) is None:
            ReferenceKey.insert(id=1, check_value=check_value).on_conflict_ignore().execute()
            kept_value = kept_check_value()
        if kept_value != check_value:
            log.error("the reference key is not that of this database: no payment is created")
            raise ServiceError(Code.SERVICE_UNAVAILABLE, WRONG_REFERENCE_KEY, retry_after_seconds=60)
        if not self._is_sandbox and holds_sandbox_money():
            log.error("the database holds money of a sandbox: no payment is created")
            raise ServiceError(Code.SERVICE_UNAVAILABLE, SANDBOX_MONEY, retry_after_seconds=60)
        if renamed := self._renamed():
            log.error("an account at a provider got another name: no payment is created")
            raise ServiceError(Code.SERVICE_UNAVAILABLE, " ".join(renamed), retry_after_seconds=60)
        self._is_verified = True

    def _derive(self, client_id: str, kind: TransactionType, *key: str) -> str:
        self.verify()
        return self._keyring.derived_uuid(json.dumps(["provider-reference", client_id, str(kind), *key]))
