"""Each rule in an incident of a healthy simulated quorum: its alert fires in time, no other does, and it resolves."""

import pytest

from rules.evaluate import RULES
from tests.simulation.incident_simulation import IncidentSimulation
from tests.simulation.incidents import INCIDENTS


@pytest.mark.parametrize("name", INCIDENTS)
def test_an_incident_fires_the_alerts_of_its_rules_and_no_other_and_they_resolve(name: str) -> None:
    simulation = IncidentSimulation(1, INCIDENTS[name])

    simulation.check()

    assert {one.rule for one in simulation.expected} == {*INCIDENTS[name].rules}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 21))
@pytest.mark.parametrize("name", INCIDENTS)
def test_an_incident_with_other_seeds(name: str, seed: int) -> None:
    IncidentSimulation(seed, INCIDENTS[name]).check()


def test_each_rule_fires_in_an_incident() -> None:
    fired = {rule for incident in INCIDENTS.values() for rule in incident.rules}

    # Its rows are given to commands by people: no job has them.
    assert fired == {*RULES} - {"peer-unreachable"}
