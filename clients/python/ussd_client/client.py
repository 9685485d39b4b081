"""The client: every operation of the API, and what is made of several."""

from __future__ import annotations

import time

from ussd_client.errors import ClientError
from ussd_client.models import CreateTransactionBody, Transaction
from ussd_client.operations import Operations

_FINAL = ("succeeded", "failed", "reversed")
_LONGEST_WAIT_SECONDS = 25


class StillOpenError(ClientError):
    """A payment is not final yet; it is neither paid nor failed. `transaction` is its present record."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(f"transaction {transaction['transaction_id']} is {transaction['status']}")
        self.transaction = transaction


class UssdClient(Operations):
    """The API with one key: `UssdClient("https://api.example.com", apikey, apisecret)`."""

    def pay(self, body: CreateTransactionBody, *, seconds: float = 330) -> Transaction:
        """Create a transaction and return it once it is final: `succeeded`, `failed` or `reversed`.

        After any error, call it again with the same reference: money moves once. The payer has five minutes to
        confirm, so wait that long. StillOpenError after `seconds`.
        """
        began = time.monotonic()
        first = self.create_transaction(body, wait=_whole_wait(seconds))
        if first["status"] in _FINAL:
            return first
        return self.wait_until_final(first["transaction_id"], seconds=seconds - (time.monotonic() - began))

    def wait_until_final(self, transaction_id: str, *, seconds: float = 330) -> Transaction:
        """Return a transaction once it is final. StillOpenError after `seconds`."""
        until = time.monotonic() + seconds
        pause = 1.0
        transaction = self.get_transaction(transaction_id)
        while transaction["status"] not in _FINAL:
            left = until - time.monotonic()
            if left <= 0:
                raise StillOpenError(transaction)
            asked = time.monotonic()
            transaction = self.get_transaction(transaction_id, wait=_whole_wait(left))
            # A busy service does not hold the reply.
            if transaction["status"] not in _FINAL and time.monotonic() - asked < 1:
                time.sleep(min(pause, max(0.0, until - time.monotonic())))
                pause = min(pause * 2, 10.0)
        return transaction


def _whole_wait(seconds: float) -> int:
    return max(1, min(_LONGEST_WAIT_SECONDS, int(seconds)))
