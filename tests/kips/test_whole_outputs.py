"""All that is shown of a quorum, in whole: fields of `--json`, tables and metrics of six situations, log directories.

`make goldens` rewrites the goldens: read each difference.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rules.evaluate import RULES, thresholds_for
from rules.model.history import ControllerStart, Election, NodeKind, VoterChange
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, TopicId
from rules.model.monitoring import Answer, CertificateFault, Invariant
from rules.model.quorum import OBSERVER_SESSION_MS, Quorum
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import status_json
from streaming.status.from_log_dir import replay_log_dir
from streaming.status.recording import recorded_state
from streaming.status.status_tables import log_dir_lines
from tests.unit.connectors.logdir.log_dirs import stopped_quorum
from tests.unit.rules.situation import (
    DAY_MS,
    NOW,
    adding,
    broker_lagging,
    endpoint,
    epoch_jumped,
    evaluation_of,
    flapping,
    forced_change,
    healthy,
    history,
    key,
    leaderless,
    log_regressed,
    name_not_found,
    observer,
    present,
    probed,
    recovering,
    refuses,
    registered,
    registered_elsewhere,
    registered_twice,
    removed_repeatedly,
    restarting,
    static,
    unclean,
    upgraded,
    view,
    voter_not_fetching,
    voters_lagging,
    with_broker,
    with_certificates,
    with_contract_violation,
    with_invariant_violation,
    with_poll,
    with_rows,
    with_views,
)
from tests.unit.streaming.metrics.exposition import MetricsFixture
from tests.unit.streaming.status.statuses import partitions, replication, status
from tests.unit.streaming.status.test_status_fields import in_the_kips_sample
from tests.unit.streaming.status.test_status_tables import printed

GOLDENS = Path(__file__).parent / "goldens"
REWRITE = os.environ.get("KRAFTWATCH_REWRITE_GOLDENS") == "1"


def with_history(quorum: Quorum) -> Quorum:
    """An election of each kind, a change of the voters, a start of a controller; no two numbers are equal."""
    elections = (
        Election(
            leader_id=NodeId(2),
            leader_epoch=Epoch(5),
            offset=Offset(8_001),
            timestamp_ms=Millis(NOW - 600_000),
            voter_ids=(NodeId(1), NodeId(2), NodeId(3)),
            granting_voter_ids=(NodeId(1), NodeId(2)),
        ),
        Election(
            leader_id=NodeId(3),
            leader_epoch=Epoch(7),
            offset=Offset(9_002),
            timestamp_ms=Millis(NOW - 300_000),
            previous_leader_id=NodeId(2),
            previous_epoch=Epoch(5),
            voter_ids=(NodeId(1), NodeId(2), NodeId(3)),
            granting_voter_ids=(NodeId(1), NodeId(3)),
        ),
    )
    change = VoterChange(
        before=(key(1),),
        after=(key(1), key(3)),
        moved=(NodeId(1),),
        offset=Offset(9_003),
        leader_epoch=Epoch(6),
        timestamp_ms=Millis(NOW - 250_000),
    )
    start = ControllerStart(
        id=NodeId(1),
        incarnation_id="new",
        offset=Offset(9_004),
        timestamp_ms=Millis(NOW - 200_000),
        replaced_incarnation_id="old",
    )
    return replace(
        quorum, history=replace(quorum.history, elections=elections, voter_changes=(change,), starts=(start,))
    )


def in_the_middle_of_everything() -> Quorum:
    """Voter 2's disk was replaced, voter 4 is being added, voter 3 moves; partitions of two topics are recovering."""
    quorum = adding(observer(voter_not_fetching(healthy(3), 2, end=9_100, epoch=5), 2, directory="newDirOf2"), 4)
    quorum = observer(quorum, 6, fetched_ago_ms=400, lags=(900,) * 30)
    moved = (endpoint(3, port=19_093), Endpoint(listener="INTERNAL", host="fd00:0:0:0:0:0:0:3", port=40_123))
    nodes = {**present(quorum.poll).nodes, NodeId(3): moved}
    quorum = with_poll(quorum, high_watermark=Offset(9_940), nodes=nodes)
    quorum = replace(quorum, high_watermark=Offset(9_950), leader_epoch=Epoch(8), last_offset=Offset(9_949))
    quorum = with_broker(registered(with_certificates(quorum, days={1: 9.5}), 9), 101, fenced=True)
    quorum = recovering(quorum, 0, 3, replicas=(101, 102, 103), for_ms=61_000)
    quorum = recovering(
        quorum, 7, topic=None, topic_id=TopicId("b3RoZXItdG9waWMtaWQhIQ"), leader=None, at_least=True, previous_isr=None
    )
    return forced_change(unclean(with_history(quorum), 0, 3), before=(1, 4), after=(1, 2, 3))


