"""A real quorum of which only the brokers can be reached: a firewall blocks the controllers' listener.

Polls go through a broker, which forwards them to the leader. The firewall is simulated by another loopback address:
the controllers' names resolve to it, and the accept queues of their ports are full, so that packets are dropped.
"""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.program import kraftwatch
from tests.eventually import eventually
from tests.lab import Lab

pytestmark = pytest.mark.lab
FIREWALL = "127.0.0.9"
REFUSES = "127.0.0.10"
"""No process listens at this address, as behind a firewall that answers for the controllers."""


@pytest.fixture(scope="module")
def lab(shared_lab: Callable[..., Lab]) -> Lab:
    return shared_lab(controllers=3, brokers=1, named=True)


@pytest.fixture(scope="module")
def firewall(lab: Lab) -> Iterator[None]:
    """Listens on the controllers' ports with full accept queues, so that connection requests are dropped."""
    with ExitStack() as stack:
        for node in lab.controllers:
            port = lab.node(node).controller_port
            assert port is not None
            server = stack.enter_context(socket.socket())
            server.bind((FIREWALL, port))
            server.listen(0)
            for _ in range(3):
                pending = stack.enter_context(socket.socket())
                pending.setblocking(False)
                pending.connect_ex((FIREWALL, port))
        yield


@pytest.fixture(scope="module")
def config(lab: Lab, firewall: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    section = {
        "name": "a",
        "bootstrap": lab.broker_bootstrap,
        "vantage": "outside",
        "resolve": {lab.node(node).host: FIREWALL for node in lab.controllers},
    }
    file = tmp_path_factory.mktemp("brokers-only") / "kraftwatch.yaml"
    file.write_text(yaml.safe_dump({"clusters": [section]}))
    return file


def json_of(verb: str, config: Path, *more: str) -> dict[str, Any]:
    ended = kraftwatch(verb, "--config", str(config), "--json", "--timeout", "3", *more)
    return {"exit_code": ended.exit_code, **json.loads(ended.stdout)}


def test_status_shows_the_polls_and_reports_the_missing_log(lab: Lab, config: Path) -> None:
    def status_by_polls() -> dict[str, Any]:
        status = json_of("status", config)
        assert (status["cluster_id"], status["leader_id"]) == (lab.cluster_id, lab.leader)
        assert (status["voters_fetching"], status["votes_needed"]) == (3, 2)
        assert status["failures_left"] is None, "whether the controllers reach each other is not observed"
        # The controllers are queried once a poll has reported them; that query times out a second later.
        assert {one["reason"] for one in status["failing"]} == {"unsupported", "timed-out"}
        return status

    status = eventually(status_by_polls, within_s=30)
    assert {one["id"] for one in status["current_voters"]} == set(lab.controllers)
    assert status["missing"] == ["the metadata log was not answered"]
    assert (status["committed_voters"], status["recovering_partitions"], status["brokers"]) == (None, None, None)


def test_rules_that_need_the_log_are_unknown_and_others_are_evaluated(lab: Lab, config: Path) -> None:
    def without_the_log() -> dict[str, Any]:
        checked = json_of("check", config)
        assert checked["missing"] == ["the metadata log was not answered"]
        assert [(one["rule"], one["severity"]) for one in checked["findings"]] == [("monitor-blind", "warning")]
        assert "timed-out" in checked["findings"][0]["summary"], "the firewall drops the query"
        return checked

    checked = eventually(without_the_log, within_s=30)
    assert checked["exit_code"] == 3, "unknown is not healthy"
    (blind,) = checked["findings"]
    assert "no current answer from the metadata log (last answer: never)" in blind["summary"]
    assert f"brokers ({lab.broker_bootstrap[0]}) do not serve the metadata log" in " ".join(blind["remedy"])
    assert any(line.startswith("# Check the network between the monitor and c1.") for line in blind["remedy"])
    by_log = {one["rule"] for one in checked["unknown"]}
    assert {"stale-voter-endpoint", "partition-stuck-recovering", "voter-disk-replaced", "broker-fenced"} <= by_log
    assert not {"no-leader", "failure-tolerance", "voter-lagging", "quorum-shape"} & by_log, (
        "polls are sufficient for these"
    )


def checked_without_the_leader(lab: Lab, file: Path, address: str) -> tuple[int, dict[str, Any]]:
    """Returns the leader and what `check` prints while the leader's name leads to this address."""
    leader = lab.leader
    resolved = {lab.node(node).host: address if node == leader else "127.0.0.1" for node in lab.controllers}
    section = {"name": "a", "bootstrap": lab.bootstrap, "resolve": resolved}
    file.write_text(yaml.safe_dump({"clusters": [section]}))
    return leader, json_of("check", file)


def test_a_leader_that_refuses_connections_is_none(lab: Lab, firewall: None, tmp_path: Path) -> None:
    """Its followers name it, as they do when it is down: a firewall that refuses instead of dropping looks the same."""

    def no_leader() -> None:
        _, checked = checked_without_the_leader(lab, tmp_path / "kraftwatch.yaml", REFUSES)
        assert ([one["rule"] for one in checked["findings"]], checked["exit_code"]) == (["no-leader"], 2)

    eventually(no_leader, within_s=60)


@pytest.mark.live
def test_leader_behind_the_firewall_is_monitor_blind_and_not_no_leader(
    lab: Lab, firewall: None, tmp_path: Path
) -> None:
    def leader_is_unreachable() -> dict[str, Any]:
        leader, checked = checked_without_the_leader(lab, tmp_path / "kraftwatch.yaml", FIREWALL)
        assert [one["rule"] for one in checked["findings"]] == ["monitor-blind"]
        assert f"Controller {leader}, the leader, does not answer here, but " in checked["findings"][0]["summary"]
        return checked

    checked = eventually(leader_is_unreachable, within_s=60)
    assert checked["exit_code"] == 3, "from here it looks like an outage"
    (blind,) = checked["findings"]
    assert len(blind["evidence"]["reported_by"]) == 2
