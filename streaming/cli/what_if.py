"""`kraftwatch what-if`: whether the quorum survives a change of its controllers, before it is made."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.errors import UsageError
from streaming.cli.options import LookBackOptions, with_options
from streaming.cli.output import print_json, print_text

if TYPE_CHECKING:
    from rules.answers.what_if import Change, Controllers

_ALL = "all"
_EXIT_UNKNOWN = 3


@with_options(LookBackOptions)
def what_if(
    opts: LookBackOptions,
    move: Annotated[
        list[str] | None,
        typer.Option("--move", help="A controller gets another endpoint. May be repeated.", metavar="NODE=HOST:PORT"),
    ] = None,
    lose: Annotated[
        list[int] | None,
        typer.Option("--lose", help="A controller does not come back. May be repeated.", metavar="NODE"),
    ] = None,
    restart: Annotated[
        str, typer.Option("--restart", help="The controllers that are restarted.", metavar="all|NODE,…")
    ] = _ALL,
) -> None:
    """Predict whether the quorum has a leader after a change of its controllers.

    A candidate dials the endpoints that its own log records, so a moved voter
    is not reached by the others, although it can still ask them for votes.
    Without --move and --lose: whether a restart of all controllers is survived.

    Exit codes: 0 a leader can be elected (or stays), 2 not (or invalid usage),
    3 unknown.

      kraftwatch what-if --config kraftwatch.yaml --move 2=c2.new:9093

      kraftwatch what-if --log-dir c1/metadata --log-dir c2/metadata --lose 3
    """
    from streaming.status.what_if import what_if as evaluate
    from streaming.status.what_if import what_if_json, what_if_text

    change = _change(move or (), lose or (), restart)
    result = evaluate(_controllers(opts), change)
    if opts.as_json:
        print_json(what_if_json(result))
    else:
        print_text(what_if_text(result))
    raise typer.Exit(_EXIT_UNKNOWN if result.electable is None else 0 if result.electable else 2)


def _controllers(opts: LookBackOptions) -> "Controllers":
    from rules.answers.what_if import controllers_of_quorum
    from streaming.cli import cluster_query
    from streaming.status.cluster_status import StatusSource
    from streaming.status.status_tables import recorded_note
    from streaming.status.what_if import controllers_of_disks

    if opts.log_dir:
        return controllers_of_disks(cluster_query.read_disks(opts))
    state = cluster_query.query_one_cluster(opts)
    controllers = controllers_of_quorum(state.facts)
    if state.source is StatusSource.NONE and controllers.voters is None:
        why = "no leader answered: kraftwatch doctor, with the same options, says what fails at each address"
        return replace(controllers, electorate=replace(controllers.electorate, unobserved=why))
    if state.source is not StatusSource.JOURNAL:
        return controllers
    note = recorded_note(state.age_ms, state.missing)
    return replace(controllers, assumed=(note, *controllers.assumed))


def _change(move: Sequence[str], lose: Sequence[int], restart: str) -> "Change":
    from connectors.settings.sections import host_port
    from rules.answers.what_if import Change
    from rules.model.identifiers import NodeId

    moved = {}
    for item in move:
        number, _, address = item.partition("=")
        try:
            node, place = NodeId(int(number)), host_port(address)
        except ValueError:
            raise UsageError(f"--move {item}: expected NODE=HOST:PORT, such as 2=c2.new:9093") from None
        if node in moved:
            raise UsageError(f"--move names controller {node} twice")
        moved[node] = place
    both = sorted({*moved} & {*lose})
    if both:
        raise UsageError(f"controller {both[0]} cannot be moved and lost")
    restarted = None if restart == _ALL else [part.strip() for part in restart.split(",")]
    if not all(part.isascii() and part.isdigit() for part in restarted or ()):
        raise UsageError(f"--restart {restart}: expected all, or node ids separated by commas, such as 1,2")
    nodes = None if restarted is None else frozenset(NodeId(int(part)) for part in restarted)
    return Change(moved=moved, lost=frozenset(map(NodeId, lose)), restarted=nodes)
