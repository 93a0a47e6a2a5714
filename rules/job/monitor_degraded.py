"""kraftwatch itself does not work as it should: what it says may be late, incomplete, or about this host alone.

What it means
    These are alerts of the cluster `kraftwatch`, which is the job itself. The subject says what is wrong:

    - `clusters`: nothing is observed of three clusters or more that are at least half of all, since about the same
      time: this host is probably cut off. One alert lists them, and people are not notified of each.
    - `relay of NAME`: with `source: kafka`, no row of that cluster that could be used was in the topic for a minute. No
      rule is evaluated for the cluster until rows arrive.
    - `rows of NAME: PART`, `messages of TOPIC`: rows in a relay's topic were refused, because PART of them is not what
      the relay of that cluster writes. They change no state.
    - `log of NAME`: rows of that cluster's metadata log take longer to evaluate than a batch may. Its alerts are late;
      alerts of other clusters are not.
    - `evaluation`: observations are evaluated ten seconds or more after they were made. All alerts are as late.
    - `topic`: the brokers of the relays' topic do not answer. Nothing is lost: the job goes on from there.
    - `spark`, `checkpoint`, `cores`, `disk`: for a minute Spark has completed no batch, because it fails or hangs (the
      job starts it again), the file system of its checkpoint does not answer, its cluster gives the job no core, or the
      disk of the job's folder is full. The understudy, in the job's own process, evaluates all rules meanwhile.
    - `executors`: some of the job's executors are lost.
    - `cluster id ID`: several configured clusters have this id. kraftwatch keeps their alerts apart by their names;
      Kafka accepts a broker or a client that is sent to the wrong one.
    - `id of NAME`: that cluster answers, and does not name its id to this principal. Another cluster at its addresses
      would be monitored, too.
    - `clock`: the clock of this host was set by half a minute or more. No alert fires or resolves because of it; times
      in alerts from before are wrong by as much.

What to do
    1. Check the monitor's own host first: its network, its clock, its load.
    2. Do what the remedy says for the subject.
    3. Query a cluster from another host if you need its state now: `kraftwatch status`.

What not to do
    Do not take the clusters of `clusters` for broken because of this alert: from here, nothing is known of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from rules.finding import Finding, FindingFacts, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import and_join, ms_text, utc_text
from rules.model.identifiers import Millis
from rules.model.job_state import BlindCluster, JobState, MissingDependency, RefusedRows, RelayState, WaitingLog
from rules.model.monitoring import Reason
from rules.model.subject import Subject
from rules.rule import JobRule

CUT_OFF: Final = Subject("clusters")
"""The subject of the alert about clusters that this host does not observe."""
CLOCK, EVALUATION = Subject("clock"), Subject("evaluation")
RELAY, ROWS, MESSAGES, LOG, CLUSTER_ID, ID = "relay of", "rows of", "messages of", "log of", "cluster id", "id of"
"""The kinds of the subjects that name a cluster, a topic or an id."""
SETTLED_MS: Final = Millis(60_000)
"""How long fewer than half are blind before the alert resolves: clusters recover one after the other."""
LATE_MS: Final = Millis(10_000)
"""An observation that is evaluated so late is not current any more (`rules.facts.freshness`)."""
CLOCK_LASTS_MS: Final = Millis(600_000)
"""How long the alert fires after the clock was set."""
REFUSED_LASTS_MS: Final = Millis(1_800_000)
"""How long the alert fires after the newest refused row, as the alerts of other broken contracts do."""
_LOG_HOLD_MS: Final = Millis(30_000)
"""How long rows of a cluster must wait to be evaluated before the alert fires: after a start, a large log takes
some seconds."""
_SAME_TIME_MS = 120_000
"""Clusters that are lost within this time may have one cause."""
_FEWEST = 3
_MAX_LISTED = 10
_BROKEN_HOST = frozenset(
    {Reason.TIMED_OUT, Reason.UNREACHABLE, Reason.UNRESOLVABLE, Reason.RESOLVER_FAILED, Reason.TOO_FEW_DESCRIPTORS}
)
"""What a broken host explains. A rejected login, a denied permission or TLS that fails is an answer: the network
works."""
_AT_ONCE = Millis(0)


def evaluate(job: JobState, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns at most one finding about the clock, the evaluation and the clusters, and one about each other thing."""
    yield from _clusters(job)
    for relay in job.relays:
        yield from _relay(relay, thresholds)
    for refused in job.refused:
        yield _refused(refused)
    for log in job.waiting:
        yield _waiting(log, thresholds)
    for name in job.not_evaluated:
        yield UnknownResult(subject=Subject(LOG, name), why="the cluster was not evaluated since the job started")
    if job.late_ms >= LATE_MS:
        yield _late(job)
    if job.clock_step is not None:
        yield _clock(job)
    yield from _repeated_ids(job)
    for name in job.without_id:
        yield _without_id(name)
    for missing in job.missing:
        if missing.name in _DEPENDENCIES:
            yield _missing(job, missing)


