"""`make hostile`: what a Kafka node, a disk, a sink's server or a configuration may hold, through the whole path.

SEED and COUNT are variables. A case's seed is SEED plus its number: `python -m tests.hostile SEED 1` repeats one case.
"""

import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from random import SystemRandom

from rich.console import Console

from tests.hostile.bad_configuration import reloads
from tests.hostile.flood_slope import measured
from tests.hostile.hostile_case import CaseResult, CasesResult, run_cases
from tests.hostile.hostile_sink import answers_and_drips
from tests.hostile.live_floods import lateness
from tests.hostile.section import SectionResult

CONSOLE = Console(highlight=False, markup=False, soft_wrap=True)
_CHUNK = 200
_SHOWN = 20
_RELOADS = 2_000
MEMORY_MB = 300
"""The most that a process may grow beyond its size after the first cases."""


def main() -> int:
    arguments = [int(value) for value in sys.argv[1:]]
    seed = arguments[0] if arguments else int(os.environ.get("SEED") or SystemRandom().randrange(1_000_000_000))
    count = arguments[1] if len(arguments) > 1 else int(os.environ.get("COUNT") or 10_000)
    logging.disable()  # thousands of cases log what they refuse
    began = time.monotonic()
    CONSOLE.print(f"hostile: seed {seed}, {count:,} cases")
    sections = [_cases(seed, count)]
    if count > 1:
        for section in _sections(seed):
            _print(section)
            sections.append(section)
    problems = sum(len(section.problems) for section in sections)
    tried = ", ".join(f"{section.tried:,} {section.name}" for section in sections)
    CONSOLE.print(f"hostile: {problems} problems in {tried}, in {time.monotonic() - began:.0f} s")
    return 1 if problems else 0


def _cases(seed: int, count: int) -> SectionResult:
    """Runs the cases, and prints the slowest of each kind."""
    cases: dict[tuple[str, str], list[float]] = {}
    problems: list[tuple[int, CaseResult]] = []
    grown_mb = 0
    for done in _chunks(seed, count):
        grown_mb = max(grown_mb, done.grown_mb)
        for case, result in done.results:
            cases.setdefault((result.kind, result.outcome), []).append(result.cpu_s)
            problems += [(case, result)] if result.problem is not None else []
    for (kind, outcome), seconds in sorted(cases.items()):
        CONSOLE.print(f"{kind} {outcome}: {len(seconds):,} cases, the slowest took {max(seconds):.3f} s of CPU")
    section = SectionResult(name="cases", tried=count)
    section.figure = f"a process grew by at most {grown_mb} MB (at most {MEMORY_MB} are allowed)"
    section.problems += (f"seed {case}: {result.kind}: {result.problem}" for case, result in problems)
    if grown_mb > MEMORY_MB:
        section.problems.append(section.figure)
    _print(section)
    return section


def _sections(seed: int) -> Iterator[SectionResult]:
    """Runs everything but the cases."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-hostile-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for each in ("sinks", "reloads", "live"):
            (folder / each).mkdir()
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(2, mp_context=context, initializer=logging.disable) as pool:
            called = pool.submit(answers_and_drips, seed, folder / "sinks")
            reloaded = pool.submit(reloads, seed, _RELOADS, folder / "reloads")
            flooded = pool.submit(measured)
            yield from called.result()
            yield reloaded.result()
            yield flooded.result()
        # Alone: it measures a time.
        yield lateness(folder / "live")


def _print(section: SectionResult) -> None:
    CONSOLE.print(f"{section.name}: {section.tried:,}; {section.figure}")
    _print_problems(section.problems)


def _print_problems(problems: Sequence[str]) -> None:
    for problem in problems[:_SHOWN]:
        CONSOLE.print(f"  {problem}")


def _chunks(seed: int, count: int) -> Iterator[CasesResult]:
    starts = [(begin, min(_CHUNK, seed + count - begin)) for begin in range(seed, seed + count, _CHUNK)]
    if len(starts) == 1:
        yield run_cases(*starts[0])
        return
    context = multiprocessing.get_context("spawn")
    # A child process ends without removing its temporary folders: they are made in this one.
    with tempfile.TemporaryDirectory(prefix="kraftwatch-hostile-") as folder:
        os.environ["TMPDIR"] = folder
        with ProcessPoolExecutor(
            min(os.cpu_count() or 1, len(starts)), mp_context=context, initializer=logging.disable
        ) as pool:
            for done in as_completed([pool.submit(run_cases, *start) for start in starts]):
                yield done.result()
        del os.environ["TMPDIR"]


if __name__ == "__main__":
    sys.exit(main())
