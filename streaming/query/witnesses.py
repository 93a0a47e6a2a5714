"""Adds what controllers' hosts saw to the states of clusters, and evaluates them again."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rules.evaluate import evaluate
from rules.facts.quorum import Facts
from rules.model.witness import WitnessRow
from streaming.status.cluster_status import ClusterState


def with_witnesses(states: Iterable[ClusterState], rows: Sequence[WitnessRow]) -> Sequence[ClusterState]:
    """Returns the states, each with the rows of its cluster."""
    return [
        _with_rows(state, tuple(row for row in rows if row.cluster_id == state.quorum.cluster_id)) for state in states
    ]


def _with_rows(state: ClusterState, rows: tuple[WitnessRow, ...]) -> ClusterState:
    if not rows:
        return state
    facts = Facts(replace(state.quorum, witnesses=(*state.quorum.witnesses, *rows)))
    return replace(state, facts=facts, evaluation=evaluate(facts, state.thresholds))