def cut_off(job: JobState) -> list[BlindCluster]:
    """Returns the clusters that this host probably does not reach, in the order of their names; none: it is not so.

    At least three, and half of all, were lost within two minutes for reasons that a broken host explains.
    """
    lost = sorted((cluster for cluster in job.blind if cluster.reasons <= _BROKEN_HOST), key=lambda one: one.since_ms)
    most: list[BlindCluster] = []
    for at, first in enumerate(lost):
        together = [cluster for cluster in lost[at:] if cluster.since_ms - first.since_ms <= _SAME_TIME_MS]
        most = max(most, together, key=len)
    if len(most) < _FEWEST or 2 * len(most) < job.monitored:
        return []
    # A cluster that is lost later may have the same cause.
    return sorted((cluster for cluster in lost if cluster.since_ms >= most[0].since_ms), key=lambda one: one.name)


def _clusters(job: JobState) -> Iterator[Finding]:
    found = cut_off(job)
    fires = any(cluster.alert is not None for cluster in found)
    settles = job.cut_off_at_ms is not None and job.now_ms - job.cut_off_at_ms < SETTLED_MS
    if settles and not fires:
        found = found or [cluster for cluster in job.blind if cluster.name in job.cut_off]
        fires = any(cluster.name in job.cut_off for cluster in found)
    if not fires:
        return
    names, since_ms = [cluster.name for cluster in found], min(cluster.since_ms for cluster in found)
    reported = tuple(sorted({*names, *job.cut_off}))
    example = next((f"{cluster.name}: {cluster.alert}" for cluster in found if cluster.alert is not None), None)
    yield Finding(
        subject=CUT_OFF,
        severity=Severity.CRITICAL if any(cluster.critical for cluster in found) else Severity.WARNING,
        summary=f"This host cannot observe {len(found)} of {job.monitored} clusters since {utc_text(since_ms)}: "
        f"{and_join(names, _MAX_LISTED)}. Their state is unknown.",
        evidence={
            "clusters": [*reported],
            "clusters_monitored": job.monitored,
            **({} if example is None else {"example": example}),
        },
        facts=FindingFacts(clusters=reported),
        remedy=(
            "# Check the network of the monitor's host first: routes, firewalls, name resolution, its own addresses",
            "# Query one of the clusters from another host: kraftwatch status",
            "# If it answers there, the clusters are not the cause: fix this host, or run kraftwatch on another one",
        ),
        hold_ms=_AT_ONCE,
    )


def _relay(relay: RelayState, thresholds: Thresholds) -> Iterator[RuleResult]:
    silent_ms = Millis(max(0, relay.read_to_end_ms - relay.newest_row_ms))
    if silent_ms < thresholds.ms("hold"):
        if not relay.has_sent:
            yield UnknownResult(subject=Subject(RELAY, relay.cluster), why="no row has come since the job started")
        return
    name = relay.cluster
    yield Finding(
        subject=Subject(RELAY, name),
        severity=Severity.CRITICAL,
        summary=f"No row of cluster {name} has come from its relay since {utc_text(relay.newest_row_ms)}: its state is "
        "unknown.",
        evidence={"clusters": [name], "cluster": name, "topic": relay.topic, "newest_row_at_ms": relay.newest_row_ms},
        facts=FindingFacts(clusters=(name,)),
        remedy=(
            f"# Check that the relay of cluster {name} runs, and read log/driver.log in its folder",
            "# If it runs: kraftwatch_relay_failing and /healthz of the relay say why the topic accepts no rows",
            f"# If it sends rows: an alert `rows of {name}` says which are refused",
            "# If the cluster was added to a running job: send SIGHUP to its relay, which then writes a new baseline",
        ),
        condition_age_ms=silent_ms,
    )


_FIX: Final[Mapping[str, str]] = {
    "time": "# Correct the clock of the relay's host: the relay then writes rows that are accepted",
    "baseline": "# Correct the clock of the relay's host: the relay then begins a new baseline",
    "cluster id": "# Correct this cluster's addresses in its relay's configuration: another cluster answers; if the "
    "cluster was formatted again, give the job a new --checkpoint",
    "topic": "# Give the relay of this cluster the relay.topics of this job, and restart it",
}


def refused_subject(refused: RefusedRows) -> Subject:
    """Returns the subject of the alert about refused rows."""
    if refused.cluster is None:
        return Subject(MESSAGES, refused.topic_partition)
    return Subject(ROWS, f"{refused.cluster}: {refused.part}")


