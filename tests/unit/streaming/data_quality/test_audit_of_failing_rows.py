"""The audit of rows that raise: they are reported, and the state is the one without them, as in the job."""

from collections.abc import Mapping
from typing import Any

import pytest

from connectors.event import to_json
from connectors.observation import Observation, ObservationKind
from connectors.observation_event import QuorumPolled
from rules.model.identifiers import Epoch, NodeId, Offset
from streaming.data_quality.audit import Audit
from streaming.data_quality.contract import Suite
from streaming.data_quality.contract_table import Table
from tests.unit.rules.situation import key, row
from tests.unit.streaming.replay.failing_polls import fail_polls

BAD_EPOCH = 8


def poll(sequence: int, epoch: int, payload: bytes | None = None) -> Observation:
    polled = QuorumPolled(
        cluster_id="Zm9yLXRlc3RzLW9ubHkhIQ",
        endpoint="c1.test:9093",
        leader_id=NodeId(1),
        leader_epoch=Epoch(epoch),
        high_watermark=Offset(100),
        voters=(row(key(1)), row(key(2))),
        observers=(),
        nodes=(),
    )
    return Observation(
        cluster="prod",
        kind=ObservationKind.QUORUM,
        observed_at_ms=1_800_000_000_000 + 1_000 * sequence,
        payload=to_json(polled) if payload is None else payload,
        sequence=sequence,
    )


@pytest.fixture
def _raising(monkeypatch: pytest.MonkeyPatch) -> None:
    """Applying a poll of one epoch raises after the poll was applied, as a bug of the replay would."""
    fail_polls(monkeypatch, lambda _, event: event.leader_epoch == BAD_EPOCH)


def audited(*rows: Observation) -> list[Mapping[str, Any]]:
    """The rows of the table of states, as the contracts are evaluated on them."""
    found: list[Mapping[str, Any]] = []

    def collect(suite: Suite, table: Table) -> None:
        if suite is Suite.STATES:
            found.extend(table.frame().to_dict("records"))

    Audit(collect).journal(rows)
    return found


@pytest.mark.usefixtures("_raising")
@pytest.mark.parametrize(("epochs", "last"), [((7, 8), 7), ((7, 8, 9), 9)])
def test_state_after_a_row_that_raises_is_the_one_before_it(epochs: tuple[int, ...], last: int) -> None:
    failed, state = audited(*(poll(sequence, epoch) for sequence, epoch in enumerate(epochs)))

    assert (failed["sequence"], state["leader_epoch"]) == (1, last)
    assert failed["not_applied"].startswith("could not be applied: TypeError in ")
