"""`kraftwatch safe-to-restart`: whether a node may be restarted now, when it may, and in which order several may."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.errors import UsageError
from streaming.cli.options import RestartOptions, with_options
from streaming.cli.output import print_json, print_progress, print_text

if TYPE_CHECKING:
    from rules.answers.restart import RestartSafety
    from rules.model.identifiers import NodeId
    from streaming.status.cluster_status import ClusterState

_EXIT_UNKNOWN = 3
_MOST_NODES = 1_000
_CHANGING = re.compile(r"\d[\d.]* (?:ms|s|min|h|days)\b|\d+ (?:partitions?|committed records) ?(?:\(.*?\))?")
"""What differs in a reason from second to second: ages and counts."""


@with_options(RestartOptions)
def safe_to_restart(
    opts: RestartOptions,
    nodes: Annotated[
        str,
        typer.Argument(help="The node.id; several, separated by commas, with --order.", metavar="NODE"),
    ],
) -> None:
    """Check whether a node may be restarted now; print the reasons if not.

    Of a controller: without it, a majority of caught-up voters remains that
    can elect a leader; every recorded endpoint resolves to its voter, which
    accepts what the others send; no other controller is down; no disk
    replacement and no voter change is in progress. Of a broker: each partition
    with several replicas keeps a leader, and as many in-sync replicas as
    min.insync.replicas wants. A node of both roles needs both. Unknown is not
    safe. Run it in a rolling restart before each node.

    With --wait it asks again every second until the node may be restarted, and
    says on stderr why it waits. With --order it proposes the order of several
    nodes, and answers for the first one.

    Exit codes: 0 safe, 2 not safe (or invalid usage), 3 unknown.

      kraftwatch safe-to-restart 2 --cluster prod=c1:9093,c2:9093,c3:9093

      kraftwatch safe-to-restart 101 --wait 10m --config kraftwatch.yaml

      kraftwatch safe-to-restart 1,2,3,101,102 --order --config kraftwatch.yaml
    """
    from streaming.cli.cluster_query import until_true

    asked = _nodes(nodes, several=opts.order)
    view = _View(opts, asked)
    until_true(opts, view.answers_yes, within_s=opts.wait)
    view.print_answer()
    raise typer.Exit(_EXIT_UNKNOWN if view.safe is None else 0 if view.safe else 2)


class _View:
    """What was answered last, and what is printed of it."""

    def __init__(self, opts: RestartOptions, nodes: "Sequence[NodeId]") -> None:
        self._opts, self._nodes = opts, nodes
        self._state: ClusterState | None = None
        self._answers: Mapping[NodeId, RestartSafety] = {}
        self._order: Sequence[NodeId] = nodes
        self._said = ""

    @property
    def safe(self) -> bool | None:
        """Whether the first node may be restarted."""
        return self._answers[self._order[0]].safe

    def answers_yes(self, state: "ClusterState") -> bool:
        """Evaluates the restarts; says on stderr why it waits, when that has changed."""
        from rules.answers.broker_restart import RestartTerms
        from rules.answers.restart_order import restart_order
        from streaming.status import check_output

        terms = RestartTerms(strict=self._opts.strict, min_isr=self._opts.min_isr)
        self._state = state
        self._answers = {node: check_output.evaluate_restart(state, node, terms) for node in self._nodes}
        self._order = restart_order(state.facts, self._answers) if self._opts.order else self._nodes
        answer = self._answers[self._order[0]]
        if self._opts.wait and not answer.safe:
            why = f"waiting for node {answer.node}: {'; '.join((*answer.against, *answer.unknown))}"
            before, self._said = self._said, _CHANGING.sub("", why)
            if self._said != before:
                self._print_waiting(why)
        return answer.safe is True

    def _print_waiting(self, why: str) -> None:
        if self._opts.as_json:
            self.print_answer()
        else:
            print_progress(why)

    def print_answer(self) -> None:
        """Prints what was answered last."""
        from streaming.status import check_output

        assert self._state is not None
        if self._opts.order:
            answers = [self._answers[node] for node in self._order]
            if self._opts.as_json:
                print_json(check_output.order_json(self._state, answers))
            else:
                print_text(check_output.order_text(self._state, answers))
            return
        answer = self._answers[self._order[0]]
        if self._opts.as_json:
            print_json(check_output.restart_json(self._state, answer))
        else:
            print_text(check_output.restart_text(self._state, answer))


def _nodes(text: str, *, several: bool) -> "Sequence[NodeId]":
    from rules.model.identifiers import NodeId

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"invalid NODE '{text}': expected a node.id such as 2, or with --order several such as 1,2,3")
    nodes = [*dict.fromkeys(NodeId(int(part)) for part in parts)]
    if len(nodes) > 1 and not several:
        raise UsageError(f"{len(nodes)} nodes are given, and nodes are restarted one after the other: give --order")
    if len(nodes) > _MOST_NODES:
        raise UsageError(f"{len(nodes)} nodes are given, expected at most {_MOST_NODES}")
    return nodes
