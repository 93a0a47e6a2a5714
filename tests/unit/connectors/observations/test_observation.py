"""The JSON of events is stored in the journal: its field names and `type` strings must not change."""

import json

import pytest

from connectors.observations.observation import (
    BrokenContract,
    EndpointProbed,
    Event,
    LeaderViewPolled,
    ObservationFailed,
    ObservationsAudited,
    QuorumPolled,
    from_json,
    to_json,
)
from rules.model.identifiers import Endpoint, Epoch, NodeId
from rules.model.monitoring import Answer, Connection, ObservationSource, Reason, Resolution

FAILED = ObservationFailed(
    source=ObservationSource.LOG, endpoint="c1:9093", reason=Reason.TIMED_OUT, detail="no answer"
)
BROKEN = BrokenContract(contract="c", promise="p", grave=True, rows=2, example="row 4", sequence=4)


@pytest.mark.parametrize(
    ("event", "type_", "fields"),
    [
        (FAILED, "observation-failed", "source endpoint reason detail node directory_id"),
        (
            ObservationsAudited(rows=5, first_sequence=0, last_sequence=4, broken=(BROKEN,)),
            "audited",
            "rows first_sequence last_sequence broken",
        ),
        (
            LeaderViewPolled(
                endpoint="c1:9093", node=NodeId(1), this_cluster=True, leader_id=None, leader_epoch=Epoch(2), log=None
            ),
            "leader-view-polled",
            "endpoint node this_cluster leader_id leader_epoch log",
        ),
        (
            QuorumPolled(
                cluster_id=None,
                endpoint="c1:9093",
                leader_id=NodeId(1),
                leader_epoch=Epoch(2),
                high_watermark=None,
                voters=(),
                observers=(),
                nodes=(),
            ),
            "quorum-polled",
            "cluster_id endpoint leader_id leader_epoch high_watermark voters observers nodes clock_ahead_ms",
        ),
        (
            EndpointProbed(
                node=NodeId(1),
                endpoint=Endpoint(listener="CONTROLLER", host="c1", port=9093),
                resolution=next(iter(Resolution)),
                addresses=(),
                connection=next(iter(Connection)),
                answer=next(iter(Answer)),
                answered_by=None,
                detail="",
            ),
            "endpoint-probed",
            "node endpoint resolution addresses connection answer answered_by detail certificate",
        ),
    ],
    ids=lambda value: value.type if hasattr(value, "type") else None,
)
def test_stored_fields_and_type_of_an_event(event: Event, type_: str, fields: str) -> None:
    stored = json.loads(to_json(event))

    assert stored["type"] == type_
    assert stored.keys() == {*fields.split(), "type"}
    assert from_json(to_json(event)) == event


def test_stored_fields_of_a_broken_contract() -> None:
    stored = json.loads(to_json(ObservationsAudited(rows=5, first_sequence=0, last_sequence=4, broken=(BROKEN,))))

    assert stored["broken"][0].keys() == {"contract", "promise", "grave", "rows", "example", "sequence"}
