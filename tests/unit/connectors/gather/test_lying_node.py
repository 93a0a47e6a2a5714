"""One gatherer, a healthy cluster and clusters that lie: the healthy one is observed, and memory stays bounded."""

import re
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path

import pytest

from connectors.gather.gatherer_stats import stalled_loop_s
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.observations.observation import Observation, ObservationKind, from_json
from connectors.store.journal_reader import JournalReader
from rules.evaluate import evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.model.identifiers import Millis
from rules.model.monitoring import FailedObservation, ObservationSource, Reason
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import decode_observation
from streaming.replay.machine import Machine
from tests.eventually import eventually
from tests.farm.farm import address
from tests.farm.farm_answers import LEADER
from tests.farm.farm_process import running_farm
from tests.farm.lies import LARGEST, LIES, MEBIBYTE
from tests.kafka.gatherer_run import run_gatherer

POLLS = 10
REASONS = {"drip": Reason.TIMED_OUT}


def peak_bytes(pid: int) -> int:
    """The largest resident memory of a process so far."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


class Gathered:
    """The rows of a running gatherer, by cluster."""

    def __init__(self, journal: JournalReader) -> None:
        self._reader = journal
        self._next = 0
        self.rows: defaultdict[str, list[Observation]] = defaultdict(list)

    def update(self) -> None:
        end = self._reader.published_end()
        for row in self._reader.read(self._next, end):
            if row.kind is ObservationKind.RECORDS:
                continue  # 8 MiB each, for one of the clusters
            self.rows[row.cluster].append(row)
        self._next = end

    def polls(self, cluster: str) -> int:
        return sum(row.kind is ObservationKind.QUORUM for row in self.rows[cluster])

    def failures(self, cluster: str) -> Counter[tuple[ObservationSource, Reason]]:
        events = [from_json(row.payload) for row in self.rows[cluster] if row.kind is ObservationKind.FAILED]
        return Counter((event.source, event.reason) for event in events if isinstance(event, FailedObservation))


@pytest.mark.timeout(600)
def test_healthy_cluster_is_observed_while_others_lie(tmp_path: Path) -> None:
    names = ("healthy", LARGEST, *LIES)
    with ExitStack() as stack:
        farm = stack.enter_context(running_farm(len(names), LARGEST, *LIES))
        places = {name: ((address(number, LEADER), farm.port),) for number, name in enumerate(names)}
        clusters = (ClusterConnection(name=name, bootstrap=place) for name, place in places.items())
        gatherer = stack.enter_context(run_gatherer(tmp_path, *clusters))
        pid, gathered = gatherer.process.pid, Gathered(gatherer.journal)
        idle_bytes = peak_bytes(pid)

        def every_lie_is_reported() -> None:
            gathered.update()
            for lie in LIES:
                reason = REASONS.get(lie, Reason.INVALID_RESPONSE)
                for source in (ObservationSource.QUORUM, ObservationSource.LOG):
                    assert gathered.failures(lie)[source, reason] >= POLLS, (lie, gathered.failures(lie))
            assert gathered.polls(LARGEST) >= POLLS

        eventually(every_lie_is_reported, within_s=60)
        before = gathered.polls("healthy")

        def healthy_cluster_is_polled_on() -> None:
            gathered.update()
            assert gathered.polls("healthy") >= before + POLLS

        eventually(healthy_cluster_is_polled_on, within_s=30)
        # Its quiet rows are published up to two seconds later than failures.
        assert before >= POLLS - 2, "it is polled while the others lie"
        # The clusters of the farm share one process: on a busy machine the healthy leader's answer may come late, and
        # its followers then name a leader that does not answer.
        assert {reason for _, reason in gathered.failures("healthy")} <= {Reason.TIMED_OUT, Reason.NO_LEADER}
        assert (stalled_loop_s(gatherer.stats_file, pid=pid) or 0) < 5
        assert peak_bytes(pid) - idle_bytes < 300 * MEBIBYTE
    for lie in LIES:
        assert monitor_blind(lie, gathered.rows[lie]) == ["critical"], (lie, gathered.rows[lie][-9:])


def monitor_blind(cluster: str, rows: list[Observation]) -> list[str]:
    """The severities of monitor-blind after these rows."""
    machine = Machine(ClusterSettings(name=cluster))
    for row in rows:
        machine.apply(
            decode_observation(row).events(), sequence=row.sequence, observed_at_ms=Millis(row.observed_at_ms)
        )
    found = evaluate(Facts(machine.quorum()), thresholds_for({})).findings
    return [finding.severity.value for finding in found if finding.rule == "monitor-blind"]
