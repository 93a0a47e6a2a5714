"""KillOrder: one kill of the campaign, as the process that is killed reads it. Standard library only."""

import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.kill_campaign.job_processes import kill_group
from tests.kill_campaign.kill_point import Role

ARMED = "armed.json"
"""The order that is in force. The process that renames the file executes the order, so each is executed once."""
KILLS = "kills.jsonl"


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


def write_kill(folder: Path, order: KillOrder, pids: list[int], *, at: str) -> None:
    """Writes what is killed, before it is killed. `at` is the point that was reached."""
    line = {"number": order.number, "at": at, "victim": order.victim, "t": time.monotonic(), "pids": pids}
    append_line(folder / KILLS, line)


def append_line(file: Path, line: dict[str, object]) -> None:
    """Appends one JSON line in one write: several processes may write to the file."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
    finally:
        os.close(descriptor)


def execute(folder: Path, order: KillOrder) -> None:
    """Kills the victim, of which the calling process is one."""
    write_kill(folder, order, [os.getpid()], at=order.point)
    if order.victim is Role.GROUP:
        kill_group(folder)
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # SIGKILL is delivered before this returns
