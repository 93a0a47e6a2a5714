"""Scenarios of a log in plain text: what becomes known with each observation of it.

The commands are those of `log_run`. `make goldens` writes what becomes known: read each difference.
"""

from pathlib import Path

import pytest

from tests.scripts.script_text import assert_output
from tests.unit.streaming.replay.log_run import LogRun
from tests.unit.streaming.replay.log_scenario_files import SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.stem)
def test_what_becomes_known_with_each_observation(scenario: Path) -> None:
    assert_output(scenario, LogRun().run, nothing="nothing new")
