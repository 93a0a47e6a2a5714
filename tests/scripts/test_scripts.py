"""Scripts in plain text: what happens to a quorum, and which alerts follow. They run the whole pure core.

`script_text` has the format, `script_run` the commands. `make goldens` writes the output into the scripts: read and
understand each difference before you commit it.
"""

from pathlib import Path

import pytest

from tests.remedy_conflicts import found_conflicts
from tests.scripts.script_run import ScriptRun
from tests.scripts.script_text import assert_output

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_prints_the_expected_output_and_remedies_that_agree(script: Path) -> None:
    run = ScriptRun()

    assert_output(script, run.run, nothing="no alert")

    assert found_conflicts(run.alerts) == []


def test_scripts_are_found() -> None:
    assert len(SCRIPTS) >= 10