def of_five() -> Quorum:
    """Voter 1 does not fetch, voter 2 lags, the name of 3 is lost and 4 has moved; 5 leads."""
    quorum = registered_elsewhere(name_not_found(voters_lagging(voter_not_fetching(healthy(5), 1), 2), 3), 4)
    quorum = with_rows(quorum, 4, log_end_offset=None, last_fetch_ms=None, last_caught_up_ms=None)
    histories = {**quorum.histories, key(4): history(key(4), end=9_700, epoch=6)}
    return replace(quorum, histories=histories)


SITUATIONS = {
    "the-sample-of-kip-595": in_the_kips_sample(),
    "in-the-middle-of-everything": in_the_middle_of_everything(),
    "of-five-voters": of_five(),
    "leaderless": leaderless(refuses(healthy(3), 1, 3), 2),
    "static": static(healthy(3)),
    "not-observed": Quorum(cluster="prod", cluster_id=None, now_ms=Millis(0)),
}


def leaves(value: Any, name: str = "") -> Iterator[str]:
    """Yields a line for each value of JSON: `replicas.0.lag = 0`."""
    if isinstance(value, dict) and value:
        for each, inner in value.items():
            yield from leaves(inner, f"{name}.{each}" if name else each)
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{name}.{number}")
    else:
        yield f"{name} = {value!r}"


def compare_with(golden: str, lines: Iterable[str]) -> None:
    """Asserts that the golden has these lines; writes them before if goldens are rewritten."""
    path, text = GOLDENS / f"{golden}.txt", "".join(f"{line.rstrip()}\n" for line in lines)
    if REWRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("situation", SITUATIONS)
def test_fields_of_status_and_replication_and_partitions(situation: str) -> None:
    quorum = SITUATIONS[situation]
    shown = status(quorum)
    compare_with(f"{situation}.fields", leaves(shown))
    for of_part in (replication(quorum), partitions(quorum)):
        assert {name: shown[name] for name in of_part if name in shown} == {
            name: value for name, value in of_part.items() if name in shown
        }, "the same values as in the whole status"
    head = ["cluster", "cluster_id", "source", "age_ms", "observed_at", "missing"]
    assert [*replication(quorum)] == [*head, "leader_id", "leader_epoch", "described_at", "replicas"]
    assert [*partitions(quorum)] == [*head, "recovering"]


@pytest.mark.parametrize("situation", SITUATIONS)
def test_tables_of_status_and_replication_and_partitions(situation: str) -> None:
    tables = (printed(SITUATIONS[situation], what, width=160) for what in ("status", "replication", "partitions"))
    compare_with(f"{situation}.tables", (line for table in tables for line in table.splitlines()))


def test_tables_of_a_recorded_state() -> None:
    compare_with("recorded.tables", printed(of_five(), width=160, recorded_ago_ms=90_000, live=False).splitlines())


def test_metrics_of_two_clusters(tmp_path: Path) -> None:
    other = replace(of_five(), cluster="other")
    running = MetricsFixture(tmp_path, ("prod", "other")).batch(in_the_middle_of_everything(), other)

    compare_with("metrics", sorted(line for line in running.text().splitlines() if 'cluster="' in line))


def test_metrics_of_clusters_without_a_leader_of_a_static_one_and_of_one_not_observed(tmp_path: Path) -> None:
    names = ("leaderless", "static", "not-observed")
    quorums = (replace(SITUATIONS[name], cluster=name, now_ms=NOW) for name in names)
    running = MetricsFixture(tmp_path, names).batch(*quorums)

    compare_with("metrics-of-others", sorted(line for line in running.text().splitlines() if 'cluster="' in line))


@pytest.mark.parametrize("node", [1, 2, 3, 101])
def test_fields_of_a_log_directory(node: int, tmp_path: Path) -> None:
    """Of three controllers and a broker of a real Kafka; one of them has a snapshot."""
    replayed = replay_log_dir(stopped_quorum(tmp_path) / f"node-{node}")
    shown = cluster_status(recorded_state(replayed, thresholds_for({})))
    assert shown.log_dir is not None
    printed_lines = (f"{name}: {value}" for name, value in log_dir_lines(shown.log_dir))
    lines = [*leaves(status_json(replace(shown, age_ms=Millis(0)))), *printed_lines]

    compare_with(f"log-directory-of-node-{node}", [line.replace(str(tmp_path), "FOLDER") for line in lines])


def test_thresholds_of_all_rules() -> None:
    """And how long Kafka lists an observer that no longer fetches."""
    lines = [
        f"{rule.id}.{one.name} = {one.default:g} {one.unit}: {one.meaning}"
        for rule in RULES.values()
        for one in rule.thresholds
    ]
    compare_with("thresholds", [*lines, f"an observer is listed for {OBSERVER_SESSION_MS} ms"])


