"""`make hostile`: mutates what a Kafka node, a disk or an attacker controls, and passes it through the whole path.

SEED and COUNT are variables. A case's seed is SEED plus its number: `python -m tests.hostile SEED 1` repeats one case.
"""

import logging
import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from random import SystemRandom

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.hostile.hostile_case import CaseResult, CasesResult, run_cases

_CHUNK = 200
_SHOWN = 20
MEMORY_MB = 300
"""The most that a process may grow beyond its size after the first cases."""


def main() -> int:
    arguments = [int(value) for value in sys.argv[1:]]
    seed = arguments[0] if arguments else int(os.environ.get("SEED") or SystemRandom().randrange(1_000_000_000))
    count = arguments[1] if len(arguments) > 1 else int(os.environ.get("COUNT") or 10_000)
    logging.disable()  # thousands of cases log what they refuse
    console = Console()
    console.print(f"hostile: seed {seed}, {count:,} cases")
    kinds: Counter[tuple[str, str]] = Counter()
    slowest: dict[str, float] = {}
    problems: list[tuple[int, CaseResult]] = []
    grown_mb = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("cases", total=count)
        for done in _chunks(seed, count):
            grown_mb = max(grown_mb, done.grown_mb)
            for case, result in done.results:
                kinds[result.kind, result.outcome] += 1
                slowest[result.kind] = max(slowest.get(result.kind, 0.0), result.cpu_s)
                if result.problem is not None:
                    problems.append((case, result))
            progress.update(task, advance=len(done.results), description=f"{len(problems)} problems")
    console.print(_table(kinds, slowest))
    console.print(f"a process grew by at most {grown_mb} MB (at most {MEMORY_MB} are allowed)")
    for case, result in problems[:_SHOWN]:
        console.print(f"seed {case}: {result.kind}: {result.problem}", markup=False)
    console.print(f"hostile: {len(problems)} problems in {count:,} cases")
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


def _table(kinds: Counter[tuple[str, str]], slowest: dict[str, float]) -> Table:
    table = Table(title="cases")
    for heading in ("input", "outcome", "cases", "slowest of the input, CPU seconds"):
        table.add_column(heading)
    for (kind, outcome), number in sorted(kinds.items()):
        table.add_row(kind, outcome, f"{number:,}", f"{slowest[kind]:.3f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
