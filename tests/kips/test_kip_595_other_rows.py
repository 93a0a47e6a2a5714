"""KIP-595: the partition that is read, two errors of the text, and a slow disk."""

from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchResponse

from connectors.errors import ObservationError
from connectors.kafka.error_classification import error_from_code
from connectors.kafka.messages import parse_fetch
from connectors.observations.observation import ObservationFailed
from rules.evaluate import evaluate, thresholds_for
from rules.model.monitoring import Answer, ObservationSource
from tests.unit.rules.situation import findings, healthy, probed
from tests.unit.streaming.replay.log_script import LogScript, apply, machine

TOPICS = FetchResponse.FetchableTopicResponse
PARTITION = TOPICS.PartitionData


def response_with(*topics: tuple[UUID, list[tuple[int, int]]]) -> Any:
    """Returns a response with these topics, their partitions and high watermarks."""
    responses = [
        TOPICS(
            topic="",
            topic_id=topic,
            partitions=[
                PARTITION(partition_index=index, error_code=0, high_watermark=high_watermark, records=b"")
                for index, high_watermark in partitions
            ],
        )
        for topic, partitions in topics
    ]
    whole = FetchResponse(throttle_time_ms=0, error_code=0, responses=responses)
    return FetchResponse.decode(whole.encode(version=17), version=17)


@pytest.mark.kip("D004", "D006")
def test_the_metadata_partition_is_selected_from_several_partitions() -> None:
    metadata, other = UUID(int=1), UUID(int=7)

    assert parse_fetch(response_with((metadata, [(1, 11), (0, 10)]))).high_watermark == 10
    assert parse_fetch(response_with((other, [(0, 99)]), (metadata, [(0, 10)]))).high_watermark == 10
    for foreign in (response_with((other, [(0, 99)])), response_with((metadata, [(1, 11)])), response_with()):
        with pytest.raises(ObservationError, match="does not contain the partition"):
            parse_fetch(foreign)


@pytest.mark.kip("D040")
def test_an_inconsistent_voter_set_is_a_reason_of_monitor_blind() -> None:
    problem = error_from_code(94, "Fetch")
    assert problem.detail == "Fetch: error 94 (InconsistentVoterSetError)"
    script, replay = LogScript(), machine()
    observation_failed = ObservationFailed(
        source=ObservationSource.LOG, endpoint="c1:9093", reason=problem.reason, detail=problem.detail
    )

    quorum = apply(replay, [script.row(observation_failed) for _ in range(60)])

    (finding,) = (one for one in evaluate(quorum, thresholds_for({})).findings if one.rule == "monitor-blind")
    assert "InconsistentVoterSetError" in str(finding.evidence)


@pytest.mark.kip("D028")
@pytest.mark.parametrize(
    ("found", "flaw"),
    [(Answer.OTHER_CLUSTER, "another cluster"), (Answer.OTHER_NODE, "is served by another process: node 2")],
)
def test_a_voters_endpoint_answered_by_another_cluster_or_node_fires(found: Answer, flaw: str) -> None:
    """Such a node stops by itself or never joins: it is not the voter."""
    (finding,) = findings(probed(healthy(), 1, answer=found, answered_by=2), "stale-voter-endpoint")

    assert finding.subject == "voter 1"
    assert flaw in f"{finding.summary} {finding.evidence}"
    (by_zero,) = findings(probed(healthy(), 1, answer=Answer.OTHER_NODE, answered_by=0), "stale-voter-endpoint")
    assert "is served by another process: node 0. " in by_zero.summary, "0 is a node id"
    (by_its_id,) = findings(probed(healthy(), 2, answered_by=1), "stale-voter-endpoint")
    assert "is served by another process: node 1" in by_its_id.summary
