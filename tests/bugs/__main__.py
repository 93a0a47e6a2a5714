"""`make bugs`: puts each bug of the lists into a copy of the project, and checks that its test fails then.

WORDS= chooses the bugs of modules whose path contains one of these words.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from tests.bugs.bug import Bug
from tests.bugs.in_checks import BUGS as IN_CHECKS
from tests.bugs.in_delivery import BUGS as IN_DELIVERY
from tests.bugs.in_gatherer import BUGS as IN_GATHERER
from tests.bugs.in_kip_595_metrics_rows import BUGS as IN_KIP_595_METRICS_ROWS
from tests.bugs.in_kip_595_rows import BUGS as IN_KIP_595_ROWS
from tests.bugs.in_kip_595_statements import BUGS as IN_KIP_595_STATEMENTS
from tests.bugs.in_kip_704_853_statements import BUGS as IN_KIP_704_853_STATEMENTS
from tests.bugs.in_kip_704_rows import BUGS as IN_KIP_704_ROWS
from tests.bugs.in_kip_856_rows import BUGS as IN_KIP_856_ROWS
from tests.bugs.in_kip_856_statements import BUGS as IN_KIP_856_STATEMENTS
from tests.bugs.in_kip_1347_rows import BUGS as IN_KIP_1347_ROWS
from tests.bugs.in_kip_1347_statements import BUGS as IN_KIP_1347_STATEMENTS
from tests.bugs.in_kip_left_rows import BUGS as IN_KIP_LEFT_ROWS
from tests.bugs.in_kip_notes_rows import BUGS as IN_KIP_NOTES_ROWS
from tests.bugs.in_kip_sample_277 import BUGS as IN_KIP_SAMPLE_277
from tests.bugs.in_kip_sample_311 import BUGS as IN_KIP_SAMPLE_311
from tests.bugs.in_kip_sample_347 import BUGS as IN_KIP_SAMPLE_347
from tests.bugs.in_kip_sample_383 import BUGS as IN_KIP_SAMPLE_383
from tests.bugs.in_kip_sample_419 import BUGS as IN_KIP_SAMPLE_419
from tests.bugs.in_kip_sample_457 import BUGS as IN_KIP_SAMPLE_457
from tests.bugs.in_kip_sample_491 import BUGS as IN_KIP_SAMPLE_491
from tests.bugs.in_kip_sample_523 import BUGS as IN_KIP_SAMPLE_523
from tests.bugs.in_kip_sample_557 import BUGS as IN_KIP_SAMPLE_557
from tests.bugs.in_kip_sample_587 import BUGS as IN_KIP_SAMPLE_587
from tests.bugs.in_kip_sample_619 import BUGS as IN_KIP_SAMPLE_619
from tests.bugs.in_kip_sample_653 import BUGS as IN_KIP_SAMPLE_653
from tests.bugs.in_kip_second_places import BUGS as IN_KIP_SECOND_PLACES
from tests.bugs.in_replay import BUGS as IN_REPLAY
from tests.bugs.in_rules import BUGS as IN_RULES
from tests.bugs.in_streaming import BUGS as IN_STREAMING

ROOT = Path(__file__).parents[2]
OF_KIPS = (
    *IN_KIP_856_ROWS,
    *IN_KIP_704_ROWS,
    *IN_KIP_595_ROWS,
    *IN_KIP_595_METRICS_ROWS,
    *IN_KIP_1347_ROWS,
    *IN_KIP_NOTES_ROWS,
    *IN_KIP_SAMPLE_277,
    *IN_KIP_SAMPLE_311,
    *IN_KIP_SAMPLE_347,
    *IN_KIP_SAMPLE_383,
    *IN_KIP_SAMPLE_419,
    *IN_KIP_SAMPLE_457,
    *IN_KIP_SAMPLE_491,
    *IN_KIP_SAMPLE_523,
    *IN_KIP_SAMPLE_557,
    *IN_KIP_SAMPLE_587,
    *IN_KIP_SAMPLE_619,
    *IN_KIP_SAMPLE_653,
    *IN_KIP_SECOND_PLACES,
    *IN_KIP_LEFT_ROWS,
    *IN_KIP_856_STATEMENTS,
    *IN_KIP_704_853_STATEMENTS,
    *IN_KIP_595_STATEMENTS,
    *IN_KIP_1347_STATEMENTS,
)


def main() -> int:
    """Returns the exit code: 1 if a bug is not noticed or cannot be put in, or a test fails without it."""
    console = Console(highlight=False, soft_wrap=True)
    words = (os.environ.get("WORDS") or "").split()
    bugs = [
        bug
        for bug in (*IN_RULES, *IN_CHECKS, *IN_DELIVERY, *IN_GATHERER, *IN_REPLAY, *IN_STREAMING, *OF_KIPS)
        if not words or any(word in bug.module for word in words)
    ]
    with tempfile.TemporaryDirectory(prefix="kraftwatch-bugs-") as folder:
        copy = Path(folder)
        _copy_project(copy)
        if _fails(copy, *sorted({bug.noticed_by for bug in bugs})):
            console.print("the tests fail without a bug")
            return 1
        unnoticed = 0
        for number, bug in enumerate(bugs, 1):
            problem = _problem(copy, bug)
            unnoticed += problem is not None
            outcome = "noticed" if problem is None else problem
            console.print(f"{number} of {len(bugs)}: {bug.module}: {bug.wrong.strip()}: {outcome}", markup=False)
    console.print(f"{len(bugs) - unnoticed} of {len(bugs)} bugs were noticed")
    return 1 if unnoticed else 0


def _copy_project(copy: Path) -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)


def _problem(copy: Path, bug: Bug) -> str | None:
    """Returns why a bug is not noticed; None if its test fails."""
    path = copy / bug.module
    source = path.read_text(encoding="utf-8")
    if source.count(bug.right) != 1:
        return f"NOT PUT IN: {bug.right!r} occurs {source.count(bug.right)} times"
    path.write_text(source.replace(bug.right, bug.wrong), encoding="utf-8")
    try:
        return None if _fails(copy, bug.noticed_by) else f"NOT NOTICED by {bug.noticed_by}"
    finally:
        path.write_text(source, encoding="utf-8")


def _fails(copy: Path, *tests: str) -> bool:
    # Without stored byte code: the age of a source file is compared in whole seconds.
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-n0", "--tb=short", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=copy, capture_output=True, check=False).returncode == 1


if __name__ == "__main__":
    sys.exit(main())
