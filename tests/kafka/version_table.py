"""What each Kafka version reports of its quorum: the table of docs/versions.md, and how each cell is measured."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.kafka.messages import FetchResult
from connectors.observations.log_event import FeatureLevelSet
from connectors.observations.observation import Event
from deploy.lab.node import is_dynamic
from deploy.schemas.schema_file import KAFKA_VERSIONS
from rules.evaluate import RULES
from rules.facts.needs import Need
from rules.model.membership import ControllerRegistration
from tests.page_tables import DOCS, table, with_tables

PAGE = DOCS / "versions.md"
CONTROLLER, BROKER = 1, 101
VOTERS_IN_THE_LOG = {rule.id for rule in RULES.values() if Need.VOTERS_RECORD in rule.needs}
"""Rules that evaluate the VotersRecord."""
_DESCRIBE_QUORUM, _FETCH = 55, 1
_YES, _NO, _ONLY_REPORTED = "yes", "no", "only reported"
_FILE, _SNAPSHOT = "`bootstrap.checkpoint`", "the metadata log's first snapshot"
STATIC_KAFKAS = KAFKA_VERSIONS
DYNAMIC_KAFKAS = tuple(kafka for kafka in KAFKA_VERSIONS if is_dynamic(kafka))


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionObservations:
    """The observations of one quorum of a controller and a broker."""

    apis: Mapping[int, tuple[int, int]]
    """The oldest and newest version that the controller supports, by API key."""
    old_epoch_fetch: FetchResult
    """The response to a Fetch with an old epoch."""
    status: Mapping[str, Any]
    replication: Mapping[str, Any]
    check: Mapping[str, Any]
    events: Sequence[Event]
    """The events of the log that the gatherer read."""
    bootstrap_file: bool
    """The formatted disk of the controller has a `bootstrap.checkpoint`."""
    upgrade: tuple[str, Mapping[str, Any]] | None
    """The output of `kafka-features upgrade --feature kraft.version=1`, and the status afterwards; only of a static
    quorum whose Kafka supports the feature."""

    def of(self, event: type[Event]) -> Iterator[Any]:
        return (each for each in self.events if isinstance(each, event))

    def feature(self, name: str) -> int:
        return max((each.level for each in self.of(FeatureLevelSet) if each.name == name), default=0)


def _yes_no(holds: object) -> str:
    return _YES if holds else _NO


def _replicas(observed: VersionObservations, *fields: str) -> str:
    return _yes_no(all(row[field] is not None for row in observed.replication["replicas"] for field in fields))


def _evaluated(observed: VersionObservations) -> str:
    absent = {one["rule"] for one in observed.check["not_applicable"]}
    unknown = {one["rule"] for one in observed.check["unknown"]}
    if absent >= VOTERS_IN_THE_LOG:
        return "not applicable"
    return "evaluated" if not VOTERS_IN_THE_LOG & (absent | unknown) else "in part"


def _upgrade_result(observed: VersionObservations) -> str:
    if observed.upgrade is None:
        return _NO
    printed, status = observed.upgrade
    if status["kraft_version"] == 1 and status["committed_voters"]["voters"][0]["directory_id"]:
        return _YES
    return _ONLY_REPORTED if "kraft.version was upgraded to 1" in printed else _NO


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A row of the table."""

    name: str
    cell: Callable[[VersionObservations], str]
    static: tuple[str, ...]
    """The expected cell for each of `STATIC_KAFKAS`."""
    dynamic: tuple[str, ...]
    """The expected cell for each of `DYNAMIC_KAFKAS`."""


def _row(name: str, static: str, dynamic: str, cell: Callable[[VersionObservations], str]) -> Fact:
    """Returns a Fact from comma-separated cells; the last cell applies to all newer Kafka versions."""

    def all_of(text: str, kafkas: Sequence[str]) -> tuple[str, ...]:
        cells = [one.strip() for one in text.split(",")]
        return (*cells, *[cells[-1]] * (len(kafkas) - len(cells)))

    return Fact(name=name, cell=cell, static=all_of(static, STATIC_KAFKAS), dynamic=all_of(dynamic, DYNAMIC_KAFKAS))


