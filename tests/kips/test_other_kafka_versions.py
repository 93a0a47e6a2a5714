"""Kafka versions that the texts do not describe: one without LeaderRecoveryState, and one with auto-join."""

from dataclasses import replace

import pytest

from rules.model.identifiers import NodeId
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    evaluation_of,
    findings,
    healthy,
    observer,
    recovering,
    supporting,
    voter_not_fetching,
)


def not_applicable(quorum: Quorum) -> dict[str, str]:
    return {one.rule: one.why for one in evaluation_of(quorum).not_applicable}


@pytest.mark.kip("B050")
@pytest.mark.parametrize("level", [1, 2])
def test_below_metadata_version_3_2_recovery_is_not_supported_instead_of_healthy(level: int) -> None:
    reasons = not_applicable(replace(healthy(), metadata_version=level))
    for rule in ("partition-stuck-recovering", "recovery-invariant-broken"):
        assert reasons[rule] == (f"not supported: metadata.version {level} is below 3.2 and has no LeaderRecoveryState")


@pytest.mark.kip("B050")
def test_from_metadata_version_3_2_on_recovery_is_evaluated() -> None:
    quorum = replace(recovering(healthy(), 0), metadata_version=3)
    assert not_applicable(quorum) == {}
    assert len(findings(quorum, "partition-stuck-recovering")) == 1


def of_version(quorum: Quorum, node: int, level: int) -> Quorum:
    changed = replace(quorum.controllers[NodeId(node)], features=supporting(level))
    return replace(quorum, controllers={**quorum.controllers, NodeId(node): changed})


@pytest.mark.parametrize(("level", "named"), [(27, False), (28, True), (30, True)])
def test_a_controller_that_can_add_itself_is_named_before_the_commands_for_it(level: int, named: bool) -> None:
    replaced = of_version(observer(voter_not_fetching(healthy(), 2), 2, directory="newDirOf2"), 2, level)
    spare = of_version(observer(healthy(), 4), 4, level)

    for quorum, rule in ((replaced, "voter-disk-replaced"), (spare, "observer-could-be-voter")):
        (finding,) = findings(quorum, rule)
        steps = [number for number, step in enumerate(finding.remedy) if "controller.quorum.auto.join.enable" in step]
        commands = [number for number, step in enumerate(finding.remedy) if "-controller" in step and step[0] != "#"]
        assert len(steps) == named
        assert all(step < min(commands) for step in steps)
