"""What can be seen of each Kafka's quorum: the table of docs/versions.md, and how each of its cells is measured."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.event import ControllerRegistered, Event, FeatureLevelSet
from connectors.kafka.messages import FetchAnswer

CONTROLLER, BROKER = 1, 101
VOTERS_IN_THE_LOG = {
    "forced-reconfiguration",
    "observer-could-be-voter",
    "stale-voter-endpoint",
    "voter-change-stuck",
    "voter-disk-replaced",
}
"""Rules that judge by the VotersRecord."""
_DESCRIBE_QUORUM, _FETCH = 55, 1
_YES, _NO, _ONLY_SAID = "yes", "no", "only said"
STATIC_KAFKAS = ("3.3.2", "3.6.2", "3.7.2", "3.8.1", "3.9.2", "4.0.1", "4.1.2", "4.2.1", "4.3.1")
DYNAMIC_KAFKAS = ("3.9.2", "4.0.1", "4.1.2", "4.2.1", "4.3.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of one quorum of a controller and a broker."""

    apis: Mapping[int, tuple[int, int]]
    """The versions that the controller offers, oldest and newest, by api key."""
    redirected: FetchAnswer
    """To a Fetch of an epoch that is over."""
    status: Mapping[str, Any]
    replication: Mapping[str, Any]
    check: Mapping[str, Any]
    events: Sequence[Event]
    """Of the log, as the gatherer read it."""
    upgraded: tuple[str, Mapping[str, Any]] | None
    """What `kafka-features upgrade --feature kraft.version=1` printed, and our status afterwards; of a static quorum
    whose Kafka knows that feature."""

    def of(self, event: type[Event]) -> Iterator[Any]:
        return (each for each in self.events if isinstance(each, event))

    def feature(self, name: str) -> int:
        return max((each.level for each in self.of(FeatureLevelSet) if each.name == name), default=0)


def _said(holds: object) -> str:
    return _YES if holds else _NO


def _replicas(seen: Seen, *fields: str) -> str:
    return _said(all(row[field] is not None for row in seen.replication["replicas"] for field in fields))


def _judged(seen: Seen) -> str:
    absent = {one["rule"] for one in seen.check["not_applicable"]}
    unknown = {one["rule"] for one in seen.check["cannot_tell"]}
    if absent >= VOTERS_IN_THE_LOG:
        return "not applicable"
    return "judged" if not VOTERS_IN_THE_LOG & (absent | unknown) else "in part"


