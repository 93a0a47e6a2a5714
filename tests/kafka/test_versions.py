"""Old and new Kafka versions, static and dynamic quorums: the tables of docs/versions.md are measured."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsRequest

from connectors.kafka.client import short_client
from connectors.kafka.cluster_connection import Address
from connectors.kafka.messages import FetchResult, fetch_request, parse_fetch
from connectors.logdir.log_dir_files import is_log_file
from connectors.observations.observation import ObservationKind, from_json
from deploy.lab.jars import KAFKA_VERSION
from deploy.lab.node import Node, is_dynamic, new_uuid
from rules.model.monitoring import FailedObservation, ObservationSource, Reason
from streaming.replay.decoded_row import decode_observation
from tests.cli.program import kraftwatch
from tests.eventually import eventually
from tests.kafka.gatherer_run import NAME, cluster_of, run_gatherer
from tests.kafka.monitored_cluster import monitor_cluster
from tests.kafka.version_table import (
    CONTROLLER,
    DYNAMIC_KAFKAS,
    STATIC_KAFKAS,
    VOTERS_IN_THE_LOG,
    VersionObservations,
    expected,
    measured,
)
from tests.lab import Lab

OFTEN = {(KAFKA_VERSION, False), (KAFKA_VERSION, True)}
"""The version in `make test`: for the others the jars of another Kafka are downloaded."""


def runs() -> list[Any]:
    every = [(kafka, True) for kafka in STATIC_KAFKAS] + [(kafka, False) for kafka in DYNAMIC_KAFKAS]
    return [
        pytest.param(
            kafka,
            static,
            id=f"{kafka}-{'static' if static else 'dynamic'}",
            marks=[] if (kafka, static) in OFTEN else pytest.mark.long,
        )
        for kafka, static in every
    ]


@pytest.mark.lab
@pytest.mark.parametrize(("kafka", "static"), runs())
def test_measured_column_equals_the_table(lab: Callable[..., Lab], tmp_path: Path, kafka: str, static: bool) -> None:
    quorum = lab(controllers=1, brokers=1, version=kafka, static=static)

    observed = observe(quorum, tmp_path, upgrade=static and STATIC_KAFKAS.index(kafka) >= 4)

    assert measured(observed, static=static) == expected(kafka, static=static)
    port = quorum.node(CONTROLLER).controller_port
    configured, advertised = f"CONTROLLER://localhost:{port}", f"CONTROLLER://127.0.0.1:{port}"
    assert observed.status["current_voters"][0]["endpoints"] in ([], [configured if static else advertised])
    if observed.upgrade and observed.upgrade[1]["committed_voters"]:
        voter = observed.upgrade[1]["committed_voters"]["voters"][0]
        assert (voter["id"], voter["endpoints"]) == (CONTROLLER, [advertised]), "the configuration is not used any more"
    assert (observed.check["health"], observed.check["unknown"]) == ("healthy", [])
    last = observed.upgrade[1] if observed.upgrade else observed.status
    levels = {name: last[name] for name in ("kraft_version", "metadata_version")}
    quorum.stop(*quorum.brokers)
    quorum.stop(*quorum.controllers)
    for node in quorum.layout:
        assert_disk_is_read(node, levels)
    if is_dynamic(kafka) and levels["kraft_version"] == 1:
        assert_rescued(quorum)
    else:
        assert_refused_as_static(quorum.node(CONTROLLER))


@pytest.mark.lab
@pytest.mark.long
def test_release_upgrade_that_makes_a_static_quorum_dynamic_is_reported(
    lab: Callable[..., Lab], tmp_path: Path
) -> None:
    quorum = lab(controllers=1, brokers=0, version="4.3.1", static=True)
    quorum.stop(*quorum.controllers)
    quorum.install(CONTROLLER, KAFKA_VERSION)
    quorum.start(*quorum.controllers)
    quorum.await_leader()
    with monitor_cluster(quorum, tmp_path) as monitor:
        monitor.start_scenario({})
        quorum.upgrade_features("--release-version", ".".join(KAFKA_VERSION.split(".")[:2]))
        alert = monitor.wait_for("version-drift", subject="release upgrade")
        monitor.set_thresholds({"version-drift.keep_firing_for": 1})
        monitor.wait_for("version-drift", "resolved", subject="release upgrade")

    assert alert.severity == "info"
    assert (alert.evidence["kraft_version"], alert.evidence["metadata_version"]) == (1, 33)
    assert monitor.rules == {"version-drift"}


def assert_disk_is_read(node: Node, levels: Mapping[str, int]) -> None:
    """Asserts that every record on the disk is read, in the form in which this Kafka formatted it."""
    shown = json.loads(kraftwatch("status", "--json", "--log-dir", node.data).stdout)
    assert {name: shown[name] for name in levels} == levels
    assert (shown["log_dir"]["whole"], shown["log_dir"]["damaged"]) == (True, [])
    files = [path for path in node.metadata_log.iterdir() if is_log_file(path.name)]
    assert {path.name: kraftwatch("data", "decode", path).exit_code for path in files} == {
        path.name: 0 for path in files
    }


def assert_refused_as_static(node: Node) -> None:
    disk, wanted = ("--log-dir", node.data), ("--initial-controllers", f"1@c1.new:9093:{new_uuid()}")
    assert "A static quorum has none" in kraftwatch("what-if", *disk).stdout
    for command in (("plan", *disk, *wanted), ("apply", *disk, *wanted, "--yes")):
        assert "belongs to a static quorum" in str(kraftwatch("rescue", *command).exception)


def assert_rescued(quorum: Lab) -> None:
    """Moves the stopped controller; its disk and the broker's get the new endpoint, are restored, and get it again."""
    quorum.move_endpoint(CONTROLLER)
    controller = quorum.node(CONTROLLER)
    assert kraftwatch("what-if", "--log-dir", controller.data).exit_code == 0, "one voter needs no other"
    wanted = ("--initial-controllers", f"{CONTROLLER}@{controller.endpoint}:{controller.directory_id}")
    for node in quorum.layout:
        before = contents(node.metadata_log)
        for verb in ("apply", "undo", "apply"):
            options = wanted if verb == "apply" else ()
            ended = kraftwatch("rescue", verb, "--log-dir", node.data, *options, *(["--yes"] if options else []))
            assert ended.exit_code == 0, f"{verb} {ended.output} {ended.exception}"
            assert (contents(node.metadata_log) == before) is (verb == "undo")
    quorum.start(*quorum.controllers, *quorum.brokers)
    (voter,) = quorum.await_leader(CONTROLLER).voters
    assert voter.directory_id == controller.directory_id
    assert json_of(quorum, "status")["endpoints"][0]["recorded"] == controller.endpoint


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def observe(quorum: Lab, folder: Path, *, upgrade: bool) -> VersionObservations:
    """Returns a gatherer's rows and the output of each command; then tries the live upgrade, if `upgrade`."""
    with run_gatherer(folder, cluster_of(quorum)) as gatherer:

        def log_and_polls_are_recorded() -> None:
            kinds = [row.kind for row in gatherer.rows()]
            assert kinds.count(ObservationKind.QUORUM) >= 3
            assert kinds.count(ObservationKind.RECORDS) >= 3

        eventually(log_and_polls_are_recorded, within_s=30)
        rows = gatherer.rows()
    failures = [from_json(row.payload) for row in rows if row.kind is ObservationKind.FAILED]
    # On a stalled machine an answer may come too late.
    late = [one for one in failures if isinstance(one, FailedObservation) and one.reason is Reason.TIMED_OUT]
    assert failures == late, "no request is sent that this Kafka does not support"
    return VersionObservations(
        apis=supported_versions(quorum),
        old_epoch_fetch=old_epoch_fetch(quorum),
        status=json_of(quorum, "status"),
        replication=json_of(quorum, "data", "replication"),
        check=checked(quorum),
        events=[
            event for row in rows if row.kind is ObservationKind.RECORDS for event in decode_observation(row).events()
        ],
        bootstrap_file=(quorum.node(CONTROLLER).data / "bootstrap.checkpoint").exists(),
        upgrade=try_upgrade(quorum) if upgrade else None,
    )


