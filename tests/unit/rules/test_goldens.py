"""The text of every alert: one rendered alert per file, for every rule and each of its severities.

`KRAFTWATCH_REWRITE_GOLDENS=1 pytest tests/unit/rules/test_goldens.py` (or `make goldens`) rewrites them: read each
difference before you commit it.
"""

import inspect
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.sinks.notification_text import alert_text
from rules.alert import Alert, AlertState
from rules.evaluate import ALL_RULES, JOB_RULES, RULES, evaluate, evaluate_job, thresholds_for
from rules.finding import Evaluation, JobRule, Rule, Severity
from rules.lifecycle import TrackedConditions, advance
from rules.model.history import NodeKind, ZkMigrationState
from rules.model.identifiers import Millis, SnapshotId
from rules.model.job_state import AuditedContract, AuditState, JobState, RefusedRows, RelayState, SinkState
from rules.model.monitoring import (
    Answer,
    CertificateFault,
    DamagedBatch,
    Invariant,
    ObservationSource,
    Reason,
    Vantage,
)
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    DAY_MS,
    NOW,
    adding,
    all_refuse,
    broker_lagging,
    configured_voters,
    elected,
    endpoint,
    epoch_jumped,
    failing,
    failing_again,
    flapping,
    forced_change,
    foreign,
    formatted_again,
    healthy,
    in_transaction,
    key,
    leader_log,
    leaderless,
    leaders_clock,
    log_damaged,
    log_regressed,
    made_dynamic,
    migrating,
    name_not_found,
    not_observed_for,
    observer,
    offline,
    offline_directory,
    probed,
    reassigned,
    recovering,
    refuses,
    registered,
    registered_elsewhere,
    registered_twice,
    removed,
    removed_repeatedly,
    resolver_fails,
    restarting,
    second_quorum,
    shut_down,
    shutting_down,
    silent,
    snapshots,
    stalled,
    static,
    unclean,
    unknown_records,
    unregistered,
    upgraded,
    view,
    voter_not_fetching,
    voters_lagging,
    with_broker,
    with_certificates,
    with_contract_violation,
    with_invariant_violation,
    with_log_dirs,
    with_protocols,
    with_views,
    without_brokers,
    without_metadata_version,
)
from tests.unit.rules.test_voter_without_controller import without_controller

GOLDENS = Path(__file__).parent / "goldens"
REWRITE = os.environ.get("KRAFTWATCH_REWRITE_GOLDENS") == "1"
ALL = [str(endpoint(node)) for node in (1, 2, 3)]
REPLACED_DISK = observer(voter_not_fetching(healthy(), 2), 2, directory="newDirOf2")
FENCED_BROKER = with_broker(healthy(), 101, fenced=True)

ONE_DIRECTORY = with_log_dirs(healthy(), 101, "dirA")
KAFKA_4_4 = upgraded(healthy(), 33)
"""The level is still 27."""

