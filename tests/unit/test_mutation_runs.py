"""`make mutate`: which modules it takes, and that the mutants are made in a copy."""

import re
import subprocess
import sys

import pytest

from tests.mutation import ROOT


def mutation(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutation", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["streaming/cli/explain.py", "rules/no_such_module.py", "tests/mutation.py"])
def test_a_module_that_is_not_of_the_core_is_refused_in_one_sentence(module: str) -> None:
    ended = mutation(module)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"{module}: expected a module or folder below rules, streaming/replay, connectors/metadata, "
        "such as rules/lifecycle.py\n"
    )


@pytest.mark.long
def test_a_change_that_no_test_notices_survives_and_the_checkout_is_unchanged() -> None:
    path = ROOT / "rules" / "analysis" / "disk_replacement.py"
    before = path.read_bytes()
    chosen = "tests/unit/rules/test_voter_disk_replaced.py"

    strong = mutation("rules/analysis/disk_replacement.py", "--tests", chosen)
    weak = mutation(
        "rules/analysis/disk_replacement.py", "--tests", "tests/unit/rules/analysis/test_safe_to_restart.py"
    )

    score = r"rules/analysis/disk_replacement\.py: (\d+) mutants, (\d+) killed"
    one, other = re.search(score, strong.stdout), re.search(score, weak.stdout)
    assert one is not None
    assert other is not None
    assert int(one[1]) == int(one[2]) == int(other[1]) > int(other[2])
    assert ": survived\n--- rules/analysis/disk_replacement.py\n" in weak.stdout, "the change of a survivor is printed"
    assert path.read_bytes() == before