def _refused(refused: RefusedRows) -> Finding:
    rows = f"{MESSAGES} {refused.topic_partition}" if refused.cluster is None else f"{ROWS} {refused.cluster}"
    return Finding(
        subject=refused_subject(refused),
        severity=Severity.WARNING,
        summary=f"Refused {rows}: {refused.reason} ({refused.topic_partition}, offset "
        f"{refused.offset}). No state was changed by it; rows of the right relay are accepted.",
        evidence={
            **({} if refused.cluster is None else {"clusters": [refused.cluster]}),
            "cluster": refused.cluster,
            "refused": refused.part,
            "reason": refused.reason,
            "topic_partition": refused.topic_partition,
            "offset": refused.offset,
            "appended_at_ms": refused.appended_at_ms,
        },
        facts=FindingFacts(clusters=() if refused.cluster is None else (refused.cluster,), refused=refused),
        remedy=(
            *filter(None, [_FIX.get(refused.part)]),
            "# If no relay of yours writes such rows, another program has a credential for the topic: list who may "
            "write with kafka-acls.sh --list --topic, change the credential, and give each relay a topic of its own",
            "# List the refused rows: kraftwatch data quarantine list, with the job's --checkpoint",
        ),
        hold_ms=_AT_ONCE,
    )


def _waiting(log: WaitingLog, thresholds: Thresholds) -> Finding:
    name = log.cluster
    return Finding(
        subject=Subject(LOG, name),
        severity=Severity.WARNING,
        summary=f"The metadata log of cluster {name} grows faster than kraftwatch evaluates it: what was observed "
        f"since {utc_text(log.since_ms)} is not evaluated yet, and its alerts are late. Those of other clusters are "
        "not.",
        evidence={"clusters": [name], "cluster": name, "waiting_bytes": log.size, "oldest_waiting_at_ms": log.since_ms},
        facts=FindingFacts(clusters=(name,)),
        remedy=(
            "# Read what the log holds, on a controller: kafka-dump-log.sh --cluster-metadata-decoder --files SEGMENT, "
            "with the newest segment of __cluster_metadata-0; thousands of registrations or features are a fault or an "
            "attack",
            "# If the records are what your clusters need, give the job more executors or cores (`master`)",
        ),
        hold_ms=_LOG_HOLD_MS,
    )


def _late(job: JobState) -> Finding:
    return Finding(
        subject=EVALUATION,
        severity=Severity.WARNING,
        summary=f"The job evaluates observations {ms_text(job.late_ms)} after they were made: alerts are late by as "
        "much.",
        evidence={"late_ms": job.late_ms},
        remedy=(
            "# Check the load of the driver's and the executors' machines: another process may take their cores",
            "# Give the job more executors or cores (`master`), and as many `pipeline.partitions`",
            *(["# Compare the clocks of the relays' hosts with this one: rows have their times"] if job.relays else ()),
        ),
    )


def _clock(job: JobState) -> Finding:
    step = job.clock_step
    assert step is not None
    by = ms_text(Millis(abs(step.after_ms - step.before_ms)))
    how = f"back by {by}" if step.after_ms < step.before_ms else f"forward by {by}, or the host was suspended"
    return Finding(
        subject=CLOCK,
        severity=Severity.WARNING,
        summary=f"The clock of kraftwatch's host was set {how}. It showed {utc_text(step.before_ms)} and then "
        f"{utc_text(step.after_ms)}. Times in alerts from before are wrong by this, and new ones until it has caught "
        "up.",
        evidence={"clock_before_at_ms": step.before_ms, "clock_now_at_ms": step.after_ms},
        facts=FindingFacts(clock_step=step),
        remedy=(
            "# Check the time service on this host: timedatectl, or chronyc tracking",
            "# Compare the clocks of the controllers, of Alertmanager and of this host",
        ),
        hold_ms=_AT_ONCE,
    )


def _repeated_ids(job: JobState) -> Iterator[Finding]:
    for cluster_id, same in job.repeated_ids.items():
        yield Finding(
            subject=Subject(CLUSTER_ID, cluster_id),
            severity=Severity.WARNING,
            summary=f"Clusters {and_join(same, _MAX_LISTED)} have one cluster id, {cluster_id}: one cluster is "
            "configured several times, or its id was copied. Their alerts are kept apart by these names.",
            evidence={"clusters": [*same], "cluster_id": cluster_id},
            facts=FindingFacts(clusters=same),
            remedy=(
                "# If they are one cluster, correct bootstrap: the cluster that was meant is not monitored",
                "# If the id was copied (an image, a tutorial, a restored disk), give one of them a new id "
                "before a broker or a client of one reaches the other: stop its brokers, then its controllers",
                "kafka-storage.sh random-uuid",
                "# Write what it prints as cluster.id into meta.properties of every log directory of every node, "
                "and start the controllers and the brokers: topics and their data are kept",
            ),
            hold_ms=_AT_ONCE,
        )