SILENT_RELAY = RelayState(
    cluster="prod",
    topic="kraftwatch",
    newest_row_ms=Millis(NOW - 90_000),
    read_to_end_ms=Millis(NOW - 1_000),
    has_sent=True,
)
REFUSED_ROWS = RefusedRows(
    cluster="prod",
    part="time",
    reason="observed an hour after they were appended",
    topic_partition="kraftwatch-0",
    offset=4711,
    appended_at_ms=Millis(NOW - 120_000),
    newest_ms=Millis(NOW - 2_000),
)
AUDITED = AuditedContract(
    name="offsets-ascend",
    suite="observations",
    grave=True,
    rows=2,
    checked_rows=5_000,
    clusters=("prod",),
    example="row 12, base_offset_of_log 4, next_offset 9",
)
UNBLANKED = replace(
    AUDITED, name="secrets-are-blanked", rows=1, example="row 7, payload_digest 9d1c0a77, blanked_digest 51ab03fe"
)
EARLY_CLOCK = replace(AUDITED, name="record-time-plausible", suite="events", grave=False, example=None)
FAILING_SINK = SinkState(name="slack", failing="HTTP 503: service unavailable", pending=3)
CASES: dict[str, tuple[str, Quorum]] = {
    "stale-voter-endpoint.critical.names-gone": ("voter 2", name_not_found(healthy(), 1, 2, 3)),
    "stale-voter-endpoint.critical.static": ("voter 2", static(name_not_found(healthy(), 1, 2, 3))),
    "stale-voter-endpoint.warning.name-gone": ("voter 1", name_not_found(healthy(), 1)),
    "stale-voter-endpoint.warning.registration-differs": ("voter 1", registered_elsewhere(healthy(), 1)),
    "stale-voter-endpoint.warning.refused-while-fetching": ("voter 1", refuses(healthy(), 1)),
    "stale-voter-endpoint.warning.not-serving": ("voter 3", probed(healthy(), 3, answer=Answer.NO_ANSWER)),
    "certificate-expiring.warning": ("certificates", with_certificates(healthy(), days={1: 9.5, 2: 12.0})),
    "certificate-expiring.critical": ("certificates", with_certificates(healthy(), days={1: 0.5})),
    "stale-voter-endpoint.warning.certificate": (
        "voter 1",
        with_certificates(healthy(), {1: CertificateFault.EXPIRED}),
    ),
    "stale-voter-endpoint.warning.untrusted": (
        "voter 1",
        voter_not_fetching(with_certificates(healthy(), {1: CertificateFault.UNTRUSTED}), 1),
    ),
    "monitor-blind.critical.rejected": (
        "quorum",
        failing(not_observed_for(healthy()), Reason.NOT_AUTHENTICATED, *(str(endpoint(node)) for node in (1, 2, 3))),
    ),
    "no-leader.critical.certificate": (
        "quorum",
        leaderless(with_certificates(refuses(healthy(), 3), {1: CertificateFault.EXPIRED}), 2),
    ),
    "stale-voter-endpoint.warning.leads-elsewhere": ("voter 1", probed(healthy(), 1, answer=Answer.OTHER_CLUSTER)),
    "stale-voter-endpoint.warning.from-outside": (
        "voter 3",
        replace(name_not_found(healthy(), 1, 2, 3), vantage=Vantage.OUTSIDE),
    ),
    "observer-could-be-voter.info": ("observer 4-dirOf4AAAAAAAAAAAAAAAA", observer(healthy(), 4)),
    "observer-could-be-voter.info.lagging": (
        "observer 4-dirOf4AAAAAAAAAAAAAAAA",
        observer(healthy(), 4, lags=[60_000 + 1_000 * n for n in range(30)]),
    ),
    "observer-could-be-voter.warning": (
        "observer 4-dirOf4AAAAAAAAAAAAAAAA",
        observer(observer(healthy(), 4), 5),
    ),
    "voter-disk-replaced.warning": ("controller 2", REPLACED_DISK),
    "voter-disk-replaced.warning.half-done": ("controller 2", removed(REPLACED_DISK, 2, ago_ms=4_000)),
    "node-records-conflict.warning": (f"directory {key(2).directory_id}", observer(healthy(), 4, directory="dirOf2")),
    "node-records-conflict.warning.protocol": ("voter 1", with_protocols(healthy(), "SSL", "PLAINTEXT", "PLAINTEXT")),
    "voter-log-regressed.critical": ("voter 2", log_regressed(healthy(), 2)),
    "voter-log-regressed.warning": ("voter 2", log_regressed(healthy(), 2, end=10_000, ago_ms=720_000)),
    "partition-stuck-recovering.critical": ("topic orders", recovering(healthy(), 0, 3)),
    "partition-stuck-recovering.warning": ("topic orders", recovering(FENCED_BROKER, 0, 3)),
    "partition-stuck-recovering.warning.back": (
        "topic orders",
        recovering(with_broker(healthy(), 101, alive_for_ms=4_000), 0, at_least=True, previous_isr=None),
    ),
    "partition-stuck-recovering.info": ("topic orders", recovering(healthy(), 0, replicas=(102,), previous_isr=None)),
    "partitions-offline.critical": ("broker 101", offline(FENCED_BROKER, key(101))),
    "partitions-offline.critical.directory": ("broker 101", offline(ONE_DIRECTORY, key(101, "dirB"), partitions=33)),
    "partitions-offline.critical.left": (
        "broker 101",
        offline(shut_down(healthy(), 101), key(101), ago_ms=301_000, at_least=True),
    ),
    "partitions-offline.critical.unregistered": ("broker 9", offline(healthy(), key(9), partitions=1)),
    "partitions-offline.critical.no-replica": ("partitions without an eligible replica", offline(healthy())),
    "log-directory-offline.warning": ("broker 101", offline_directory(ONE_DIRECTORY, 101, "dirB")),
    "operation-unfinished.warning": ("partition reassignment", reassigned(healthy(), adding=(101,), ago_ms=86_400_000)),
    "operation-unfinished.warning.down": (
        "partition reassignment",
        reassigned(FENCED_BROKER, adding=(101,), ago_ms=900_000),
    ),
    "operation-unfinished.warning.shutdown": ("broker 101", shutting_down(healthy(), 101, ago_ms=600_000)),
    "operation-unfinished.warning.migration": (
        "migration from ZooKeeper",
        migrating(healthy(), ZkMigrationState.MIGRATION, ago_ms=604_800_000),
    ),
    "node-not-registered.warning": ("node 103", observer(healthy(), 103, registered=False)),
    "no-broker.warning": ("brokers", without_brokers(healthy())),
    "no-broker.critical": ("brokers", unregistered(without_brokers(healthy()), 101)),
    "no-leader.critical": ("quorum", leaderless(refuses(healthy(), 1, 2), 3)),
    "no-leader.critical.all-refuse": ("quorum", all_refuse(refuses(healthy(), 1, 2, 3))),
    "no-leader.critical.no-votes": ("quorum", leaderless(healthy(), 1, 2, 3)),
    "monitor-blind.critical": (
        "quorum",
        failing(failing(not_observed_for(healthy()), Reason.TIMED_OUT, ALL[0]), Reason.UNRESOLVABLE, *ALL[1:]),
    ),
    "monitor-blind.warning": (
        "quorum",
        failing(
            not_observed_for(healthy(), log_ms=None, poll_ms=40_000),
            Reason.DENIED,
            ALL[2],
            source=ObservationSource.QUORUM,
            detail="CLUSTER_AUTHORIZATION_FAILED",
        ),
    ),
    "raft-invariant-broken.critical": ("two-leaders", with_invariant_violation(healthy(), Invariant.TWO_LEADERS)),
    "data-contract-broken.warning": (
        "every-record-decodes",
        with_contract_violation(healthy(), "every-record-decodes", rows=3),
    ),
    "data-contract-broken.critical": (
        "every-row-can-be-applied",
        with_contract_violation(healthy(), "every-row-can-be-applied", grave=True),
    ),
    "unknown-records.info": (
        "records",
        unknown_records(healthy(), ("record type 501 version 0", None), ("record type 502 version 0", None)),
    ),
    "unknown-records.warning": (
        "PartitionRecord",
        unknown_records(healthy(), ("PartitionRecord version 3", "PartitionRecord")),
    ),
    "recovery-invariant-broken.critical": ("topic orders", recovering(healthy(), 0, isr=(102, 101))),
    "committed-metadata-lost.critical.new-quorum": ("metadata log", formatted_again(healthy())),
    "metadata-log-damaged.critical": ("controller 3", log_damaged(healthy(), 3)),
    "metadata-log-damaged.critical.snapshot": (
        "controller 3",
        log_damaged(healthy(), 3, DamagedBatch(snapshot=SnapshotId(end_offset=9_000, epoch=12), position=700)),
    ),
    "committed-metadata-lost.critical": (
        "metadata log",
        failing(healthy(), Reason.METADATA_LOST, ALL[2], detail="the log ends at 9300, and 10000 was committed"),
    ),
    "controller-stuck.critical": ("active controller", silent(healthy())),
    "high-watermark-stalled.critical": ("quorum", stalled(voters_lagging(voter_not_fetching(healthy(5), 1), 2, 3))),
    "high-watermark-stalled.critical.all-fetch": ("quorum", stalled(healthy())),
    "failure-tolerance.warning": ("quorum", voter_not_fetching(healthy(), 2)),
    "failure-tolerance.warning.name-gone": ("quorum", name_not_found(voter_not_fetching(healthy(), 2), 2)),
    "failure-tolerance.warning.five": ("quorum", voters_lagging(voter_not_fetching(healthy(5), 1), 2)),
    "failure-tolerance.warning.again": ("quorum", failing_again(healthy(), 2, 9)),
    "failure-tolerance.critical": ("quorum", voter_not_fetching(voter_not_fetching(healthy(), 1), 2)),
    "voter-change-stuck.warning": ("quorum", adding(voter_not_fetching(healthy(), 2), 4)),
    "voter-change-stuck.warning.all-fetch": ("quorum", adding(healthy(), 4)),
    "voter-change-stuck.warning.repeated": (
        "controller 2",
        observer(removed_repeatedly(healthy(), 2, ago_s=(9, 6, 3, 0)), 2, directory="otherDirOf2"),
    ),
    "forced-reconfiguration.info": ("voter set at offset 9000", forced_change(healthy(), before=(1, 2, 3), after=(3,))),
    "ghost-registration.info": ("controller 9", registered(healthy(), 9)),
    "ghost-registration.info.blocking": ("controller 9", registered(KAFKA_4_4, 9)),
    "ghost-registration.info.blocking-static": ("controller 9", registered(registered(static(KAFKA_4_4), 8), 9)),
    "ghost-registration.info.level-below": ("controller 9", upgraded(registered(healthy(), 9), 33)),
    "ghost-registration.info.level-33": ("controller 9", replace(registered(KAFKA_4_4, 9), metadata_version=33)),
    "quorum-shape.info": ("quorum", healthy(4)),
    "quorum-shape.info.one": ("quorum", static(healthy(1))),
    "quorum-shape.warning.removed": (
        "quorum",
        forced_change(
            forced_change(healthy(1), before=(1, 2, 3), after=(1, 2)), before=(1, 2), after=(1,), ago_ms=30_000
        ),
    ),
    "quorum-shape.warning": ("quorum", healthy(2)),
    "open-transaction.warning": ("metadata log", in_transaction(healthy(), for_ms=61_000)),
    "broker-fenced.critical": ("broker 101", recovering(unclean(FENCED_BROKER, 0, 3), 0, 3)),
    "broker-fenced.warning": ("broker 101", FENCED_BROKER),
    "broker-fenced.info": ("broker 101", shut_down(healthy(), 101)),
    "observer-lagging.warning": ("broker 101", broker_lagging(healthy(), 101)),
    "observer-lagging.warning.silent": ("broker 101", broker_lagging(healthy(), 101, silent=True)),
    "broker-flapping.warning": ("broker 101", flapping(healthy(), 101, 5)),
    "leader-clock-skew.warning": ("controller 3", leaders_clock(healthy(), ahead_ms=3 * 3_600_000)),
    "duplicate-node-id.critical": (
        "node 2",
        registered_twice(observer(healthy(), 2, directory="copyOf2"), 2),
    ),
    "duplicate-node-id.warning": ("node 101", registered_twice(healthy(), 101, kind=NodeKind.BROKER)),
    "node-restarting.warning": ("controller 2", restarting(healthy(), 2, 4)),
    "node-restarting.warning.broker": ("broker 101", flapping(FENCED_BROKER, 101, 6, restarted=True)),
    "epoch-churn.warning.jump": ("epoch 40", epoch_jumped(healthy(), 20)),
    "epoch-churn.warning": ("quorum", elected(healthy(), 1, 2, 1, 2, 3, started=(2,))),
    "version-drift.warning": ("nodes", upgraded(healthy(), 30, 1, 2, 3, 102)),
    "version-drift.warning.gone": ("nodes", registered(with_broker(KAFKA_4_4, 103, fenced=True), 9)),
    "version-drift.warning.missing": ("metadata.version", without_metadata_version(healthy())),
    "version-drift.warning.too-old": ("broker 101", upgraded(healthy(), 25, 101)),
    "version-drift.info": ("metadata.version", upgraded(healthy(), 30, ago_ms=9 * DAY_MS)),
    "version-drift.info.static": ("kraft.version", upgraded(static(healthy()), 27, ago_ms=9 * DAY_MS)),
    "version-drift.info.made-dynamic": ("release upgrade", made_dynamic(healthy(), ago_ms=60_000)),
    "snapshot-stale.warning": ("metadata log", snapshots(healthy(), leader_log(14_400_000, end=800))),
    "snapshot-stale.warning.none": (
        "metadata log",
        snapshots(healthy(), leader_log(None, begins_ago_ms=14_400_000)),
    ),
    "views-disagree.warning": ("controller 1", with_views(healthy(), view(1, leader=2, epoch=5))),
    "views-disagree.warning.no-leader": ("controller 1", with_views(healthy(), view(1, leader=None, epoch=9))),
    "views-disagree.warning.foreign": ("controller 1", with_views(healthy(), foreign(view(1)))),
    "views-disagree.critical.voters": (
        "controller.quorum.voters",
        configured_voters(healthy(), *("1@c1.test:9093,2@c2.test:9093,3@c3.test:9093",) * 2, "3@c3.test:9093"),
    ),
    "views-disagree.critical": ("quorum", with_views(healthy(), view(1, leader=2))),
    "two-quorums.critical": ("quorum", with_views(healthy(), second_quorum(1))),
    "unclean-election.critical": ("topic orders", recovering(unclean(healthy(), 0, 3), 0, 3)),
    "unclean-election.info": ("topic orders", unclean(healthy(), 0, 3, replicas=1, last_leader=True)),
    "unclean-election.warning": ("topic orders", unclean(healthy(), 0, 3, last_leader=True)),
    "voter-without-controller.warning": ("voter 2", with_broker(without_controller(healthy(), 2), 2)),
    "voter-lagging.warning": ("voter 1", voter_not_fetching(healthy(5), 1)),
    "voter-lagging.warning.behind": ("voter 1", voters_lagging(healthy(5), 1)),
    "monitor-blind.warning.names": ("names", resolver_fails(healthy(), 1, 2, 3)),
}
JOB_CASES: dict[str, tuple[str, JobState]] = {
    **{
        f"audit-violations.{case}": (
            f"contract {one.name}",
            JobState(now_ms=NOW, audit=AuditState(at_ms=Millis(NOW - 600_000), broken=(one,))),
        )
        for case, one in {"critical": AUDITED, "critical.secret": UNBLANKED, "warning": EARLY_CLOCK}.items()
    },
    "monitor-degraded.critical": ("relay of prod", JobState(now_ms=NOW, relays=(SILENT_RELAY,))),
    "monitor-degraded.warning": ("rows of prod: time", JobState(now_ms=NOW, refused=(REFUSED_ROWS,))),
    "sink-failing.warning": ("sink slack", JobState(now_ms=NOW, sinks=(FAILING_SINK,))),
}


