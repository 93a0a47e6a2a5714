"""metadata-log-damaged: a controller serves bytes that do not match their checksum."""

from dataclasses import replace

import pytest

from rules.model.identifiers import Millis, NodeId, Offset, SnapshotId
from rules.model.membership import RecordPosition
from rules.model.monitoring import DamagedBatch
from tests.unit.rules.situation import (
    EPOCH,
    NOW,
    SERVED_AT,
    finding_lines,
    findings,
    healthy,
    log_damaged,
    present,
    static,
    unknown_reasons,
    with_contract_violation,
    with_rows,
)

RULE, CONTRACT = "metadata-log-damaged", "every-record-decodes"


def test_it_names_the_place_and_the_voters_with_a_sound_copy() -> None:
    (finding,) = findings(log_damaged(healthy(), 3), RULE)
    assert finding.subject == "controller 3"
    assert finding.summary == (
        "Controller 3 serves damaged metadata: the batch of offsets 40 to 42 in epoch 7 does not match its checksum. "
        "A replica that must read it gets no further. Voters with a sound copy: 1 and 2."
    )
    assert any(step.startswith("# Restart controller 3: voters 1 and 2 have a sound copy") for step in finding.remedy)


def test_a_restart_is_advised_only_if_a_majority_of_the_others_has_a_sound_copy() -> None:
    quorum = with_rows(log_damaged(healthy(), 3), 1, log_end_offset=Offset(42))
    (finding,) = findings(quorum, RULE)
    assert finding.summary.endswith("Voters with a sound copy: 2.")
    assert not any(step.startswith("# Restart") for step in finding.remedy)
    assert any(step.startswith("# Do not restart controller 3 until a majority of 3 voters") for step in finding.remedy)


def test_a_controller_with_a_damaged_snapshot_is_not_restarted_before_the_file_is_moved() -> None:
    damage = DamagedBatch(snapshot=SnapshotId(end_offset=9_000, epoch=12), position=700)
    (finding,) = findings(log_damaged(healthy(), 3, damage), RULE)
    name = "00000000000000009000-0000000012.checkpoint"
    assert f"a batch at byte 700 of snapshot {name} does not match" in finding.summary
    assert any(step.startswith(f"# Do not restart controller 3 while {name} is its newest") for step in finding.remedy)


@pytest.mark.parametrize(
    ("registered", "fires"),
    [
        (RecordPosition(offset=Offset(SERVED_AT - 1), leader_epoch=EPOCH, timestamp_ms=NOW), True),
        (RecordPosition(offset=Offset(SERVED_AT), leader_epoch=EPOCH, timestamp_ms=Millis(0)), False),
        (RecordPosition(offset=Offset(SERVED_AT), leader_epoch=EPOCH, timestamp_ms=NOW, snapshot=True), True),
    ],
    ids=["registered before", "registered since", "a snapshot does not tell"],
)
def test_it_ends_when_the_controller_has_registered_since(registered: RecordPosition, fires: bool) -> None:
    quorum = log_damaged(healthy(), 3)
    one = replace(quorum.controllers[NodeId(3)], at=registered)
    quorum = replace(quorum, controllers={**quorum.controllers, NodeId(3): one})
    assert finding_lines(quorum) == ([f"critical {RULE}: controller 3"] if fires else [])


def test_without_registrations_it_fires_until_it_is_forgotten() -> None:
    quorum = replace(log_damaged(static(healthy()), 3), controllers={})
    assert [one.rule for one in findings(quorum, RULE)] == [RULE]


def test_a_controller_that_is_not_known_is_named_by_its_address() -> None:
    quorum = log_damaged(replace(healthy(), controllers={}, committed=None), 3)
    quorum = replace(quorum, poll=replace(present(quorum.poll), nodes={}))
    (finding,) = findings(quorum, RULE)
    assert finding.subject == "log at c3.test:9093"
    assert finding.summary.startswith("The controller at c3.test:9093 serves damaged metadata")


def test_what_a_controller_damaged_is_no_fault_of_the_recorded_data() -> None:
    quorum = with_contract_violation(healthy(), CONTRACT)
    assert finding_lines(quorum) == [f"warning data-contract-broken: {CONTRACT}"]
    quorum = log_damaged(quorum, 3)
    assert finding_lines(quorum) == [f"critical {RULE}: controller 3"]
    assert unknown_reasons(quorum, "data-contract-broken") == [
        (CONTRACT, "metadata-log-damaged reports what a controller's disk damaged")
    ]
