"""The table of faults: each is named once, and the demo, `make evaluate` and its page choose from it."""

import re
from pathlib import Path

from rules.evaluate import RULES
from rules.finding import Severity
from streaming.demo.scenarios import SCENARIOS
from tests.chaos.chaos_run import ALL_FAULTS
from tests.faults import FAULTS
from tests.job import evaluated_faults

PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"


def test_each_fault_has_a_name_of_its_own_and_so_has_each_row_and_each_fault_of_chaos() -> None:
    for table in (FAULTS, evaluated_faults.FAULTS, ALL_FAULTS):
        names = [each.name for each in table]
        assert len({*names}) == len(names)


def test_expected_rules_and_severities_exist() -> None:
    alerts = [alert for fault in FAULTS for alert in fault.alerts]
    named = {alert.rule for alert in alerts} | {rule for fault in FAULTS for rule in fault.never}
    assert named - {*RULES} == set()
    assert {alert.severity for alert in alerts} <= {*Severity}


def test_demo_and_evaluation_inject_faults_of_the_table() -> None:
    injected = [
        *(scenario.fault for scenario in SCENARIOS),
        *(f for row in evaluated_faults.FAULTS for f in row.faults),
    ]
    assert [fault.name for fault in injected if fault not in FAULTS] == []


def test_the_demo_shows_a_rule_that_its_fault_must_fire() -> None:
    assert [one.name for one in SCENARIOS if one.rule not in {alert.rule for alert in one.fault.alerts}] == []


def test_the_page_has_a_row_for_each_evaluated_fault() -> None:
    rows = re.findall(r"^\| ([^|]+) \|.*\| \d{4}-\d\d-\d\d, \w+ \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [fault.name for fault in evaluated_faults.FAULTS]
