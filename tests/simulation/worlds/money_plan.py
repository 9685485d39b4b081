"""What happens in a world of money that moves otherwise: drawn from the seed."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.simulation.worlds.payer_plan import CODES
from tests.simulation.worlds.plan import DAY_SECONDS, Incident

ACCOUNTS = ("mtn", "airtel")
# Few, so that one payment may be another one by its amount.
AMOUNTS = tuple(100 * shillings for shillings in (1000, 1500, 2000, 3000))
_A_DAY = {"collection": 8, "disbursement": 5, "refund": 3, "payer": 9, "own": 2, "desk": 7}
_FAULTS_A_DAY = 4
_FAULTS = ("kill", "stall", "freeze", "broken connection")
_OPEN_CODES = [code for code, (_, exact) in CODES.items() if exact is None]


def money_plan_of(seed: int, days: float) -> list[Incident]:
    """The plan of a seed: `client` and `code` are whose money it is, None for nobody's."""
    rng = Random(f"money/{seed}")
    incidents: list[Incident] = []
    for kind, count in _A_DAY.items():
        for number in range(max(1, round(count * days))):
            at = rng.uniform(60, days * DAY_SECONDS)
            collections = [each for each in incidents if each.kind == "collection"]
            incidents.append(_INCIDENTS[kind](rng, at, number, collections))
    for _ in range(round(_FAULTS_A_DAY * days)):
        given = {"target": rng.choice(("worker", "web")), "place": rng.randrange(2), "after": rng.randrange(12)}
        at = rng.choice(incidents).at + rng.choice((-0.001, 0.001, 3.0, 60.0))
        incidents.append(Incident(max(1.0, at), rng.choice(_FAULTS), given))
    return sorted(incidents, key=lambda incident: incident.at)


def _asked(rng: Random, at: float, kind: str, name: str) -> Incident:
    client = rng.randrange(2)
    given: dict[str, Any] = {
        "client": client,
        "name": name,
        "provider": rng.choice(ACCOUNTS),
        "phone": f"+25677{rng.randrange(10_000_000):07}",
        "cents": rng.choice(AMOUNTS),
        "again": [rng.choice((0.0, 900.0)) * rng.random() for _ in range(rng.choice((0, 0, 1)))],
        "patience": rng.choice((5.0, 30.0)),
    }
    return Incident(at, kind, given)


def _collection(rng: Random, at: float, number: int, _: Any) -> Incident:
    """A collection, of which the till may tell, too."""
    incident = _asked(rng, at, "collection", f"c{number}")
    if rng.random() < 0.3:
        own = [code for code in _OPEN_CODES if CODES[code][0] == incident.given["client"]]
        incident.given["notices"] = _notices(rng, rng.choice((*own, "fees")), incident.given["cents"])
    return incident


def _disbursement(rng: Random, at: float, number: int, _: Any) -> Incident:
    return _asked(rng, at, "disbursement", f"d{number}")


def _refund(rng: Random, at: float, number: int, collections: list[Incident]) -> Incident:
    original = rng.choice(collections)
    incident = _asked(rng, original.at + 40_000 * rng.random(), "refund", f"r{number}")
    same = {name: original.given[name] for name in ("client", "phone", "provider")}
    share = 2 if incident.given["provider"] == "mtn" and rng.random() < 0.3 else 1
    incident.given.update(same, of=original.given["name"], cents=original.given["cents"] // share)
    return incident


def _payer(rng: Random, at: float, number: int, collections: list[Incident]) -> Incident:
    """A payer, who may be one that was asked for the same amount; whose code may be nobody's."""
    incident = _asked(rng, at, "payer", f"p{number}")
    code = rng.choice(_OPEN_CODES) if rng.random() < 0.85 else None
    if rng.random() < 0.3:
        asked = rng.choice(collections)
        incident.given.update({name: asked.given[name] for name in ("phone", "provider", "cents")})
        incident = Incident(max(60.0, asked.at + rng.uniform(-3000, 9000)), incident.kind, incident.given)
    typed = code if code is not None and rng.random() < 0.7 else rng.choice(("", "fees"))
    incident.given.update(
        client=None if code is None else CODES[code][0],
        code=code,
        notices=_notices(rng, typed, incident.given["cents"]),
        given_back_after=rng.choice((60.0, 40_000.0)) * rng.random() if code and rng.random() < 0.15 else None,
    )
    return incident


def _notices(rng: Random, typed: str, cents: int) -> list[dict[str, Any]]:
    """What a till tells of one payment, each after some seconds: never, late, twice, or with another amount."""
    return [
        {
            "after": rng.choice((1.0, 60.0, 4000.0, 100_000.0)) * rng.random(),
            "typed": typed,
            "cents": cents if rng.random() < 0.93 else rng.choice(AMOUNTS),
            "is_numbered": rng.random() < 0.7,
            "is_dated": rng.random() < 0.8,
            "written": rng.choice(("{}", "{}", " {} ", "-{}")),
        }
        for _ in range(rng.choice((0, 1, 1, 1, 2)))
    ]


def _own(rng: Random, at: float, number: int, _: Any) -> Incident:
    """The operator fills its float up, or draws from it."""
    incident = _asked(rng, at, "own", f"o{number}")
    incident.given.update(client=None, sign=rng.choice((1, -1)))
    return incident


def _desk(rng: Random, at: float, number: int, _: Any) -> Incident:
    """Operators work: with a statement of each account first, whole or of the last hours, sometimes a wrong file."""
    given = {
        "number": number,
        "since": rng.choice((0.0, 0.0, 30_000.0, 100_000.0)),
        "wrong": rng.choice((None, None, None, None, "lacks a line", "another amount")),
        "imports": rng.random() < 0.7,
        "by_two": rng.random() < 0.3,
    }
    return Incident(at, "desk", given)


_INCIDENTS = {
    "collection": _collection,
    "disbursement": _disbursement,
    "refund": _refund,
    "payer": _payer,
    "own": _own,
    "desk": _desk,
}
