"""A kill at a named point: ordered by the run, and executed by the process that is killed.

Standard library only: it runs in every Python process of the job.
"""

import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.job_processes import kill_group
from tests.chaos.kill_point import Role

ARMED = "armed.json"
"""The order that is in force. The process that renames the file executes the order, so each is executed once."""
KILLS = "kills.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class KillOrder:
    """Kill this victim at this call of this point."""

    number: int
    point: str
    """The name of a point."""
    victim: Role
    call: int = 1
    """At the so manyth call since the order was given, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedKill:
    """A kill that happened."""

    number: int
    at: str
    """The point, or what else ended the job."""
    victim: str
    t: float
    """Monotonic seconds."""

    def __str__(self) -> str:
        return f"kill {self.number} of {self.victim}: {self.at}"


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


def executed(folder: Path) -> list[ExecutedKill]:
    """Returns the kills that were executed."""
    file = folder / KILLS
    return [ExecutedKill(**json.loads(line)) for line in file.read_bytes().splitlines()] if file.exists() else []


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
