"""Samples of what a running job uses, and the line through the second half of them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import correlation, fmean, linear_regression

import psutil

NOT_OURS = "gatherer"
"""The role of the process that the day replaces."""
RELAY = "relay"
ALL = "the job's processes: MB"
FLAT = 0.1
"""What counts as flat: a slope of at most this share of the value a day."""
STRAIGHT = 0.5
"""A line that explains less than this share of the variance is noise."""
DAY_H = 24.0
Sample = Mapping[str, float]


def sample(processes: Mapping[psutil.Process, str], folders: Mapping[str, Sequence[Path]]) -> Sample:
    """Returns memory, descriptors and threads by role of a process, and the size of each folder or file.

    The memory of a role is private memory (USS): the shares of common pages (PSS) change with what else runs on the
    machine. That of all processes together has these shares.
    """
    found: dict[str, float] = {}
    for process, role in processes.items():
        # Spark's helpers end at any time.
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied), process.oneshot():
            if role == NOT_OURS:
                continue
            memory = process.memory_full_info()
            used = {
                f"{role}: MB": memory.uss / 1e6,
                f"{role}: descriptors": process.num_fds(),
                f"{role}: threads": process.num_threads(),
                ALL: memory.pss / 1e6 if role != RELAY else 0.0,
            }
            for name, value in used.items():
                found[name] = found.get(name, 0.0) + value
    for name, paths in folders.items():
        sizes = [size for path in paths for size in _sizes(path)]
        found[f"{name}: MB"], found[f"{name}: files"] = sum(sizes) / 1e6, len(sizes)
    return found


def _sizes(path: Path) -> list[int]:
    found = []
    for each in [path, *path.rglob("*")]:
        # Spark deletes old files all the time.
        with suppress(OSError):
            found += [each.stat().st_size] if each.is_file() else []
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How one number developed."""

    name: str
    first: float
    middle: float
    last: float
    most: float
    per_day: float
    """The slope of the line through the second half."""
    straight: float
    """The share of the variance that the line explains."""
    bound: float | None
    """What the documents say; None: the number is to be flat."""

    @property
    def grows(self) -> bool:
        """Whether it is above its bound or, without one, not flat."""
        if self.bound is not None:
            return self.most > self.bound
        return self.per_day > max(1.0, FLAT * self.middle) and self.straight > STRAIGHT

    def text(self) -> str:
        """Returns its values as one line."""
        bound = "flat" if self.bound is None else f"at most {self.bound:,.0f}"
        values = (
            f"{self.first:,.1f} first, {self.middle:,.1f} in the middle, {self.last:,.1f} last, {self.most:,.1f} most"
        )
        return f"{values}; {self.per_day:+,.1f} a day (r² {self.straight:.2f}); {bound}{': grows' * self.grows}"


def courses(samples: Sequence[tuple[float, Sample]], bounds: Mapping[str, float]) -> list[Course]:
    """Returns the course of each number that all samples have; each sample has its time in hours."""
    names = sorted(set.intersection(*(set(values) for _, values in samples)))
    second = samples[len(samples) // 2 :]
    hours = [at for at, _ in second]
    found = []
    for name in names:
        values = [values[name] for _, values in second]
        moved = min(values) < max(values)
        found.append(
            Course(
                name=name,
                first=samples[0][1][name],
                middle=fmean(values[: max(1, len(values) // 10)]),
                last=fmean(values[-max(1, len(values) // 10) :]),
                most=max(values[name] for _, values in samples),
                per_day=DAY_H * linear_regression(hours, values).slope,
                straight=correlation(hours, values) ** 2 if moved else 0.0,
                bound=bounds.get(name),
            )
        )
    return found
