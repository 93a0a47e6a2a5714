"""The state, journal, ledger and other files of a checkpoint of commit fae3086 are opened and continued."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.decode_observation import decode_observation
from connectors.delivery.ledger import Ledger
from connectors.delivery.silence_store import SilenceFile
from connectors.gather.endpoint_cache import EndpointCache
from connectors.gather.node_directory import NodeDirectory, ProbeTarget
from connectors.journal.reader import JournalReader
from connectors.journal.writer import JournalWriter
from connectors.observation import ObservationKind
from rules.alert import Alert
from rules.model.identifiers import Endpoint, Millis, NodeId
from rules.model.quorum import Quorum
from streaming.data_quality.quarantine_report import quarantined_items
from streaming.pipeline.checkpoint import Checkpoint
from streaming.replay.cluster_monitor import ClusterMonitor
from tests.unit.streaming.replay.stored_checkpoint import (
    CLUSTER_IDS,
    FIRST_MS,
    JSONL,
    SLACK,
    WEBHOOK,
    AlertFacts,
    expected,
    facts,
    monitor,
    observations,
    restored,
    rows,
    unpacked,
)

LATER_RULES = {"voter-log-regressed", "monitor-blind controller 1"}
"""Rules, or subjects, that the version that wrote the state did not have; a voter's log goes back in its polls."""

WORSE_NOW = {"broker-fenced", "unclean-election"}
"""Rules whose findings here have a higher severity than in the version that wrote the state."""

UNKNOWN_NOW = {"stale-voter-endpoint"}
"""Rules whose results are unknown here after a while: voter 3 has no name and does not fetch."""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return unpacked(tmp_path)


def without_prose(quorum: Quorum) -> Quorum:
    """The quorum without the sentences that replay writes into it: a later version words them differently.

    Also without regressions of logs, votes of elections, who led last, interruptions of brokers and nodes of failures,
    which that version did not store.
    """
    elections = (
        replace(one, voter_ids=(), granting_voter_ids=(), previous_epoch=None, after_ms=None)
        for one in quorum.history.elections
    )
    unclean = (replace(one, most_replicas=0) for one in quorum.history.unclean)
    return replace(
        quorum,
        history=replace(quorum.history, elections=tuple(elections), unclean=tuple(unclean), interruptions=()),
        histories={name: replace(one, log_regression=None) for name, one in quorum.histories.items()},
        failures=tuple(replace(one, detail="", node=None) for one in quorum.failures),
        invariant_violations=tuple(replace(one, detail="") for one in quorum.invariant_violations),
        contract_violations=tuple(replace(one, promise="", example="") for one in quorum.contract_violations),
    )


@pytest.mark.parametrize("cluster", CLUSTER_IDS)
def test_stored_state_equals_a_replay_of_the_journal(checkpoint: Checkpoint, cluster: str) -> None:
    cut = expected(checkpoint)["cut"]
    before = rows(observations(checkpoint)[:cut], cluster)
    replayed, found = monitor(cluster, None), restored(checkpoint, cluster)
    replayed.observe(before)

    assert found.machine.sequence == replayed.machine.sequence == before[-1].sequence
    assert without_prose(found.machine.quorum()) == without_prose(replayed.machine.quorum())
    assert found.machine.undecodable == replayed.machine.undecodable
    assert conditions(found) == conditions(replayed)


def conditions(one_monitor: ClusterMonitor) -> dict[str, object]:
    """Each tracked condition without its summary and evidence, which a later version words differently."""
    return {
        key: replace(
            one,
            summary="",
            evidence={},
            notified_severity=None if one.rule in WORSE_NOW else one.notified_severity,
            last_seen_at_ms=Millis(0) if one.rule in UNKNOWN_NOW else one.last_seen_at_ms,
        )
        for key, one in one_monitor.tracked.conditions.items()
        if not {one.rule, key} & LATER_RULES
    }


def test_stored_state_holds_every_part(checkpoint: Checkpoint) -> None:
    """The fixture has no gap: an unfinished snapshot, an open transaction, and so on are really in it."""
    prod, staging = restored(checkpoint, "prod"), restored(checkpoint, "staging")
    quorum = prod.machine.quorum()

    assert prod.machine.loading is not None
    assert quorum.open_transaction is not None and quorum.open_transaction.records == 4
    assert [one.reason.value for one in quorum.failures] == ["resolver-failed", "timed-out"]
    assert {view.leader_epoch for view in quorum.leader_views.values()} == {5}
    assert [one.invariant.value for one in quorum.invariant_violations] == ["two-leaders"]
    assert {one.contract for one in quorum.contract_violations} == {"every-record-decodes", "no-secret-in-the-journal"}
    assert [str(one.key.id) for one in quorum.removals] == ["4"]
    assert [(one.topic, one.elections) for one in quorum.history.unclean] == [("orders", 2)]
    assert len(quorum.history.elected_recovered) == len(quorum.history.voter_changes) == 1
    assert {(one.topic, one.partition) for one in quorum.recovering} == {("orders", 0), ("payments", 1)}
    assert quorum.addresses["c3.kafka.example"] == ("10.0.0.3",)
    severities = [one.notified_severity for one in prod.tracked.conditions.values()]
    assert (severities.count(None), len(severities)) == (8, 21)
    assert sum(one.clearing_since_ms is not None for one in prod.tracked.conditions.values()) == 2
    assert sum(one.milder_since_ms is not None for one in prod.tracked.conditions.values()) == 1

    other = staging.machine.quorum()
    assert staging.machine.behind_since_ms is not None
    assert (other.leader_id, other.metadata_version) == (None, None)
    assert len(other.history.reconfigurations) == 1
    assert "metadata-lost" in {one.reason.value for one in other.failures}


