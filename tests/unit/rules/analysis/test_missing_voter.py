"""Whether the process of a voter runs, by the newest probe of its recorded endpoint and by failed observations."""

import pytest

from rules.analysis.missing_voter import VoterProcess, voter_process
from rules.model.identifiers import NodeId
from rules.model.monitoring import Answer, Connection, ObservationSource, Reason
from rules.model.quorum import Quorum
from tests.unit.rules.situation import endpoint, failing, healthy, name_not_found, probed, refuses, static


@pytest.mark.parametrize(
    ("quorum", "process"),
    [
        (healthy(), VoterProcess.RUNNING),
        (refuses(healthy(), 1), VoterProcess.DOWN),
        (probed(healthy(), 1, answer=Answer.NO_ANSWER), VoterProcess.HUNG),
        (probed(healthy(), 1, answer=Answer.NOT_ALLOWED), VoterProcess.UNKNOWN),
        (probed(healthy(), 1, answered_by=2), VoterProcess.UNKNOWN),
        (probed(healthy(), 1, connection=Connection.TIMED_OUT, answer=Answer.NOT_ASKED), VoterProcess.NOT_REACHED),
        (name_not_found(healthy(), 1), VoterProcess.UNKNOWN),
        (static(healthy()), VoterProcess.UNKNOWN),
        (probed(healthy(), 1, ago_ms=30_000), VoterProcess.RUNNING),
        (probed(healthy(), 1, ago_ms=30_001), VoterProcess.UNKNOWN),
    ],
)
def test_process_by_the_newest_probe_of_the_recorded_endpoint(quorum: Quorum, process: VoterProcess) -> None:
    assert voter_process(quorum, NodeId(1)) is process


@pytest.mark.parametrize(
    ("node", "reason", "source", "ago_ms", "process"),
    [
        (1, Reason.TIMED_OUT, ObservationSource.LOG, 30_000, VoterProcess.HUNG),
        (1, Reason.TIMED_OUT, ObservationSource.LEADER_VIEW, 0, VoterProcess.HUNG),
        (1, Reason.TIMED_OUT, ObservationSource.LOG, 30_001, VoterProcess.RUNNING),
        (1, Reason.TIMED_OUT, ObservationSource.PROBE, 0, VoterProcess.RUNNING),
        (1, Reason.NO_LEADER, ObservationSource.LOG, 0, VoterProcess.RUNNING),
        (2, Reason.TIMED_OUT, ObservationSource.LOG, 0, VoterProcess.RUNNING),
    ],
)
def test_voter_that_accepts_connections_and_times_out_hangs(
    node: int, reason: Reason, source: ObservationSource, ago_ms: int, process: VoterProcess
) -> None:
    quorum = failing(healthy(), reason, str(endpoint(node)), source=source, ago_ms=ago_ms)

    assert voter_process(quorum, NodeId(1)) is process
