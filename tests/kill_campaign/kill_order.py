"""The kills of a campaign: chosen by the seed, ordered, and executed by the process that is killed.

Standard library only: it runs in every Python process of the job.
"""

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from tests.kill_campaign.job_processes import kill_group
from tests.kill_campaign.kill_point import KILL_POINTS, KillPoint, Role

ARMED = "armed.json"
"""The order that is in force. The process that renames the file executes the order, so each is executed once."""
KILLS = "kills.jsonl"
RANDOM = "random"
RANDOM_S = (0.0, 4.0)
GROUP_SHARE = 0.3
STARTING_SHARE = 0.3
"""Of the kills while the job starts and recovers."""

Place = KillPoint | Role
"""A named point; or a process, which is killed at a random moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillOrder:
    """Kill this victim at this call of this point."""

    number: int
    point: str
    """The name of a point; `random` for a random moment."""
    victim: Role
    call: int = 1
    """At the so manyth call since the order was given, from 1."""
    delay_s: float = 0.0
    """For a random moment: after so many seconds."""
    while_starting: bool = False
    """False: it is ordered when the job has completed a batch since its last start."""


def arm(folder: Path, order: KillOrder) -> None:
    """Puts an order into force."""
    temporary = folder / (ARMED + ".new")
    temporary.write_text(json.dumps(asdict(order)), encoding="utf-8")
    temporary.replace(folder / ARMED)


def armed(folder: Path) -> KillOrder | None:
    """Returns the order that is in force."""
    try:
        plain = json.loads((folder / ARMED).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return KillOrder(**{**plain, "victim": Role(plain["victim"])})


def claim(folder: Path, order: KillOrder) -> bool:
    """Takes the order out of force; returns False if another process has done that."""
    try:
        (folder / ARMED).rename(folder / f"order-{order.number}.json")
    except FileNotFoundError:
        return False
    return True


def write_kill(folder: Path, order: KillOrder, *, at: str) -> None:
    """Writes what is killed, before it is killed. `at` is the point that was reached."""
    append_line(folder / KILLS, {"number": order.number, "at": at, "victim": order.victim, "t": time.monotonic()})


def append_line(file: Path, line: dict[str, object]) -> None:
    """Appends one JSON line in one write: several processes may write to the file."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
    finally:
        os.close(descriptor)


def execute(folder: Path, order: KillOrder) -> None:
    """Kills the victim, of which the calling process is one."""
    write_kill(folder, order, at=order.point)
    if order.victim is Role.GROUP:
        kill_group(folder)
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # SIGKILL is delivered before this returns


def plan(random: Random, count: int) -> Sequence[KillOrder]:
    """Returns so many kills."""
    turns = _turns(random, [*KILL_POINTS, *Role])
    return [_planned(random, number, next(turns)) for number in range(1, count + 1)]


def _turns(random: Random, places: Sequence[Place]) -> Iterator[Place]:
    while True:
        yield from random.sample(places, len(places))


def _planned(random: Random, number: int, place: Place) -> KillOrder:
    while_starting = random.random() < STARTING_SHARE
    group = random.random() < GROUP_SHARE
    return KillOrder(
        number=number,
        point=RANDOM if isinstance(place, Role) else place.name,
        victim=place if isinstance(place, Role) else Role.GROUP if group else place.role,
        call=1 if isinstance(place, Role) else random.randint(1, place.calls),
        delay_s=round(random.uniform(*RANDOM_S), 2),
        while_starting=while_starting,
    )