def test_alerts_continue_and_none_fires_again(checkpoint: Checkpoint) -> None:
    """All rows are delivered again, and those after the cut for the first time."""
    stored = observations(checkpoint)
    found: list[Alert] = []
    for cluster in CLUSTER_IDS:
        restarted = restored(checkpoint, cluster)
        found += restarted.observe(rows(stored, cluster))
        assert monitor(cluster, restarted.to_bytes()).observe(rows(stored, cluster)) == ()

    order, after = ([*map(list, alerts)] for alerts in (map(facts, found), expected(checkpoint)["after"]))
    worse = [one for one in order if one not in after]
    assert sorted((one for one in order if one in after), key=str) == sorted(after, key=str)
    assert [(one[1], one[2], one[3], one[4]) for one in worse] == [
        ("broker-fenced", "broker 102", "critical", "firing"),
        ("unclean-election", "topic orders", "critical", "firing"),
        ("broker-fenced", "broker 102", "warning", "firing"),
    ], "sent again once with the higher severity of this version, and when it is lower again"


def test_state_written_again_is_the_same_state(checkpoint: Checkpoint) -> None:
    for cluster in CLUSTER_IDS:
        once = restored(checkpoint, cluster)
        twice = monitor(cluster, once.to_bytes())

        assert twice.machine.quorum() == once.machine.quorum()
        assert twice.tracked == once.tracked
        assert twice.to_bytes() == once.to_bytes()


def test_journal_is_read_and_continued(checkpoint: Checkpoint) -> None:
    stored, cut = observations(checkpoint), expected(checkpoint)["cut"]
    journal = JournalReader(checkpoint.journal)
    decoded = {event.type for row in stored for event in decode_observation(row).events()}

    assert {row.kind for row in stored} == set(ObservationKind)
    assert (journal.committed_end(), journal.published_end(), journal.first_sequence()) == (cut, len(stored), 0)
    assert decoded == {
        *("audited", "broker-changed", "broker-registered", "broker-unregistered", "controller-registered"),
        *("elr-cleared", "endpoint-probed", "feature-level-set", "kraft-version-set", "leader-changed", "log-advanced"),
        *("partition-changed", "partition-set", "quorum-polled", "snapshot-began", "snapshot-ended", "topic-created"),
        *("topic-removed", "transaction-began", "undecodable", "unseen", "view-seen", "voters-set"),
    }
    with JournalWriter(checkpoint.journal) as writer:
        follow = writer.follow_position("prod")
        assert follow is not None and (follow.next_offset, follow.last_epoch) == (928, 6)
        writer.append([replace(stored[-1], sequence=-1)])
        assert writer.publish() == len(stored) + 1


def test_ledger_continues(checkpoint: Checkpoint) -> None:
    ledger = Ledger(checkpoint.ledger)
    pending: dict[str, list[AlertFacts]] = expected(checkpoint)["pending"]

    assert {sink: [facts(alert) for alert in ledger.pending(sink)] for sink in pending} == pending
    assert [len(pending[sink]) for sink in (SLACK, JSONL, WEBHOOK)] == [4, 3, 21]
    assert [facts(alert) for alert in ledger.history()] == expected(checkpoint)["before"]
    assert ledger.record(ledger.history(), Millis(FIRST_MS + 82_000)) == ()
    ledger.close()


def test_silences_are_in_force(checkpoint: Checkpoint) -> None:
    silences = SilenceFile(checkpoint.silences).current()

    assert [(one.id, one.active(Millis(FIRST_MS + 60_000))) for one in silences] == [("s-1", True), ("s-2", False)]
    assert (silences[0].cluster, silences[0].rule, silences[0].author) == ("prod", "voter-lagging", "ada")


def test_gatherer_knows_the_endpoints(checkpoint: Checkpoint) -> None:
    cached = EndpointCache(checkpoint.journal).of("prod")
    directory = NodeDirectory(configured=(), cluster_id=None, known_endpoints=cached)
    endpoint = Endpoint(listener="CONTROLLER", host="c3.kafka.example", port=9093)

    assert ProbeTarget(node=NodeId(3), endpoint=endpoint) in directory.probe_targets()
    assert len(directory.probe_targets()) == 3
    assert {*cached.voters} == {1, 2, 3}
    assert {*cached.registered} == {1, 2, 3, 4}


def test_other_files_are_read(checkpoint: Checkpoint) -> None:
    (undecodable,) = quarantined_items(checkpoint.quarantine)
    stats = json.loads((checkpoint.logs / "gather-stats.json").read_text())

    assert checkpoint.cluster_ids() == CLUSTER_IDS
    assert (undecodable.cluster, undecodable.id) == ("prod", "prod-68-0")
    assert "99" in undecodable.reason
    assert stats["clusters"]["prod"]["unseen"]["view"] == {"timed-out": 2}
