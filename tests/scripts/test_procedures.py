"""What Kafka's documentation says how to do, as scripts: nothing fires while it is done so."""

from pathlib import Path

import pytest

from tests.golden_file import assert_golden
from tests.scripts.script_run import ScriptRun
from tests.scripts.script_text import with_output

PROCEDURES = sorted((Path(__file__).parent / "procedures").glob("*.txt"))


@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda procedure: procedure.stem)
def test_a_documented_procedure_fires_nothing(procedure: Path) -> None:
    run = ScriptRun()
    text = with_output(procedure.read_text(encoding="utf-8"), run.run, nothing="no alert")

    assert [f"{alert.state} {alert.rule} {alert.subject}: {alert.summary}" for alert in run.alerts] == []
    assert_golden(procedure, text)
