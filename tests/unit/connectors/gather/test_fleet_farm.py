"""The farm of the fleet benchmark: the real gatherer takes its clusters for Kafka's, and one that hangs delays none."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from connectors.cluster_connection import ClusterConnection
from connectors.event import Event, from_json
from connectors.gather.gatherer_settings import GathererSettings, to_line
from connectors.journal.reader import JournalReader
from connectors.metadata.batches import RecordBatch, scan
from connectors.observation import Observation, ObservationKind
from connectors.observation_event import EndpointProbed, LeaderViewPolled, ObservationFailed, QuorumPolled
from rules.model.monitoring import Answer, ObservationSource, Reason
from tests.bench.fleet_answers import NODES, first_leader
from tests.bench.fleet_farm import address
from tests.eventually import eventually

HANGS, FLAPS, LIES, HEALTHY = range(4)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JournalReader]:
    folder = tmp_path_factory.mktemp("farm")
    farm_command = [sys.executable, "-m", "tests.bench.fleet_farm", "--clusters", "4"]
    gather_command = [sys.executable, "-m", "connectors.gather"]
    with (
        subprocess.Popen(farm_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as farm,
        subprocess.Popen(gather_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as gatherer,
    ):
        assert farm.stdin is not None
        assert farm.stdout is not None
        assert gatherer.stdin is not None
        port = json.loads(farm.stdout.readline())["port"]
        farm.stdin.write(f"hang {HANGS}\nflap {FLAPS}\nlie {LIES}\n".encode())
        farm.stdin.flush()
        clusters = tuple(
            ClusterConnection(name=str(number), bootstrap=tuple((address(number, node), port) for node in NODES))
            for number in range(4)
        )
        gatherer.stdin.write(to_line(GathererSettings(clusters=clusters, journal=str(folder / "journal"))))
        gatherer.stdin.flush()
        yield JournalReader(folder / "journal")
        gatherer.stdin.close()
        farm.stdin.close()


def rows(journal: JournalReader, cluster: int, *kinds: ObservationKind) -> list[Observation]:
    if not journal.created:
        return []
    published = journal.read(journal.first_sequence(), journal.published_end())
    return [row for row in published if row.cluster == str(cluster) and row.kind in kinds]


def events(journal: JournalReader, cluster: int) -> list[Event]:
    kinds = (ObservationKind.QUORUM, ObservationKind.PROBE, ObservationKind.VIEW, ObservationKind.FAILED)
    return [from_json(row.payload) for row in rows(journal, cluster, *kinds)]


def test_healthy_cluster_is_observed_in_every_way(journal: JournalReader) -> None:
    def observed() -> None:
        found = events(journal, HEALTHY)
        polls = [event for event in found if isinstance(event, QuorumPolled)]
        assert len(polls) >= 3
        assert [voter.key.id for voter in polls[-1].voters] == list(NODES)
        assert polls[-1].high_watermark is not None
        assert polls[0].high_watermark is not None
        assert polls[-1].high_watermark > polls[0].high_watermark
        probed = [event for event in found if isinstance(event, EndpointProbed)]
        assert {event.answer for event in probed} == {Answer.THIS_CLUSTER}
        views = [event for event in found if isinstance(event, LeaderViewPolled)]
        assert {event.leader_id for event in views} == {first_leader()[0]}
        # The first poll may wait for connections, and the first address need not be the leader's.
        failures = [at for at, event in enumerate(found) if isinstance(event, ObservationFailed)]
        assert max(failures, default=0) < found.index(polls[2])
        batches = [one for row in rows(journal, HEALTHY, ObservationKind.RECORDS) for one in scan(row.payload)]
        assert all(isinstance(one, RecordBatch) for one in batches)
        assert len(batches) >= 6

    eventually(observed, within_s=30)


def test_each_fault_is_observed_as_such(journal: JournalReader) -> None:
    def observed() -> None:
        hangs = [event for event in events(journal, HANGS) if isinstance(event, ObservationFailed)]
        assert {event.reason for event in hangs if event.source is ObservationSource.QUORUM} == {Reason.TIMED_OUT}
        lies = [event for event in events(journal, LIES) if isinstance(event, ObservationFailed)]
        assert Reason.INVALID_RESPONSE in {event.reason for event in lies if event.source is ObservationSource.LOG}
        flaps = [event for event in events(journal, FLAPS) if isinstance(event, QuorumPolled)]
        assert len({(event.leader_id, event.leader_epoch) for event in flaps}) >= 2

    eventually(observed, within_s=40)
