"""The endpoint cache of a restarted gatherer."""

import logging
from pathlib import Path

import pytest

from connectors.gather.endpoint_cache import NAME, EndpointCache
from connectors.gather.node_directory import KnownEndpoints, NodeDirectory, ProbeTarget
from rules.model.identifiers import Endpoint, NodeId

C1 = Endpoint(listener="CONTROLLER", host="c1", port=9093)
C2 = Endpoint(listener="CONTROLLER", host="c2", port=9093)
KNOWN = KnownEndpoints(
    voters={NodeId(1): (C1,)}, registered={NodeId(1): (C1,), NodeId(2): (C2,)}, polled={NodeId(1): (C1,)}
)


def test_cached_endpoints_are_read_back(tmp_path: Path) -> None:
    EndpointCache(tmp_path).update({"prod": KNOWN})

    assert EndpointCache(tmp_path).of("prod") == KNOWN
    assert EndpointCache(tmp_path).of("other") == KnownEndpoints()


@pytest.mark.kip("D132")
def test_restarted_gatherer_probes_the_cached_voters_at_once() -> None:
    nodes = NodeDirectory(configured=(), cluster_id=None, known_endpoints=KNOWN)

    assert nodes.probe_targets() == (ProbeTarget(node=NodeId(1), endpoint=C1),)
    assert nodes.known_endpoints == KNOWN


def test_endpoints_of_a_cluster_that_is_not_monitored_now_are_kept(tmp_path: Path) -> None:
    EndpointCache(tmp_path).update({"prod": KNOWN})
    EndpointCache(tmp_path).update({"other": KnownEndpoints()})

    assert EndpointCache(tmp_path).of("prod") == KNOWN


def test_unchanged_endpoints_are_not_written(tmp_path: Path) -> None:
    cache = EndpointCache(tmp_path)
    cache.update({"prod": KNOWN})
    (tmp_path / NAME).unlink()

    cache.update({"prod": KNOWN})

    assert not (tmp_path / NAME).exists()


def test_damaged_file_is_logged_and_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / NAME).write_text("{")

    with caplog.at_level(logging.WARNING):
        cache = EndpointCache(tmp_path)

    assert cache.of("prod") == KnownEndpoints()
    assert "endpoints stay unknown" in caplog.text