def _without_id(name: str) -> Finding:
    return Finding(
        subject=Subject(ID, name),
        severity=Severity.WARNING,
        summary=f"The cluster id of {name} is unknown: the cluster answers, and does not name it to the monitor. "
        "Another cluster that answers at its addresses would not be refused.",
        evidence={"clusters": [name], "cluster": name},
        facts=FindingFacts(clusters=(name,)),
        remedy=(
            f"# Set cluster_id of {name} in the configuration: every node has it in its meta.properties (cluster.id)",
            "# Do so before the next restart of the job: it may not start without the id of a cluster that answers",
        ),
    )


_UNDERSTUDY: Final = (
    "the job's own process evaluates all rules meanwhile, so alerts, the page and `kraftwatch check` work as usual"
)
_NOT_YET: Final = "nothing is evaluated until the job's own process does, within a minute; `kraftwatch check` works"
_DEPENDENCIES: Final[Mapping[str, tuple[Severity, str, str]]] = {
    "topic": (
        Severity.CRITICAL,
        "nothing is evaluated until its brokers answer",
        "# Check the brokers of the topic and the network to them: kraftwatch doctor, with the job's configuration",
    ),
    "checkpoint": (
        Severity.CRITICAL,
        _UNDERSTUDY,
        "# Check the file system, the network to it and its credentials",
    ),
    "spark": (
        Severity.CRITICAL,
        _UNDERSTUDY,
        "# Read log/spark.log and log/driver.log in the job's folder: why Spark ends or hangs; look at the memory and "
        "the load of this host",
    ),
    "cores": (
        Severity.CRITICAL,
        _UNDERSTUDY,
        "# Look at Spark's page of the cluster: which applications have its cores, and which workers are alive; bound "
        "the others by spark.cores.max, or add a worker",
    ),
    "executors": (
        Severity.WARNING,
        "alerts may be late",
        "# Look at Spark's page of the cluster: why an executor ended, and why no other takes its place",
    ),
    "disk": (
        Severity.CRITICAL,
        _UNDERSTUDY,
        "# Free space on the disk of the job's folder",
    ),
}
"""What is missing: how severe that is, what it means, and what to do. Without the store no alert can be recorded."""


def _missing(job: JobState, missing: MissingDependency) -> Finding:
    severity, consequence, remedy = _DEPENDENCIES[missing.name]
    if consequence == _UNDERSTUDY and not job.understudy_counts:
        consequence = _NOT_YET
    elif consequence == _UNDERSTUDY and job.late_ms >= LATE_MS:
        late = ms_text(job.late_ms)
        consequence = f"the job's own process evaluates all rules of all clusters meanwhile, {late} late"
    return Finding(
        subject=Subject(missing.name),
        severity=severity,
        summary=f"{missing.why[0].upper()}{missing.why[1:]}, since {utc_text(missing.since_ms)}: {consequence}.",
        evidence={"missing": missing.name, "reason": missing.why, "since": utc_text(missing.since_ms)},
        remedy=(remedy,),
        condition_age_ms=Millis(max(0, job.now_ms - missing.since_ms)),
    )


def _resolved(job: JobState, subject: Subject) -> str:
    if subject.kind in _DEPENDENCIES:
        return f"What was missing ({subject}) is there again."
    if subject.kind == CLUSTER_ID:
        return f"At most one configured cluster has the id {subject.name}."
    if subject.kind == ID:
        return f"Cluster {subject.name} does not answer without a known cluster id any more."
    if subject == CLOCK:
        return f"The clock was not set again for {ms_text(CLOCK_LASTS_MS)}."
    if subject == EVALUATION:
        return "Observations are evaluated when they are made."
    if subject == CUT_OFF:
        return f"This host observes {job.monitored - len(job.blind)} of {job.monitored} clusters."
    if subject.kind == RELAY:
        configured = subject.name in {relay.cluster for relay in job.relays}
        return f"The relay of cluster {subject.name} {'sends rows' if configured else 'is no longer configured'}."
    if subject.kind == LOG:
        return f"No observation of cluster {subject.name} waits to be evaluated."
    return f"No further {subject} were refused."


RULE = JobRule(
    title="kraftwatch itself does not work as it should",
    resolved=_resolved,
    hold=hold(
        60.0,
        "of a silent relay, a late evaluation, an unknown cluster id and what is missing; the rest is reported at once",
    ),
)