FACTS = (
    _row("newest DescribeQuorum", "v1, v1, v1, v1, v2", "v2", lambda seen: f"v{seen.apis[_DESCRIBE_QUORUM][1]}"),
    _row("newest Fetch", "v13, v15, v16, v16, v17, v17, v18", "v17, v17, v18", lambda seen: f"v{seen.apis[_FETCH][1]}"),
    _row(
        "committed metadata, by anonymous Fetch", "yes", "yes", lambda seen: _yes_no(seen.feature("metadata.version"))
    ),
    _row(
        "the reader is listed as an observer",
        "no",
        "no",
        lambda seen: _yes_no([row["id"] for row in seen.status["current_observers"]] != [BROKER]),
    ),
    _row(
        "the leader's address, in an answer to Fetch",
        "no, no, no, no, yes",
        "yes",
        lambda seen: _yes_no(seen.old_epoch_fetch.leader),
    ),
    _row("cluster id, reported by a controller", "no, no, yes", "yes", lambda seen: _yes_no(seen.status["cluster_id"])),
    _row(
        "leader, epoch, high watermark",
        "yes",
        "yes",
        lambda seen: _yes_no(
            (seen.status["leader_id"], seen.status["leader_epoch"]) == (CONTROLLER, 1)
            and seen.status["high_watermark"] > 0
        ),
    ),
    _row("voters' and observers' lag in records", "yes", "yes", lambda seen: _replicas(seen, "log_end_offset", "lag")),
    _row(
        "last fetch and last caught-up timestamps",
        "yes",
        "yes",
        lambda seen: _replicas(seen, "last_fetch_timestamp", "last_caught_up_timestamp"),
    ),
    _row(
        "directory ids of voters",
        "no",
        "yes",
        lambda seen: _yes_no(all(row["directory_id"] for row in seen.status["current_voters"])),
    ),
    _row(
        "directory ids of observers",
        "no, no, no, no, yes",
        "yes",
        lambda seen: _yes_no(all(row["directory_id"] for row in seen.status["current_observers"])),
    ),
    _row(
        "voters' endpoints, by DescribeQuorum",
        "no, no, no, no, yes",
        "yes",
        lambda seen: _yes_no(all(row["endpoints"] for row in seen.status["current_voters"])),
    ),
    _row(
        "voters' endpoints, each with a verdict",
        "no, no, no, no, yes",
        "yes",
        lambda seen: _yes_no([one["verdict"] for one in seen.status["endpoints"]] == ["ok"]),
    ),
    _row(
        "voter set, committed and pending",
        "no",
        "yes",
        lambda seen: _yes_no(seen.status["committed_voters"] and seen.status["pending_voters"] is not None),
    ),
    _row(
        "controllers' registrations",
        "no, no, yes",
        "yes",
        lambda seen: _yes_no([each.id for each in seen.of(ControllerRegistration)] == [CONTROLLER]),
    ),
    _row("recovering partitions", "yes", "yes", lambda seen: _yes_no(seen.status["recovering_partitions"] == 0)),
    _row(
        "eligible leader replicas, in a new cluster",
        "no, no, no, no, no, no, yes",
        "no, no, yes",
        lambda seen: _yes_no(seen.feature("eligible.leader.replicas.version")),
    ),
    _row("kraft.version", "0", "1", lambda seen: str(seen.status["kraft_version"])),
    _row(
        "metadata.version of a new cluster",
        "7, 14, 19, 20, 21, 25, 27, 29, 30, 33",
        "21, 25, 27, 29, 30, 33",
        lambda seen: str(seen.status["metadata_version"]),
    ),
    _row(
        "first feature levels, on a formatted disk",
        f"{_FILE}, {_FILE}, {_FILE}, {_FILE}, {_FILE}, {_FILE}, {_FILE}, {_FILE}, {_FILE}, {_SNAPSHOT}",
        f"{_FILE}, {_FILE}, {_FILE}, {_FILE}, {_FILE}, {_SNAPSHOT}",
        lambda seen: _FILE if seen.bootstrap_file else _SNAPSHOT,
    ),
    _row("rules that evaluate the voters in the log", "not applicable", "evaluated", _evaluated),
    _row(
        "kraft.version 0 to 1 while it runs", "no, no, no, no, only reported, only reported, yes", "–", _upgrade_result
    ),
)


def expected(kafka: str, *, static: bool) -> dict[str, str]:
    """Returns a column: the expected cell of each fact for this Kafka."""
    if static:
        return {fact.name: fact.static[STATIC_KAFKAS.index(kafka)] for fact in FACTS}
    return {fact.name: fact.dynamic[DYNAMIC_KAFKAS.index(kafka)] for fact in FACTS if fact.cell is not _upgrade_result}


def measured(observed: VersionObservations, *, static: bool) -> dict[str, str]:
    """Returns the same column as measured."""
    return {fact.name: fact.cell(observed) for fact in FACTS if static or fact.cell is not _upgrade_result}


def page() -> str:
    """Returns docs/versions.md, whose table has each value with the Kafka from which on it is so."""
    rows = [
        f"| {fact.name} | {_from(STATIC_KAFKAS, fact.static)} | {_from(DYNAMIC_KAFKAS, fact.dynamic)} |"
        for fact in FACTS
    ]
    return with_tables(PAGE, {"versions": table("| | static | dynamic |", rows)})


def _from(kafkas: Sequence[str], cells: Sequence[str]) -> str:
    changes = [at for at in range(1, len(cells)) if cells[at] != cells[at - 1]]
    return "; ".join([cells[0], *(f"{cells[at]} from {kafkas[at]}" for at in changes)])