def two_of_each_in_the_log() -> Quorum:
    """Two violations, forced changes, jumps, unclean topics and recoveries; two nodes restart, flap or are fenced."""
    quorum = with_invariant_violation(with_invariant_violation(healthy(5), *Invariant), *Invariant, ago_ms=9_000)
    violations = enumerate(quorum.invariant_violations)
    quorum = replace(
        quorum,
        invariant_violations=tuple(replace(one, epoch=Epoch(10 + n), detail=f"detail {n}") for n, one in violations),
    )
    quorum = forced_change(forced_change(quorum, before=(1, 2, 3), after=(3,)), before=(3,), after=(1, 2, 3), ago_ms=9)
    quorum = recovering(recovering(quorum, 0, 3), 1, isr=(102, 101), for_ms=80_000, at_least=True)
    quorum = recovering(quorum, 4, leader=None, for_ms=70_000)
    other = TopicId("cGF5bWVudHMgICAgICAgIA")
    quorum = recovering(quorum, 2, isr=(101, 102), leader=101, topic="payments", topic_id=other)
    quorum = with_broker(with_broker(quorum, 101, fenced=True), 102, fenced=True)
    unclean_once = unclean(unclean(quorum, 0, 3), 2, topic="payments", last_leader=True).history.unclean
    others = flapping(healthy(), 101, 4).history.interruptions, flapping(healthy(), 102, 5).history.interruptions
    jumps = epoch_jumped(healthy(), 20).history.elections, epoch_jumped(healthy(), 30).history.elections
    starts = restarting(healthy(), 2, 3).history.starts, restarting(healthy(), 4, 4).history.starts
    twice = registered_twice(healthy(), 2), registered_twice(healthy(), 102, kind=NodeKind.BROKER)
    first, second = unclean_once
    history = replace(
        quorum.history,
        unclean=(first, replace(second, topic_id=other)),
        interruptions=(*others[0], *others[1]),
        elections=(replace(jumps[0][0], leader_epoch=Epoch(30), offset=Offset(9_000)), *jumps[1]),
        starts=(*starts[0], *starts[1]),
        double_registrations=tuple(one for each in twice for one in each.history.double_registrations),
    )
    removals = removed_repeatedly(removed_repeatedly(quorum, 1, ago_s=(9, 6, 3)), 5, ago_s=(90, 60, 30, 10))
    changes = removed_repeatedly(quorum, 1, ago_s=(9, 6, 3)).history.voter_changes
    forced = quorum.history.voter_changes
    return replace(quorum, history=replace(history, voter_changes=(*forced, *changes, *removals.history.voter_changes)))


def two_of_each_replica() -> Quorum:
    """Of seven voters two have new disks, two lag and lost records; two observers could be voters; two brokers lag."""
    quorum = voter_not_fetching(voter_not_fetching(healthy(7), 1), 2, for_ms=90_000, end=8_000)
    quorum = observer(observer(quorum, 1, directory="newDirOf1"), 2, directory="newDirOf2", lags=(3_000,) * 30)
    quorum = log_regressed(log_regressed(voters_lagging(quorum, 5), 3), 4, end=50, ago_ms=7_000)
    quorum = observer(observer(quorum, 8), 9, lags=[60_000 - 1_000 * n for n in range(30)])
    quorum = registered(registered(quorum, 11), 12)
    return broker_lagging(broker_lagging(quorum, 101, for_ms=40_000), 102, for_ms=50_000, silent=True)


def two_of_each_endpoint() -> Quorum:
    """Of nine voters two lost their names, two moved, two refuse, two have wrong certificates; two views differ."""
    quorum = with_certificates(
        healthy(9), {7: CertificateFault.EXPIRED, 8: CertificateFault.WRONG_HOST}, days={1: 2, 2: 9}
    )
    quorum = refuses(registered_elsewhere(name_not_found(quorum, 1, 2, 4), 3, 4, port=19_093), 5, 6)
    quorum = probed(quorum, 9, answer=Answer.OTHER_NODE, answered_by=0)
    quorum = with_views(quorum, view(1, leader=2, epoch=5), view(2, leader=None, epoch=9), view(3, leader=4))
    quorum = upgraded(quorum, 30, 1, 101, ago_ms=9 * DAY_MS)
    quorum = with_contract_violation(quorum, "every-record-decodes", rows=3)
    return with_contract_violation(quorum, "secrets-are-blanked", grave=True)


@pytest.mark.parametrize("twice", [two_of_each_in_the_log, two_of_each_replica, two_of_each_endpoint])
def test_findings_with_evidence_and_remedy(twice: Callable[[], Quorum]) -> None:
    evaluation = evaluation_of(twice())
    found = [
        {
            "finding": f"{one.severity} {one.rule} {one.subject}",
            "summary": one.summary,
            "evidence": one.evidence,
            "remedy": list(one.remedy),
        }
        for one in evaluation.findings
    ]
    unknown = [f"unknown {one.rule} {one.subject}: {one.why}" for one in evaluation.unknown]
    compare_with(twice.__name__.replace("_", "-"), [*leaves(found), *unknown])
