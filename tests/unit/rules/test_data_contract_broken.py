"""data-contract-broken: one finding for each contract that was found broken recently."""

import pytest

from tests.unit.rules.situation import findings, healthy, with_contract_violation

BUG = "# Report the place that the example names as a bug of kraftwatch: other rows and rules are not affected"
SKIPPED = "# List the rows that were skipped: kraftwatch data quarantine list, with the job's --checkpoint"
WRONG = "Alerts may be wrong or missing."


@pytest.mark.parametrize(
    ("contract", "consequence", "remedy"),
    [
        ("every-row-can-be-applied", WRONG, (BUG, SKIPPED)),
        ("every-rule-can-be-evaluated", WRONG, (BUG, SKIPPED)),
        ("every-status-can-be-rendered", WRONG, (BUG, SKIPPED)),
        (
            "every-state-can-be-read",
            "The cluster started with a new state.",
            (
                "# Restart the job with a new --checkpoint: it reads the log again from the newest snapshot",
                "# Check the disk of the monitor's host; keep the old checkpoint, whose quarantine holds the damaged "
                "state",
            ),
        ),
    ],
)
def test_consequence_and_remedy_of_a_contract(contract: str, consequence: str, remedy: tuple[str, ...]) -> None:
    (finding,) = findings(with_contract_violation(healthy(), contract), "data-contract-broken")

    assert f" {consequence} Contract: " in finding.summary
    assert finding.remedy == remedy
