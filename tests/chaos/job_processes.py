"""The processes of a job: all that have a folder of the run in their environment. Standard library only."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.chaos.kill_point import Role

VARIABLE = "KRAFTWATCH_INSTRUMENTS"
"""The environment variable that each process of the job inherits; its value is the folder with what instruments it."""

_ROLES = (
    ("connectors.gather", Role.GATHERER),
    ("python_streaming_source_runner", Role.PLANNER),
    ("pyspark.daemon", Role.WORKER),
    ("org.apache.spark.deploy", Role.JAVA),
    ("streaming run", Role.DRIVER),
)


def environment(folder: Path) -> dict[str, str]:
    """Returns the environment variables with which the job of this folder is started, and is instrumented."""
    startup = Path(__file__).parent / "startup"
    return {VARIABLE: str(folder), "PYTHONPATH": os.pathsep.join((str(startup), str(startup.parents[2])))}


def pids(folder: Path) -> list[int]:
    """Returns the processes of the job in this folder that have not ended."""
    marker = f"{VARIABLE}={folder}\0".encode()
    found = []
    for process in Path("/proc").iterdir():
        # The file of a process that ends meanwhile, or of another user, cannot be read.
        with suppress(OSError):
            if process.name.isdigit() and marker in (process / "environ").read_bytes() + b"\0":
                found.append(int(process.name))
    return found


def role_of(pid: int) -> Role | None:
    """Returns the role of a process; None for one that has ended, and for the short-lived ones that Spark starts."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    return next((role for part, role in _ROLES if part in command), None)


def with_role(folder: Path, role: Role) -> list[int]:
    """Returns the processes of the job with this role."""
    return [pid for pid in pids(folder) if role in (Role.GROUP, role_of(pid))]


def kill_group(folder: Path) -> None:
    """Kills all processes of the job, the calling one last if it is one of them."""
    own = os.getpid()
    for pid in [each for each in pids(folder) if each != own]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # A process that was started meanwhile.
    for pid in [each for each in pids(folder) if each != own]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
