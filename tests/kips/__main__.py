"""`make rows`: which facts of the KIPs (`rows.txt`) a test cites, which are excused, and which are open.

A test cites a fact with `@pytest.mark.kip("D050")`, and a module with `pytestmark` the facts that its tests prove
together; `not-covered.md` excuses facts that no test can prove, each with the reason. Exits with 1 if a fact of
decoding, replay, alerts or views is open, or if a citation or an excuse is wrong.
"""

import ast
import re
import sys
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
REQUIRED = frozenset("MRAS")
"""Tags of facts that require a test or an excuse: decode, replay, alert, show."""
_ROW = re.compile(r"([A-K]\d{3})  (\S+) +([MRASTX]+) +(\S.*)")
_EXCUSE = re.compile(r"- ([A-K]\d{3}(?:, [A-K]\d{3})*): \S")


def cited(module: str) -> set[str]:
    """Returns the numbers that the tests of a module cite, and those that it cites as a whole (`pytestmark`)."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found.update(number for mark in node.decorator_list for number in _rows_of(mark))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            found.update(_rows_of(node.value))
    return found


def _rows_of(mark: ast.expr) -> Iterable[str]:
    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.kip":
        for argument in mark.args:
            # Only a text is read: anything else is reported as no row.
            yield str(argument.value) if isinstance(argument, ast.Constant) else ast.unparse(argument)


def counted(name: str, numbers: Iterable[str], tested: set[str], excused: set[str]) -> str:
    """Returns the line of the table for these rows."""
    found = {*numbers}
    left = len(found - tested - excused)
    return f"{name:<10} {len(found & tested):>4} tested, {len(found & excused):>3} excused, {left:>3} left"


def main() -> int:
    """Prints the table, and one line for each fault."""
    lines = (HERE / "rows.txt").read_text().splitlines()
    rows = {row[1]: row for line in lines if (row := _ROW.fullmatch(line.rstrip()))}
    required = {number for number, row in rows.items() if REQUIRED & {*row[3]}}
    items = _EXCUSE.findall((HERE / "not-covered.md").read_text())
    excused = {number for item in items for number in item.split(", ")}
    tested = {number for path in HERE.parent.rglob("test_*.py") for number in cited(path.read_text())}
    faults = [
        *(f"{number} is cited or excused and is no row" for number in (tested | excused) - rows.keys()),
        *(f"{number} is cited and excused" for number in tested & excused),
        *(f"{number} is open: {rows[number][4]}" for number in required - tested - excused),
    ]
    for text in sorted({rows[number][2] for number in required}):
        print(counted(text, (each for each in required if rows[each][2] == text), tested, excused))
    print(counted("together", required, tested, excused), *sorted(faults), sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
