"""The kills of a campaign, chosen by the seed: every point in turn, in random order, and random moments."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from tests.kill_campaign.kill_order import KillOrder
from tests.kill_campaign.kill_point import KILL_POINTS, KillPoint, Role

RANDOM = "random"
VICTIMS = (Role.DRIVER, Role.GATHERER, Role.PLANNER, Role.WORKER, Role.JAVA, Role.GROUP)
RANDOM_S = (0.0, 4.0)
GROUP_SHARE = 0.3
STARTING_SHARE = 0.3
"""Of the kills while the job starts and recovers."""

Place = KillPoint | Role
"""A named point; or a process, which is killed at a random moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedKill:
    """One kill, and the state of the job in which it is ordered."""

    order: KillOrder
    while_starting: bool = False
    """False: the job has completed a batch since its last start."""


def plan(random: Random, count: int) -> Sequence[PlannedKill]:
    """Returns so many kills."""
    turns = _turns(random, [*KILL_POINTS, *VICTIMS])
    return [_planned(random, number, next(turns)) for number in range(1, count + 1)]


def _turns(random: Random, places: Sequence[Place]) -> Iterator[Place]:
    while True:
        yield from random.sample(places, len(places))


def _planned(random: Random, number: int, place: Place) -> PlannedKill:
    while_starting = random.random() < STARTING_SHARE
    group = random.random() < GROUP_SHARE
    order = KillOrder(
        number=number,
        point=RANDOM if isinstance(place, Role) else place.name,
        victim=place if isinstance(place, Role) else Role.GROUP if group else place.role,
        call=1 if isinstance(place, Role) else random.randint(1, place.calls),
        delay_s=round(random.uniform(*RANDOM_S), 2),
    )
    return PlannedKill(order=order, while_starting=while_starting)
