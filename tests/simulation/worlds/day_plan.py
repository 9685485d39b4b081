"""The plan of a day of many payments, one in five begun by payers, with repeats, silences and faults."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from tests.simulation.worlds.payer_plan import payment_of
from tests.simulation.worlds.plan import Incident

# A hundred thousand take fourteen hours.
_SECONDS_A_PAYMENT = 0.504
_SECONDS_BETWEEN_OPERATORS = 3600.0
_KINDS = {"collection": 60, "disbursement": 26, "refund": 4, "payout": 4, "phone": 6}
_MOST_ROWS = 20
_PAYMENTS_A_PAYER = 5
_PAYMENTS_A_FAULT = 100


def open_seconds_of(payments: int) -> float:
    """How long so many payments take."""
    return payments * _SECONDS_A_PAYMENT


def plan_of_day(seed: int, payments: int) -> list[Incident]:
    """A day of so many payments, one in five begun by payers, with a fault for every hundred."""
    rng = Random(f"day/{seed}")
    open_seconds = open_seconds_of(payments)
    moments = sorted(rng.uniform(0, open_seconds) for _ in range(payments))
    incidents: list[Incident] = []
    collections: list[Incident] = []
    number = payers = 0
    while number < payments:
        at = moments[number]
        if payers * _PAYMENTS_A_PAYER <= number:
            incidents.append(Incident(at, "payer", payment_of(rng, number)))
            number, payers = number + 1, payers + 1
            continue
        incident = _call(rng, at, number, collections, payments - number)
        incidents.append(incident)
        if incident.kind == "collection":
            collections.append(incident)
        number += len(incident.given.get("rows", "1"))
    incidents += [_fault(rng, open_seconds) for _ in range(payments // _PAYMENTS_A_FAULT)]
    hours = int(open_seconds // _SECONDS_BETWEEN_OPERATORS)
    incidents += [Incident((hour + 1) * _SECONDS_BETWEEN_OPERATORS, "operators", {}) for hour in range(hours)]
    return sorted(incidents, key=lambda incident: incident.at)


def _call(rng: Random, at: float, number: int, collections: list[Incident], left: int) -> Incident:
    kind = rng.choices(list(_KINDS), list(_KINDS.values()))[0]
    if kind == "refund" and not collections:
        kind = "collection"
    given: dict[str, Any] = {
        "client": 0 if kind == "phone" else rng.randrange(2),
        "name": f"n{number}",
        # No other payment has this number.
        "phone": _phone(number),
        "cents": 100 * rng.randrange(500, 40_000),
        "again": [rng.choice((0.0, 0.01, 3.0, 900.0)) * rng.random() for _ in range(rng.choice((0, 0, 0, 1, 2)))],
        "patience": rng.choice((1.0, 5.0, 30.0)),
    }
    if kind == "refund":
        original = collections.pop(rng.randrange(len(collections)))
        given |= {"of": original.given["name"]} | {name: original.given[name] for name in ("client", "phone", "cents")}
    if kind == "payout":
        given |= {"approver": str(UUID(int=rng.getrandbits(128), version=4)), "sent_after": None}
        given["rows"] = [
            {"name": f"n{number}/r{place}", "phone": _phone(number + place), "cents": 100 * rng.randrange(500, 9000)}
            for place in range(min(left, rng.randrange(1, _MOST_ROWS + 1)))
        ]
    return Incident(at, kind, given)


def _phone(number: int) -> str:
    return f"+25677{number:07}"


def _fault(rng: Random, open_seconds: float) -> Incident:
    kind = rng.choice(("kill", "kill", "stall", "freeze", "broken connection"))
    given = {
        "target": rng.choice(("worker", "web")),
        "place": rng.randrange(2),
        "after": rng.choice((0, 1, 2, 4, 8, 16, 40)),
    }
    return Incident(rng.uniform(min(60, open_seconds), open_seconds), kind, given)
