"""`make mutate`: which modules it takes, and that the mutants are made in a copy."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.__main__ import ROOT


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


def test_a_change_that_no_test_notices_survives_and_the_checkout_is_unchanged() -> None:
    path = ROOT / "rules" / "analysis" / "disk_replacement.py"
    before = path.read_bytes()
    chosen = "tests/unit/rules/test_voter_disk_replaced.py"

    strong = mutation("rules/analysis/disk_replacement.py", "--tests", chosen)
    weak = mutation(
        "rules/analysis/disk_replacement.py", "--tests", "tests/unit/rules/analysis/test_safe_to_restart.py"
    )

    score = r"^rules/analysis/disk_replacement\.py: (\d+) changes, (\d+) killed"
    one, other = re.search(score, strong.stdout, re.MULTILINE), re.search(score, weak.stdout, re.MULTILINE)
    assert one is not None
    assert other is not None
    assert int(one[1]) == int(one[2]) == int(other[1]) > int(other[2])
    assert weak.stdout.startswith("survived: rules/analysis/disk_replacement.py half_done 11\n@@ ")
    assert path.read_bytes() == before


@pytest.mark.parametrize(("condition", "code"), [("len(names) > 1", 0), ("len(names) > 2", 1)])
def test_a_function_that_only_runs_at_import_is_changed_before_it_runs(
    condition: str, code: int, tmp_path: Path
) -> None:
    changed = tmp_path / "changed.py"
    before = (ROOT / "rules" / "moving_numbers.py").read_text()
    changed.write_text(before.replace("len(names) > 1", condition))
    read, write = os.pipe()
    run = [sys.executable, "-m", "tests.mutation.import_time", str(write), "rules/moving_numbers.py", str(changed)]
    chosen = "tests/unit/rules/test_rule_evaluator.py"

    ended = subprocess.run(
        [*run, "--quiet", "-k", "in_each_situation", chosen],
        cwd=ROOT,
        pass_fds=[write],
        capture_output=True,
        check=False,
    )

    os.close(write)
    with os.fdopen(read) as written:
        assert (ended.returncode, written.read().startswith(f"{chosen}::")) == (code, code == 1)


def test_tests_that_fail_without_a_change_are_refused() -> None:
    ended = mutation("rules/analysis/disk_replacement.py", "--tests", "tests/mutation/failing.py")

    assert ended.returncode == 1
    assert "a test fails without a change: tests/mutation/failing.py::test_that_fails\n" in ended.stderr
