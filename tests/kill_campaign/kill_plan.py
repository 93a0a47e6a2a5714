"""The kills of a campaign, chosen by the seed: every point in turn, in random order, and random moments."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from tests.kill_campaign.kill_order import KillOrder
from tests.kill_campaign.kill_point import FILE_POINTS, KILL_POINTS, FilePoint, KillPoint, Role

RANDOM = "random"
VICTIMS = (Role.DRIVER, Role.GATHERER, Role.PLANNER, Role.WORKER, Role.JAVA, Role.GROUP)
RANDOM_S = (0.0, 4.0)
GROUP_SHARE = 0.3
STARTING_SHARE = 0.3
"""Of the kills while the job starts and recovers."""

Place = KillPoint | FilePoint | Role
"""A named point; or a process, which is killed at a random moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedKill:
    """One kill, and the state of the job in which it is ordered."""

    order: KillOrder
    role: Role
    """The process that reaches the point."""
    file: FilePoint | None = None
    while_starting: bool = False
    """False: the job has completed a batch since its last start."""


def plan(random: Random, count: int) -> Sequence[PlannedKill]:
    """Returns so many kills."""
    points: list[KillPoint | FilePoint] = [*KILL_POINTS, *FILE_POINTS]
    turns = _turns(random, [*points, *VICTIMS])
    return [_planned(random, number, next(turns)) for number in range(1, count + 1)]


def _turns(random: Random, places: Sequence[Place]) -> Iterator[Place]:
    while True:
        yield from random.sample(places, len(places))


def _planned(random: Random, number: int, place: Place) -> PlannedKill:
    while_starting = random.random() < STARTING_SHARE
    group = random.random() < GROUP_SHARE
    delay_s = round(random.uniform(*RANDOM_S), 2)
    if isinstance(place, Role):
        order = KillOrder(number=number, point=RANDOM, victim=place, delay_s=delay_s)
        return PlannedKill(order=order, role=place, while_starting=while_starting)
    role = place.role if isinstance(place, KillPoint) else Role.JAVA
    order = KillOrder(
        number=number,
        point=place.name,
        victim=Role.GROUP if group else role,
        call=random.randint(1, place.calls),
        delay_s=delay_s,
    )
    file = place if isinstance(place, FilePoint) else None
    return PlannedKill(order=order, role=role, file=file, while_starting=while_starting)
