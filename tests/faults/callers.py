"""Programs that create payments through nginx without a pause, and repeat each failed call under its reference."""

from __future__ import annotations

import http.client
import itertools
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.real_service.deployment import Installed

# One key alone may not call so often.
_KEYS = 48


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one call: status 0 is a connection that broke."""

    reference: str
    status: int
    retry_after: str | None = None
    transaction_id: str | None = None


class Crowd:
    """Threads that call without a pause; `answers` are all replies."""

    def __init__(
        self, installed: Installed, keys: list[dict[str, str]], name: str, callers: int, pace_seconds: float = 0.15
    ) -> None:
        """All callers together must stay below nginx's limit for one address."""
        self.callers = callers
        self._pace_seconds = pace_seconds
        self.answers: list[Answer] = []
        self._installed = installed
        self._keys = itertools.cycle(keys)
        self._stop = threading.Event()
        self._has_failed = False
        self._threads = [threading.Thread(target=self._work, args=(f"{name}-{hand}",)) for hand in range(callers)]

    @property
    def paid(self) -> dict[str, set[str | None]]:
        """The transactions that each reference was answered with."""
        reported: dict[str, set[str | None]] = {}
        for answer in self.answers:
            if answer.status in (200, 201):
                reported.setdefault(answer.reference, set()).add(answer.transaction_id)
        return reported

    def statuses(self) -> set[int]:
        """The statuses of all answers."""
        return {answer.status for answer in self.answers}

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Call until the block ends and the last payment of each thread was accepted, or until the block fails."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        except BaseException:
            self._has_failed = True
            raise
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()

    def _work(self, name: str) -> None:
        for number in itertools.count():
            while self._order(f"{name}-{number}").status not in (200, 201) and not self._has_failed:
                threading.Event().wait(self._pace_seconds)
            if self._stop.wait(self._pace_seconds):
                return

    def _order(self, reference: str) -> Answer:
        request = {"type": "collection", "phone_number": "+256770000000", "amount": 500, "reference": reference}
        headers = {**next(self._keys), "Idempotency-Key": reference}
        try:
            status, reported, body = self._installed.call("POST", "/api/transactions", request, headers)
        except (OSError, http.client.HTTPException):
            answer = Answer(reference, 0)
        else:
            paid = body["data"]["transaction_id"] if status in (200, 201) else None
            answer = Answer(reference, status, reported.get("retry-after"), paid)
        self.answers.append(answer)
        return answer


def many_keys(installed: Installed, folder: Path) -> list[dict[str, str]]:
    """The headers of enough keys for a crowd, taken over from a list as an operator would."""
    keys = [{"apikey": f"load{secrets.token_hex(8)}", "apisecret": secrets.token_hex(16)} for _ in range(_KEYS)]
    file = folder / "keys.json"
    file.write_text(json.dumps([{"client": "acme", **key} for key in keys]))
    installed.deployment.command("keys", "seed", str(file))
    return [{"x-api-key": key["apikey"], "x-api-secret": key["apisecret"]} for key in keys]
