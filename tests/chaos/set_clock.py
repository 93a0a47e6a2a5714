"""Clocks of single processes that are set while they run, by a small library that is preloaded (`set_clock.c`).

libfaketime of Debian is not used: with it Java 17 spins wherever it waits with a timeout.
"""

import functools
import shutil
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

_OFFSET = struct.Struct("=q")
"""Nanoseconds by which the clock is ahead."""


@functools.cache
def clock_library() -> Path | None:
    """Returns the compiled library; None without a C compiler."""
    if (compiler := shutil.which("cc")) is None:
        return None
    library = Path(tempfile.mkdtemp(prefix="kraftwatch-clock-")) / "set_clock.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@dataclass(slots=True)
class SetClock:
    """The wall clock of the processes with its environment; their monotonic clock is the machine's."""

    file: Path
    """By how much the clock is ahead; the processes have it in their memory."""
    offsets: list[tuple[float, float]] = field(default_factory=list)
    """From when it was ahead by how many seconds, oldest first."""

    def __post_init__(self) -> None:
        self.file.write_bytes(_OFFSET.pack(0))
        self.offsets.append((0.0, 0.0))

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the processes that read it."""
        library = clock_library()
        return {} if library is None else {"LD_PRELOAD": str(library), "KRAFTWATCH_SET_CLOCK": str(self.file)}

    def set(self, seconds: float) -> None:
        """Sets it to so much ahead of the machine's clock."""
        self.offsets.append((time.time(), seconds))
        with self.file.open("r+b", buffering=0) as file:
            file.write(_OFFSET.pack(int(seconds * 1e9)))

    def real(self, at: float, until: float | None = None) -> float:
        """Returns the machine's time when this clock showed `at`: the last one before `until`, if there are several.

        A time that was never shown was jumped over, or is that of a row, which does not go back with the clock.
        """
        end = latest = time.time() if until is None else until
        for start, ahead in reversed(self.offsets):
            if start <= at - ahead < end:
                return at - ahead
            end = min(end, start)
        return next((start for start, ahead in self.offsets if at < start + ahead <= latest + ahead), latest)
