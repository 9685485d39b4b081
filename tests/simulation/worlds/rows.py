"""A world of payouts: many rows fail, and some succeed after all while they are opened, retried, cancelled and lost."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.simulation.worlds.payout_plan import contested_of
from tests.simulation.worlds.plan import DAY_SECONDS, Incident
from tests.simulation.worlds.provider import SimulatedProvider
from tests.simulation.worlds.world import World
from ussd_server.bootstrap import Services
from ussd_server.models.sending import Webhook

_PAYOUTS_A_DAY, _FAULTS_A_DAY = 30, 6
_FAULTS = ("kill", "stall", "freeze", "broken connection")
_TURNS = ("open", "retry", "retry", "cancel")
_MOST_ROWS = 8
_LOST = 0.5


# A slow provider that often takes a failure back.
_MOODS = {"slow": 40, "lost before": 5, "lost after": 8, "straggler": 6, "refused": 4, "not sent": 6}
_FATES = {"success": 30, "failure": 25, "late success": 40, "under way for long": 5}


class Rows(World):
    """Payouts of `rows_plan_of` at a fickle provider."""

    def _make_providers(self, seed: str) -> Sequence[SimulatedProvider]:
        (fickle,) = super()._make_providers(seed)
        fickle.moods, fickle.fates = _MOODS, _FATES
        return [fickle]

    def _prepare(self, services: Services) -> None:
        """Without webhooks, which need a third of the time."""
        super()._prepare(services)
        Webhook.delete().execute()


def rows_plan_of(seed: int, days: float) -> list[Incident]:
    """The plan of a seed: half of the payouts are lost while their rows are sent, of others a round is opened late."""
    rng = Random(f"rows/{seed}")
    incidents: list[Incident] = []
    for number in range(max(1, round(_PAYOUTS_A_DAY * days))):
        at = rng.uniform(60, days * DAY_SECONDS)
        given = contested_of(rng, number, _TURNS, _MOST_ROWS)
        if rng.random() < _LOST:
            began_after, seconds = (
                rng.choice((1.0, 10.0)) * rng.random(),
                rng.choice((2.0, 20.0)) * (0.2 + rng.random()),
            )
            incidents.append(Incident(at + began_after, "lost commits", {"seconds": seconds}))
            given["turns"][0] = ("cancel", began_after + seconds + rng.choice((0.1, 2.0)) * rng.random())
        else:
            # Some failures are taken back while the round waits for its approval.
            given["turns"][:2] = [("open", rng.uniform(700, 1000)), ("retry", rng.uniform(0, 1500))]
        incidents.append(Incident(at, "payout", given))
    for _ in range(round(_FAULTS_A_DAY * days)):
        fault = {"target": rng.choice(("worker", "web")), "place": rng.randrange(2), "after": rng.randrange(12)}
        incidents.append(Incident(rng.choice(incidents).at + rng.random() * 10, rng.choice(_FAULTS), fault))
    return sorted(incidents, key=lambda incident: incident.at)