def _upgraded(seen: Seen) -> str:
    if seen.upgraded is None:
        return _NO
    printed, status = seen.upgraded
    if status["kraft_version"] == 1 and status["committed_voters"]["voters"][0]["directory_id"]:
        return _YES
    return _ONLY_SAID if "kraft.version was upgraded to 1" in printed else _NO


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A line of the table."""

    name: str
    cell: Callable[[Seen], str]
    static: tuple[str, ...]
    """By `STATIC_KAFKAS`: what `cell` must give for each."""
    dynamic: tuple[str, ...]
    """By `DYNAMIC_KAFKAS`."""


def _row(name: str, cell: Callable[[Seen], str], *, static: str, dynamic: str) -> Fact:
    """Cells parted by commas; the last one goes on for all newer Kafkas."""

    def all_of(text: str, kafkas: Sequence[str]) -> tuple[str, ...]:
        cells = [one.strip() for one in text.split(",")]
        return (*cells, *[cells[-1]] * (len(kafkas) - len(cells)))

    return Fact(name=name, cell=cell, static=all_of(static, STATIC_KAFKAS), dynamic=all_of(dynamic, DYNAMIC_KAFKAS))


FACTS = (
    _row(
        "newest DescribeQuorum",
        lambda seen: f"v{seen.apis[_DESCRIBE_QUORUM][1]}",
        static="v1, v1, v1, v1, v2",
        dynamic="v2",
    ),
    _row(
        "newest Fetch",
        lambda seen: f"v{seen.apis[_FETCH][1]}",
        static="v13, v15, v16, v16, v17, v17, v18",
        dynamic="v17, v17, v18",
    ),
    _row(
        "committed metadata, by anonymous Fetch",
        lambda seen: _said(seen.feature("metadata.version")),
        static="yes",
        dynamic="yes",
    ),
    _row(
        "the reader is listed as an observer",
        lambda seen: _said([row["id"] for row in seen.status["current_observers"]] != [BROKER]),
        static="no",
        dynamic="no",
    ),
    _row(
        "the leader's address, in an answer to Fetch",
        lambda seen: _said(seen.redirected.leader),
        static="no, no, no, no, yes",
        dynamic="yes",
    ),
    _row(
        "cluster id, told by a controller",
        lambda seen: _said(seen.status["cluster_id"]),
        static="no, no, yes",
        dynamic="yes",
    ),
    _row(
        "leader, epoch, high watermark",
        lambda seen: _said(
            (seen.status["leader_id"], seen.status["leader_epoch"]) == (CONTROLLER, 1)
            and seen.status["high_watermark"] > 0
        ),
        static="yes",
        dynamic="yes",
    ),
    _row(
        "voters' and observers' lag in records",
        lambda seen: _replicas(seen, "log_end_offset", "lag"),
        static="yes",
        dynamic="yes",
    ),
    _row(
        "last fetch and last caught-up timestamps",
        lambda seen: _replicas(seen, "last_fetch_timestamp_ms", "last_caught_up_timestamp_ms"),
        static="yes",
        dynamic="yes",
    ),
    _row(
        "directory ids of voters",
        lambda seen: _said(all(row["directory_id"] for row in seen.status["current_voters"])),
        static="no",
        dynamic="yes",
    ),
    _row(
        "directory ids of observers",
        lambda seen: _said(all(row["directory_id"] for row in seen.status["current_observers"])),
        static="no, no, no, no, yes",
        dynamic="yes",
    ),
    _row(
        "voters' endpoints, by DescribeQuorum",
        lambda seen: _said(all(row["endpoints"] for row in seen.status["current_voters"])),
        static="no, no, no, no, yes",
        dynamic="yes",
    ),
    _row(
        "voters' endpoints, by the log, each with a verdict",
        lambda seen: _said([one["verdict"] for one in seen.status["endpoints"]] == ["ok"]),
        static="no",
        dynamic="yes",
    ),
    _row(
        "voter set, committed and pending",
        lambda seen: _said(seen.status["committed_voters"] and seen.status["pending_voters"] is not None),
        static="no",
        dynamic="yes",
    ),
    _row(
        "controllers' registrations",
        lambda seen: _said([each.id for each in seen.of(ControllerRegistered)] == [CONTROLLER]),
        static="no, no, yes",
        dynamic="yes",
    ),
    _row(
        "recovering partitions",
        lambda seen: _said(seen.status["recovering_partitions"] == 0),
        static="yes",
        dynamic="yes",
    ),
    _row(
        "eligible leader replicas, in a new cluster",
        lambda seen: _said(seen.feature("eligible.leader.replicas.version")),
        static="no, no, no, no, no, no, yes",
        dynamic="no, no, yes",
    ),
    _row("kraft.version", lambda seen: str(seen.status["kraft_version"]), static="0", dynamic="1"),
    _row(
        "metadata.version of a new cluster",
        lambda seen: str(seen.status["metadata_version"]),
        static="7, 14, 19, 20, 21, 25, 27, 29, 30",
        dynamic="21, 25, 27, 29, 30",
    ),
    _row("rules that judge by the voters in the log", _judged, static="not applicable", dynamic="judged"),
    _row(
        "kraft.version 0 to 1 while it runs",
        _upgraded,
        static="no, no, no, no, only said, only said, yes",
        dynamic="–",
    ),
)


def expected(kafka: str, *, static: bool) -> dict[str, str]:
    """A column: what each fact must be for this Kafka."""
    if static:
        return {fact.name: fact.static[STATIC_KAFKAS.index(kafka)] for fact in FACTS}
    return {fact.name: fact.dynamic[DYNAMIC_KAFKAS.index(kafka)] for fact in FACTS if fact.cell is not _upgraded}


def measured(seen: Seen, *, static: bool) -> dict[str, str]:
    """The same column, as it was seen."""
    return {fact.name: fact.cell(seen) for fact in FACTS if static or fact.cell is not _upgraded}


def page_tables() -> str:
    """The part of docs/versions.md that is data."""
    static = _table(STATIC_KAFKAS, ((fact.name, fact.static) for fact in FACTS))
    dynamic = _table(DYNAMIC_KAFKAS, ((fact.name, fact.dynamic) for fact in FACTS if fact.cell is not _upgraded))
    return (
        f"### Static quorums: `controller.quorum.voters`, kraft.version 0\n\n{static}\n"
        f"### Dynamic quorums: voters in the log, kraft.version 1\n\n{dynamic}"
    )


def _table(kafkas: Sequence[str], rows: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    lines = [("", *kafkas), tuple("---" for _ in ("", *kafkas)), *((name, *cells) for name, cells in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