def try_upgrade(quorum: Lab) -> tuple[str, Mapping[str, Any]]:
    before = json_of(quorum, "status")["last_offset"]
    printed = quorum.upgrade_features("--feature", "kraft.version=1")

    def status_after_upgrade() -> Mapping[str, Any]:
        status = json_of(quorum, "status")
        # The record of the upgrade is among the following ones.
        assert status["last_offset"] > before + 3
        return status

    status = eventually(status_after_upgrade, within_s=30)
    check = checked(quorum)
    absent = {one["rule"] for one in check["not_applicable"]}
    assert absent.isdisjoint(VOTERS_IN_THE_LOG) is (status["kraft_version"] == 1), "evaluated from the upgrade on"
    return printed, status


def json_of(quorum: Lab, *verb: str) -> dict[str, Any]:
    """Returns the JSON output of a command that is given only the controller's address."""

    def complete_output() -> dict[str, Any]:
        ended = kraftwatch(*verb, "--cluster", f"{NAME}={','.join(quorum.bootstrap)}", "--json")
        output: dict[str, Any] = json.loads(ended.stdout)
        # On a stalled machine a query may time out before all observations are made.
        assert output["missing"] == []
        return output

    return eventually(complete_output, within_s=15)


def checked(quorum: Lab) -> dict[str, Any]:
    """Returns the output of `check` once temporary states are over: a rule that needs three polls, a fenced broker."""

    def healthy() -> dict[str, Any]:
        check = json_of(quorum, "check")
        assert (check["health"], check["unknown"]) == ("healthy", []), "missing data causes no finding"
        return check

    return eventually(healthy, within_s=15)


def old_epoch_fetch(quorum: Lab) -> FetchResult:
    """Returns a controller's response to a Fetch with an old epoch."""
    return parse_fetch(answer(quorum, fetch_request(cluster_id=None)))


def supported_versions(quorum: Lab) -> dict[int, tuple[int, int]]:
    """Returns oldest and newest version of the controller by API key."""
    known = answer(quorum, ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    return {each.api_key: (each.min_version, each.max_version) for each in known.api_keys}


def answer(quorum: Lab, request: Any) -> Any:
    """Sends a request to the controller."""
    cluster = cluster_of(quorum)
    with short_client(cluster) as (loop, client):
        return loop.run(lambda: client.send(Address(*cluster.bootstrap[0]), request, source=ObservationSource.LOG))
