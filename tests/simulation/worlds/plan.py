"""What happens in a world: calls of clients and faults, drawn from the seed. Any part of a plan is a plan."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from tests.simulation.worlds.gates.plan import reported_of, sender_of, settlement_of
from tests.simulation.worlds.payer_plan import payment_of
from tests.simulation.worlds.payout_plan import contested_of

DAY_SECONDS = 86_400.0
_CALLS_A_DAY = 18
_FAULTS_A_DAY = 14
_BURSTS_A_DAY = 4
_BURST_SECONDS = 240.0
# What a call leads to goes on for hours; most of it happens before the quiet days.
_LONGEST_TALE_SECONDS = 12_000
_PAYERS_A_DAY = 6
_CONTESTED_PAYOUTS_A_DAY = 4
_REPORTED_A_DAY, _SENDERS_A_DAY, _SETTLEMENTS_A_DAY = 4, 6, 1
_KINDS = {"collection": 4, "disbursement": 4, "refund": 3, "payout": 2, "phone": 2}
_MOST_ROWS = 4
_FAULTS = ("kill", "stall", "freeze", "broken connection")
_LOSSES_A_DAY = 3
_JUMPS_A_DAY = 2


@dataclass(frozen=True)
class Incident:
    """One thing that happens: a call of a client with its repeats, or a fault. `at` is in seconds."""

    at: float
    kind: str
    given: dict[str, Any]


def plan_of(seed: int, days: float) -> list[Incident]:
    """The plan of a seed."""
    rng = Random(f"plan/{seed}")
    incidents: list[Incident] = []
    # Calls come in bursts, so that they and the faults meet.
    latest = days * DAY_SECONDS
    bursts = [rng.uniform(60, max(120, latest - _LONGEST_TALE_SECONDS)) for _ in range(_count(_BURSTS_A_DAY, days))]
    for number in range(_count(_CALLS_A_DAY, days)):
        incidents.append(_call(rng, rng.choice(bursts) + rng.uniform(0, _BURST_SECONDS), f"n{number}", incidents))
    calls = [incident.at for incident in incidents]
    incidents += [_fault(rng, bursts, calls, rng.choice(_FAULTS)) for _ in range(_count(_FAULTS_A_DAY, days))]
    for _ in range(_count(_LOSSES_A_DAY, days)):
        # Most of them lose a call that was just answered, and perhaps sent.
        seconds = rng.choice((0.5, 5.0, 20.0, 120.0)) * (0.2 + rng.random())
        began_at = rng.choice(calls) - rng.random() * seconds / 2
        incidents.append(Incident(began_at, "lost commits", {"seconds": seconds}))
    incidents += [_fault(rng, bursts, calls, "clock jump") for _ in range(_count(_JUMPS_A_DAY, days))]
    # Other draws, so that the other incidents are those of earlier plans.
    payers = Random(f"payers/{seed}")
    for number in range(_count(_PAYERS_A_DAY, days)):
        paid_at = payers.choice(bursts) + payers.uniform(0, _BURST_SECONDS)
        incidents.append(Incident(paid_at, "payer", payment_of(payers, number)))
    contested = Random(f"contested payouts/{seed}")
    for number in range(_count(_CONTESTED_PAYOUTS_A_DAY, days)):
        made_at = contested.choice(bursts) + contested.uniform(0, _BURST_SECONDS)
        incidents.append(Incident(made_at, "payout", contested_of(contested, number)))
    incidents += _at_the_gates(Random(f"gates/{seed}"), bursts, days)
    return sorted(incidents, key=lambda incident: incident.at)


def _at_the_gates(rng: Random, bursts: list[float], days: float) -> list[Incident]:
    """Money that is reported twice, senders that are revoked, and settlements with the bank."""

    def moment() -> float:
        return rng.choice(bursts) + rng.uniform(0, _BURST_SECONDS)

    found = [
        Incident(moment(), "reported", reported_of(rng, number)) for number in range(_count(_REPORTED_A_DAY, days))
    ]
    found += [Incident(moment(), "sender", sender_of(rng, number)) for number in range(_count(_SENDERS_A_DAY, days))]
    settlements = range(_count(_SETTLEMENTS_A_DAY, days))
    return [*found, *(Incident(moment(), "settlement to the bank", settlement_of(rng)) for _ in settlements)]


def _count(a_day: int, days: float) -> int:
    return max(1, round(a_day * days))


def _call(rng: Random, at: float, name: str, before: list[Incident]) -> Incident:
    kind = rng.choices(list(_KINDS), list(_KINDS.values()))[0]
    given: dict[str, Any] = {
        "client": rng.randrange(2),
        "name": name,
        # The number shows the checker which name a payment in the provider's book belongs to.
        "phone": _phone(rng),
        "cents": 100 * rng.randrange(500, 40_000),
        # A client repeats a call although it was answered: it may have lost the answer.
        "again": [rng.choice((0.0, 0.01, 3.0, 60.0, 900.0)) * rng.random() for _ in range(rng.choice((0, 0, 1, 2)))],
        "patience": rng.choice((1.0, 5.0, 30.0)),
    }
    if kind == "refund":
        collections = [incident for incident in before if incident.kind == "collection"]
        if not collections:
            kind = "collection"
        else:
            original = rng.choice(collections)
            share = rng.choice((1, 1, 2))
            given |= {
                "client": original.given["client"],
                "of": original.given["name"],
                "phone": original.given["phone"],
                "cents": original.given["cents"] // share // 100 * 100,
            }
            at = max(at, original.at + 400 * rng.random())
    if kind == "payout":
        given["approver"] = str(UUID(int=rng.getrandbits(128), version=4))
        # The date is not of the plan's randomness, so that other calls are those of earlier plans.
        given["sent_after"] = Random(f"date/{name}/{at}").choice((None, None, 1200.0, 90_000.0))
        given["retried_after"] = Random(f"retry/{name}/{at}").choice((None, 700.0, 1500.0, 4000.0))
        given["rows"] = [
            {"name": f"{name}/r{place}", "phone": _phone(rng), "cents": 100 * rng.randrange(500, 9000)}
            for place in range(rng.randrange(1, _MOST_ROWS + 1))
        ]
    if kind == "phone":
        given["client"] = 0
    # No two names share direction, phone number and amount: the checker knows a payment by these.
    marks = {(incident.kind, incident.given.get("phone"), incident.given.get("cents")) for incident in before}
    while (kind, given["phone"], given["cents"]) in marks:
        given["cents"] -= 100
    return Incident(at, kind, given)


def _phone(rng: Random) -> str:
    return f"+25677{rng.randrange(10_000_000):07}"


def _fault(rng: Random, bursts: list[float], calls: list[float], kind: str) -> Incident:
    target = rng.choices(("worker", "web"), (2, 1))[0]
    # How many points the process still passes, so that the fault strikes between any two.
    after = rng.choice((0, 1, 2, 4, 8, 16, 40) if target == "worker" else (0, 0, 1, 2))
    at = rng.choice(bursts) + rng.uniform(0, 2 * _BURST_SECONDS) if target == "worker" else rng.choice(calls) - 0.001
    return Incident(at, kind, {"target": target, "place": rng.randrange(2), "after": after})