def alerts(state: Quorum | JobState) -> list[Alert]:
    """Returns the alerts that fire if this quorum, or the job, stays as it is for long enough."""
    thresholds = thresholds_for({f"{rule}.hold": 0 for rule in ALL_RULES})
    evaluation = evaluate_job(state, thresholds) if isinstance(state, JobState) else evaluate(state, thresholds)
    return list(advance(TrackedConditions(), evaluation, state, thresholds)[1])


def the_alert(case: str) -> Alert:
    rule, severity, *_ = case.split(".")
    subject, state = (CASES | JOB_CASES)[case]
    (alert,) = [each for each in alerts(state) if each.rule == rule and each.subject == subject]
    assert alert.severity == severity
    # The alert as it is sent after the rule's own hold.
    held_ms = thresholds_for({})[rule].ms("hold")
    return replace(alert, started_at_ms=Millis(alert.observed_at_ms - held_ms))


def assert_golden(name: str, text: str) -> None:
    path = GOLDENS / f"{name}.txt"
    if REWRITE:
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("case", [*CASES, *JOB_CASES])
def test_the_text_of_a_firing_alert(case: str) -> None:
    assert_golden(case, alert_text(the_alert(case)))


def test_the_text_of_a_resolved_alert() -> None:
    fired = the_alert("voter-disk-replaced.warning")
    thresholds = thresholds_for({"voter-disk-replaced.hold": 0})
    quorum = REPLACED_DISK
    tracked, _ = advance(TrackedConditions(), evaluate(quorum, thresholds), quorum, thresholds)
    recovered = replace(quorum, now_ms=Millis(fired.observed_at_ms + 100_000))
    tracked, _ = advance(tracked, Evaluation(), recovered, thresholds)
    later = replace(quorum, now_ms=Millis(recovered.now_ms + 10_000))
    _, (resolved,) = advance(tracked, Evaluation(), later, thresholds)
    assert resolved.state is AlertState.RESOLVED
    assert_golden("voter-disk-replaced.resolved", alert_text(resolved))


