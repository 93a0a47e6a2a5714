"""Kafka versions that the texts do not describe: one without LeaderRecoveryState, and one with auto-join."""

from dataclasses import replace

import pytest

from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    evaluation_of,
    findings,
    healthy,
    recovering,
)


def not_applicable(quorum: Quorum) -> dict[str, str]:
    return {one.rule: one.why for one in evaluation_of(quorum).not_applicable}


@pytest.mark.kip("B050")
def test_from_metadata_version_3_2_on_recovery_is_evaluated() -> None:
    quorum = replace(recovering(healthy(), 0), metadata_version=3)
    assert not_applicable(quorum) == {}
    assert len(findings(quorum, "partition-stuck-recovering")) == 1
