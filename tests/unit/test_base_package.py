"""The base package, which the relay and the on-call commands need, stays small.

import-linter checks that these import no package of an extra (`tool.importlinter` in pyproject.toml).
"""

import re
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

LOCK = Path(__file__).parents[2] / "deploy" / "requirements-base.txt"
BASE_MB, MORE_MB = 77, 5
"""The installed packages in millions of bytes, without bytecode (Linux, x86-64, Python 3.11); how much more is accepted
without a decision: sizes differ by release and by system."""


def test_the_packages_of_the_base_have_their_recorded_size() -> None:
    locked = [Requirement(line) for line in re.findall(r"^[a-z].*?(?= \\)", LOCK.read_text(), re.MULTILINE)]
    names = [one.name for one in locked if one.marker is None or one.marker.evaluate()]
    sizes = {name: sum(file.size or 0 for file in distribution(name).files or ()) / 1e6 for name in names}
    largest = ", ".join(f"{name} {size:.1f}" for name, size in sorted(sizes.items(), key=lambda one: -one[1])[:8])
    found = sum(sizes.values())

    assert len(sizes) > 30
    assert BASE_MB - MORE_MB < found < BASE_MB + MORE_MB, (
        f"the {len(sizes)} packages of the base have {found:.0f} MB, {BASE_MB} are recorded: put what only the job "
        f"needs into an extra, or record the new size here and in docs/quickstart.md; the largest: {largest}"
    )
