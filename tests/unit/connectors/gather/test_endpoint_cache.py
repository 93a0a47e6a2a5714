"""What a gatherer that starts again knows of endpoints."""

import logging
from pathlib import Path

import pytest

from connectors.gather.endpoint_cache import NAME, Memory
from connectors.gather.node_directory import Learned, Place, Whereabouts
from rules.model.identifiers import Endpoint, NodeId

C1 = Endpoint(listener="CONTROLLER", host="c1", port=9093)
C2 = Endpoint(listener="CONTROLLER", host="c2", port=9093)
LEARNED = Learned(voters={NodeId(1): (C1,)}, registered={NodeId(1): (C1,), NodeId(2): (C2,)}, polled={NodeId(1): (C1,)})


def test_what_was_kept_is_known_again(tmp_path: Path) -> None:
    Memory(tmp_path).keep({"prod": LEARNED})

    assert Memory(tmp_path).of("prod") == LEARNED
    assert Memory(tmp_path).of("other") == Learned()


@pytest.mark.kip("D132")
def test_whoever_starts_with_it_probes_the_recorded_voters_at_once() -> None:
    where = Whereabouts(configured=(), cluster_id=None, learned=LEARNED)

    assert where.places() == (Place(node=NodeId(1), endpoint=C1),)
    assert where.learned == LEARNED


def test_a_cluster_that_is_not_watched_now_is_not_forgotten(tmp_path: Path) -> None:
    Memory(tmp_path).keep({"prod": LEARNED})
    Memory(tmp_path).keep({"other": Learned()})

    assert Memory(tmp_path).of("prod") == LEARNED


def test_nothing_is_written_while_nothing_changes(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.keep({"prod": LEARNED})
    (tmp_path / NAME).unlink()

    memory.keep({"prod": LEARNED})

    assert not (tmp_path / NAME).exists()


def test_a_damaged_file_costs_sight_and_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / NAME).write_text("{")

    with caplog.at_level(logging.WARNING):
        memory = Memory(tmp_path)

    assert memory.of("prod") == Learned()
    assert "endpoints are unknown" in caplog.text
