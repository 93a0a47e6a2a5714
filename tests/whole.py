"""`make whole [ONLY=NAME,...]`: runs each command that tests this project, and writes the table of docs/reliability.md.

A command replaces its line of the table, so that the lines say what each commit has seen. It exits with 1 if one of
the commands failed.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.__main__ import commit
from tests.long_parts import PARTS
from tests.page_tables import DOCS, table, tables_of, with_tables

ROOT = Path(__file__).parents[1]
PAGE = DOCS / "reliability.md"
TABLE = "whole"
HEAD = "| command | commit | begun | minutes | result |"
COMMANDS: Mapping[str, Sequence[str]] = {
    "test": ["test"],
    "test-live": ["test-live"],
    **{part.name: ["test-long", f"PART={part.name}"] for part in PARTS},
    "demo": ["demo"],
    "parity": ["parity"],
    "forecast": ["chaos", "FORECAST=60"],
    "evaluate": ["evaluate"],
    "bench": ["bench"],
}
"""The targets and settings of make, by the names for ONLY."""
_OUTCOME = re.compile(r"=+ (?P<counts>\d+ (?:failed|passed|skipped).*?) in [\d.]+s")
_COUNT = re.compile(r"\d+ (?:failed|errors?|passed|skipped)")


def main() -> int:
    """Runs the commands named by ONLY, or all, in the order of the table."""
    chosen = [name.strip() for name in os.environ.get("ONLY", "").split(",") if name.strip()] or [*COMMANDS]
    if unknown := [name for name in chosen if name not in COMMANDS]:
        sys.stderr.write(f"make whole: ONLY={unknown[0]} is no command; the names are {', '.join(COMMANDS)}\n")
        return 2
    failed = [name for name in COMMANDS if name in chosen and not _passes(name)]
    if failed:
        sys.stderr.write(f"failed: {', '.join(failed)}\n")
    return 1 if failed else 0


def with_line(lines: str, name: str, line: str) -> str:
    """Returns the table with this line for a command, in the order of the commands."""
    known = {each.split("`")[1]: each for each in lines.splitlines()[2:]}
    known[shown(name)] = line
    return table(HEAD, (known[each] for each in map(shown, COMMANDS) if each in known))


def shown(name: str) -> str:
    """Returns the command of a name as a person types it."""
    return " ".join(("make", *COMMANDS[name]))


def result(status: int, output: Sequence[str]) -> str:
    """Returns what a command ended with; of pytest the numbers of tests, of its last run."""
    found = [each["counts"] for line in output if (each := _OUTCOME.search(line))]
    counts = ", ".join(_COUNT.findall(found[-1])) if found else ""
    return counts if counts and not status else ", ".join(filter(None, (counts, f"exit code {status}")))


def _passes(name: str) -> bool:
    """Runs a command, writes its line and returns whether it ended well."""
    of_commit, begun, began = commit(), datetime.now(UTC), time.monotonic()
    output = []
    # Its variables are not those of this process: ONLY names sections of the benchmark as well.
    environment = {key: value for key, value in os.environ.items() if key not in ("ONLY", "MAKEFLAGS", "MFLAGS")}
    with subprocess.Popen(
        ["make", *COMMANDS[name]],
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            output.append(line)
    cells = (
        f"`{shown(name)}`",
        of_commit,
        f"{begun:%Y-%m-%d %H:%M}",
        f"{(time.monotonic() - began) / 60:.0f}",
        result(process.returncode, output),
    )
    tables = tables_of(PAGE)
    lines = with_line(tables[TABLE], name, f"| {' | '.join(cells)} |")
    PAGE.write_text(with_tables(PAGE, {**tables, TABLE: lines}), encoding="utf-8")
    return process.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