@pytest.mark.parametrize("rule", [*RULES.values(), *JOB_RULES.values()], ids=lambda rule: rule.id)
def test_every_severity_of_every_rule_has_a_golden(rule: Rule | JobRule) -> None:
    source = inspect.getsource(sys.modules[rule.evaluate.__module__])
    given = {one.value for one in Severity if f"Severity.{one.name}" in source}
    shown = {case.split(".")[1] for case in (*CASES, *JOB_CASES) if case.startswith(f"{rule.id}.")}
    assert shown == given, f"give CASES a situation for each severity of {rule.id}"


def test_every_golden_file_belongs_to_a_case() -> None:
    assert {path.stem for path in GOLDENS.glob("*.txt")} == {*CASES, *JOB_CASES, "voter-disk-replaced.resolved"}


@pytest.mark.parametrize("case", CASES)
def test_each_step_is_one_command_or_one_sentence(case: str) -> None:
    for step in (step for alert in alerts(CASES[case][1]) for step in alert.remedy):
        assert "\n" not in step
        assert re.match(
            r"# |kafka-(log-dirs|metadata-quorum|reassign-partitions|topics|features|cluster|storage|server-start"
            r"|server-stop)\.sh ",
            step,
        )
        assert not step.startswith("#") or not f"{step} ".count(". "), "one sentence"
        assert "$BOOTSTRAP" not in step
        assert {part.removesuffix(":") for part in step.split() if part.startswith("$")} <= {"$NODE_PROPERTIES"}
