"""Describes a quorum in plain text, one fact a line: what a reader of tests sees of it.

A golden of it changes in one line if one fact changes, and in none if a field is renamed. Only what is known is
described, and all that is known: `tests/scripts/test_description.py` changes each field and looks for a difference.
"""

from collections.abc import Iterator
from dataclasses import fields
from itertools import chain

from rules.model.ages import DEFAULT_AGES
from rules.model.monitoring import PLAINTEXT, Vantage
from rules.model.quorum import Quorum
from tests.description.fact_words import Fact, Times, keys, known, listed, seconds
from tests.description.observed_facts import observed_facts
from tests.description.recorded_facts import recorded_facts
from tests.description.replica_facts import replica_facts

NOW = "now"
"""The subject of the only fact that every observation changes."""


def describe(quorum: Quorum, *, start_ms: int = 0) -> str:
    """Returns the facts of a quorum, one a line. Times are counted from the start."""
    return "\n".join(facts(quorum, start_ms=start_ms).values())


def facts(quorum: Quorum, *, start_ms: int = 0) -> dict[str, str]:
    """Returns the facts of a quorum as sentences, by their subject."""
    times, found = Times(start_ms), dict[str, str]()
    for subject, sentence in chain(
        _monitor(quorum, times),
        _leadership(quorum, times),
        _versions(quorum),
        replica_facts(quorum, times),
        recorded_facts(quorum, times),
        observed_facts(quorum, times),
    ):
        while subject in found:
            subject += ", again"
        found[subject] = sentence
    return found


def _monitor(quorum: Quorum, times: Times) -> Iterator[Fact]:
    yield Fact(NOW, f"now {times.at(quorum.now_ms)}")
    with_id = "" if quorum.cluster_id is None else f" with id {quorum.cluster_id}"
    configured = f", configured {listed(quorum.bootstrap)}" if quorum.bootstrap else ""
    yield Fact("cluster", f"cluster {quorum.cluster}{with_id}{configured}")
    if quorum.watched_since_ms:
        yield Fact("watched", f"observed without a gap since {times.at(quorum.watched_since_ms)}")
    match quorum.vantage:
        case Vantage.INSIDE:
            pass
        case Vantage.OUTSIDE:
            yield Fact("vantage", "observed from outside")
    if quorum.broker_min_isr is not None:
        yield Fact("configured", f"min.insync.replicas {quorum.broker_min_isr} in the brokers' files")
    if quorum.default_min_isr is not None:
        yield Fact("default", f"min.insync.replicas {quorum.default_min_isr} by default")
    if (ages := quorum.ages) != DEFAULT_AGES:
        limits = {each.name: getattr(ages, each.name) for each in fields(ages)}
        yield Fact("ages", f"ages {', '.join(f'{name} {seconds(ms)}' for name, ms in limits.items())}")
    access = quorum.access
    if access != PLAINTEXT:
        words = [access.protocol]
        words += [] if access.principal is None else [f"as {access.principal}"]
        words += [] if access.log else ["without the log"]
        words += ["with SCRAM"] if access.scram else []
        yield Fact("access", f"access {', '.join(words)}")


def _leadership(quorum: Quorum, times: Times) -> Iterator[Fact]:
    if (quorum.leader_id, quorum.leader_epoch, quorum.high_watermark, quorum.high_watermark_since_ms) != (None,) * 4:
        leader = "no leader" if quorum.leader_id is None else f"leader {quorum.leader_id}"
        since = times.at(quorum.high_watermark_since_ms)
        watermark = f"high watermark {known(quorum.high_watermark)} since {since}"
        yield Fact("leader", f"{leader} in epoch {known(quorum.leader_epoch)}, {watermark}")
    if (quorum.last_offset, quorum.newest_timestamp_ms, quorum.log_fetched_at_ms) != (None,) * 3 or quorum.idle_ms:
        idle = f", {seconds(quorum.idle_ms)} of it idle" if quorum.idle_ms else ""
        applied = f"log applied up to {known(quorum.last_offset)} at log time {times.at(quorum.newest_timestamp_ms)}"
        yield Fact("log", f"{applied}{idle}, read at {times.at(quorum.log_fetched_at_ms)}")
    if quorum.log_complete != (quorum.last_offset is not None):
        yield Fact("whole log", f"the whole log was {'read' if quorum.log_complete else 'not read'}")
    if quorum.silent_ms:
        yield Fact("silent", f"the leader has appended nothing for {seconds(quorum.silent_ms)}")
    if (committed := quorum.committed) is not None:
        record = times.record(committed.offset, committed.timestamp_ms, committed.leader_epoch)
        yield Fact("voters", f"voters {keys(voter.key for voter in committed.voters)} by {record}")


def _versions(quorum: Quorum) -> Iterator[Fact]:
    if quorum.kraft_version is not None:
        yield Fact("kraft.version", f"kraft.version {quorum.kraft_version}")
    if quorum.metadata_version != quorum.features.get("metadata.version"):
        yield Fact("metadata.version used", f"metadata.version {known(quorum.metadata_version)} used")
    for name, level in sorted(quorum.features.items()):
        yield Fact(name, f"{name} {level}")
