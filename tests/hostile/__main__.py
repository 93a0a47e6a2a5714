"""`make hostile`: mutates what a Kafka node, a disk or an attacker controls, and passes it through the whole path.

SEED and COUNT are variables. A case's seed is SEED plus its number: `python -m tests.hostile SEED 1` repeats one case.
"""

import logging
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from random import SystemRandom

from rich.console import Console

from tests.hostile.hostile_case import CaseResult, CasesResult, run_cases

CONSOLE = Console(highlight=False, markup=False, soft_wrap=True)
_CHUNK = 200
_SHOWN = 20
MEMORY_MB = 300
"""The most that a process may grow beyond its size after the first cases."""


def main() -> int:
    arguments = [int(value) for value in sys.argv[1:]]
    seed = arguments[0] if arguments else int(os.environ.get("SEED") or SystemRandom().randrange(1_000_000_000))
    count = arguments[1] if len(arguments) > 1 else int(os.environ.get("COUNT") or 10_000)
    logging.disable()  # thousands of cases log what they refuse
    CONSOLE.print(f"hostile: seed {seed}, {count:,} cases")
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
    CONSOLE.print(f"a process grew by at most {grown_mb} MB (at most {MEMORY_MB} are allowed)")
    for case, result in problems[:_SHOWN]:
        CONSOLE.print(f"seed {case}: {result.kind}: {result.problem}")
    CONSOLE.print(f"hostile: {len(problems)} problems in {count:,} cases")
    return 1 if problems or grown_mb > MEMORY_MB else 0


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


if __name__ == "__main__":
    sys.exit(main())
