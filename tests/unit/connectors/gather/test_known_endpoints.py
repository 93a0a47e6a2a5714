"""The endpoints that a restarted gatherer knows."""

from pathlib import Path

import pytest

from connectors.gather.node_directory import (
    ENDPOINTS_JSON,
    KnownEndpoints,
    NodeDirectory,
    ProbeTarget,
    stored_endpoints,
)
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from rules.model.identifiers import Endpoint, NodeId
from tests.unit.connectors.store.journal_rows import poll

C1 = Endpoint(listener="CONTROLLER", host="c1", port=9093)
C2 = Endpoint(listener="CONTROLLER", host="c2", port=9093)
KNOWN = KnownEndpoints(
    voters={NodeId(1): (C1,)}, registered={NodeId(1): (C1,), NodeId(2): (C2,)}, polled={NodeId(1): (C1,)}
)


def noted(journal: Path, cluster: str, known: KnownEndpoints) -> None:
    with JournalWriter(journal) as writer:
        writer.note_endpoints({cluster: ENDPOINTS_JSON.dump_json(known).decode()})
        writer.append([poll()])


def test_stored_endpoints_are_read_back_and_kept_for_clusters_that_are_not_monitored_now(tmp_path: Path) -> None:
    noted(tmp_path, "prod", KNOWN)
    noted(tmp_path, "other", KnownEndpoints())

    assert {name: stored_endpoints(text) for name, text in JournalReader(tmp_path).endpoints().items()} == {
        "prod": KNOWN,
        "other": KnownEndpoints(),
    }
    with JournalWriter(tmp_path) as writer:
        assert stored_endpoints(writer.endpoints("prod")) == KNOWN
        assert writer.endpoints("absent") is None


def test_damaged_or_missing_endpoints_are_unknown() -> None:
    assert stored_endpoints("{") == stored_endpoints('{"voters": 1}') == stored_endpoints(None) == KnownEndpoints()


@pytest.mark.kip("D132")
def test_restarted_gatherer_probes_the_cached_voters_at_once() -> None:
    nodes = NodeDirectory(configured=(), cluster_id=None, known_endpoints=KNOWN)

    assert nodes.probe_targets() == (ProbeTarget(node=NodeId(1), endpoint=C1),)
    assert nodes.known_endpoints == KNOWN
