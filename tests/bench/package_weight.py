"""`python -m tests.bench.package_weight`: the size of the runtime packages, and of those that only the audit needs."""

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
AUDIT = "great-expectations"


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(roots: set[str]) -> set[str]:
    """Returns the packages that these need, themselves included, as far as they are installed."""
    found: set[str] = set()
    while roots:
        name = roots.pop()
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        found.add(name)
        requirements = (Requirement(text) for text in needs)
        roots |= {
            normalized(each.name) for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""})
        } - found
    return found


def megabytes(names: set[str]) -> float:
    """Returns the size of the installed files."""
    files = (distribution(name).locate_file(file) for name in names for file in distribution(name).files or ())
    return sum(Path(str(file)).stat().st_size for file in files if Path(str(file)).is_file()) / 1e6


def main() -> None:
    """Prints the sizes."""
    needs = distribution("kraftwatch").requires or []
    direct = {normalized(each.name) for each in map(Requirement, needs) if each.marker is None}
    everything = closure(set(direct))
    audit = everything - closure(direct - {AUDIT})
    print(f"runtime packages: {megabytes(everything):.0f} MB")
    print(f"only for {AUDIT}: {megabytes(audit):.0f} MB ({', '.join(sorted(audit))})")


if __name__ == "__main__":
    main()
