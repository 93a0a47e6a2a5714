"""The commands that describe what a job observes of itself: `job("sink slack failing HTTP 503 pending 3")`."""

from dataclasses import replace
from functools import cache

from rules.model.identifiers import Millis
from rules.model.job_state import (
    AuditedContract,
    AuditState,
    BlindCluster,
    ClockStep,
    JobState,
    MissingDependency,
    RefusedRows,
    RelayState,
    SinkState,
    WaitingLog,
)
from rules.model.monitoring import Reason
from tests.commands import Commands, Milliseconds, Words, milliseconds
from tests.situation.situation import NOW

command: Commands[JobState] = Commands("what a job observes of itself")


@cache
def job(*commands: str) -> JobState:
    """Returns the state of a job after these commands. Without any it is healthy, and notifies for a day."""
    state = JobState(now_ms=NOW, watched_since_ms=Millis(NOW - 86_400_000))
    for text in commands:
        state = command.run(state, text)
    return state


def _ago(words: Words, name: str, default: str) -> Millis:
    return Millis(NOW - milliseconds(words.option(name) or default))


def _words(words: Words) -> str:
    return " ".join(words.rest())


@command("sink")
def _sink(state: JobState, words: Words) -> JobState:
    """sink slack [unknown] [pending 3] [refuses A,B] [failing WHY]: a sink, and why delivery to it fails."""
    unknown, pending, refuses = words.flag("unknown"), words.number("pending") or 0, words.option("refuses")
    name = words.word()
    failing = _words(words).removeprefix("failing ") or None
    one = SinkState(
        name=name,
        known=not unknown,
        failing=failing,
        pending=pending,
        not_accepted=() if refuses is None else tuple(refuses.split(",")),
    )
    return replace(state, sinks=(*state.sinks, one))


@command("relay")
def _relay(state: JobState, words: Words) -> JobState:
    """relay prod [newest 90s] [read 1s] [topic kraftwatch] [never]: when its newest row came; `never`: none has."""
    newest, read = _ago(words, "newest", "0s"), _ago(words, "read", "1s")
    topic, never = words.option("topic") or "kraftwatch", words.flag("never")
    one = RelayState(cluster=words.word(), topic=topic, newest_row_ms=newest, read_to_end_ms=read, has_sent=not never)
    return replace(state, relays=(*state.relays, one))


@command("refused")
def _refused(state: JobState, words: Words) -> JobState:
    """refused prod time [appended 2m] [newest 2s] REASON: rows of a topic that are refused.

    What is refused is also sequence, baseline, topic, cluster-id and so on; the cluster is `-` if they are no rows.
    """
    appended, newest = _ago(words, "appended", "2m"), _ago(words, "newest", "2s")
    cluster, part = words.word(), words.word().replace("-", " ")
    one = RefusedRows(
        cluster=None if cluster == "-" else cluster,
        part=part,
        reason=_words(words),
        topic_partition="kraftwatch-0",
        offset=4711,
        appended_at_ms=appended,
        newest_ms=newest,
    )
    return replace(state, refused=(*state.refused, one))


@command("audit")
def _audit(state: JobState, words: Words) -> JobState:
    """audit unreadable, audit CONTRACT [suite observations] [grave] [rows 2] [of 5000] [clusters prod] [EXAMPLE]."""
    suite, grave = words.option("suite") or "observations", words.flag("grave")
    rows, checked = words.number("rows") or 2, words.number("of") or 5_000
    clusters, at_ms = words.option("clusters"), _ago(words, "ago", "10m")
    name = words.word()
    if name == "unreadable":
        return replace(state, audit=None)
    broken = () if state.audit is None else state.audit.broken
    one = AuditedContract(
        name=name,
        suite=suite,
        grave=grave,
        rows=rows,
        checked_rows=checked,
        clusters=() if clusters is None else tuple(clusters.split(",")),
        example=_words(words) or None,
    )
    return replace(state, audit=AuditState(at_ms=at_ms, broken=(*broken, one)))


@command("waiting")
def _waiting(state: JobState, words: Words) -> JobState:
    """waiting prod 5000000 [since 40s]: bytes of its metadata log wait to be evaluated."""
    since = _ago(words, "since", "40s")
    one = WaitingLog(cluster=words.word(), size=int(words.word()), since_ms=since)
    return replace(state, waiting=(*state.waiting, one))


@command("not-evaluated")
def _not_evaluated(state: JobState, *clusters: str) -> JobState:
    """not-evaluated a b: clusters of which no status has come since the job started."""
    return replace(state, not_evaluated=(*state.not_evaluated, *clusters))


@command("late")
def _late(state: JobState, by_ms: Milliseconds) -> JobState:
    """late 20s: how long after it was made the newest observation was evaluated."""
    return replace(state, late_ms=Millis(by_ms))


@command("monitored")
def _monitored(state: JobState, count: int) -> JobState:
    """monitored 4: the number of configured clusters."""
    return replace(state, monitored=count)


@command("blind")
def _blind(state: JobState, words: Words) -> JobState:
    """blind a,b [since 40s] [reasons unresolvable,timed-out] [critical] [alert TEXT]: nothing of them is observed."""
    since, reasons = _ago(words, "since", "40s"), words.option("reasons") or "timed-out"
    critical, names = words.flag("critical"), words.word().split(",")
    alert = _words(words).removeprefix("alert ") or None
    found = (
        BlindCluster(
            name=name,
            since_ms=since,
            reasons=frozenset(map(Reason, reasons.split(","))),
            alert=alert,
            critical=critical,
        )
        for name in names
    )
    return replace(state, blind=(*state.blind, *found))


@command("not-observed")
def _not_observed(state: JobState, words: Words) -> JobState:
    """not-observed a,b [ago 5s]: the clusters that the alert which fires lists as not observed from this host."""
    at_ms = _ago(words, "ago", "5s")
    return replace(state, cut_off=tuple(words.word().split(",")), cut_off_at_ms=at_ms)


@command("missing")
def _missing(state: JobState, words: Words) -> JobState:
    """missing store [since 70s] WHY: something that the job needs and does not have."""
    since = _ago(words, "since", "70s")
    one = MissingDependency(name=words.word(), why=_words(words), since_ms=since)
    return replace(state, missing=(*state.missing, one))


@command("understudy")
def _understudy(state: JobState) -> JobState:
    """understudy: the job's own process evaluates the rules, because Spark does not."""
    return replace(state, understudy_counts=True)


@command("cluster-id")
def _cluster_id(state: JobState, cluster_id: str, *names: str) -> JobState:
    """cluster-id X dev prod: these clusters have one id."""
    return replace(state, repeated_ids={**state.repeated_ids, cluster_id: names})


@command("without-id")
def _without_id(state: JobState, *names: str) -> JobState:
    """without-id prod: these clusters answer, and their cluster ids are not known."""
    return replace(state, without_id=names)


@command("clock-set")
def _clock_set(state: JobState, words: Words) -> JobState:
    """clock-set 1h [ago 10s], clock-set -1h: the clock of the job's host was set forward or back by so much."""
    at_ms = _ago(words, "ago", "10s")
    step = milliseconds(words.word())
    return replace(state, clock_step=ClockStep(before_ms=at_ms, after_ms=Millis(at_ms + step), at_ms=at_ms))


@command("notifies")
def _notifies(state: JobState, lasts_ms: Milliseconds) -> JobState:
    """notifies 30s: the job notifies for so long."""
    return replace(state, watched_since_ms=Millis(NOW - lasts_ms))
