"""`kraftwatch safe-to-restart`: whether a node may be restarted now, when it may, and in which order several may."""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.errors import UsageError
from rules.model.identifiers import selects
from streaming.cli.options import RestartOptions, with_options
from streaming.cli.output import print_json, print_progress, print_text

if TYPE_CHECKING:
    from rules.answers.after_restart import AfterRestart
    from rules.answers.restart import RestartSafety
    from rules.model.identifiers import NodeId
    from streaming.status.cluster_status import ClusterState

_EXIT_UNKNOWN = 3
_MOST_NODES = 1_000
_REPEAT_S = 1.0
_FETCHES_S = 3.0
"""So long an answer waits for the next fetch of each node: what fetched before the question may have failed since. A
node fetches twice a second, and the time of a fetch is known to a second."""
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

    With --after it answers whether the node is back: a voter fetches with its
    recorded disk, in sync, and its endpoint reaches it; a broker is registered
    with its directories, unfenced, and its replicas are in sync. Run it when
    the former process has ended.

    With --despite REASON it leaves one reason out, which the answer names, if
    that costs neither the leader nor records. Restarts that a silence
    announced are no crash loop; with --announce 10m a yes makes one, and no
    other node may be restarted until --after says that this one is back.

    With --wait it asks again every second until the answer is yes, and says
    on stderr why it waits. With --order it proposes the order of several
    nodes, and answers for the first one.

    Exit codes: 0 safe (or back), 2 not (or invalid usage), 3 unknown.

      kraftwatch safe-to-restart 2 --cluster prod=c1:9093,c2:9093,c3:9093

      kraftwatch safe-to-restart 101 --wait 10m --config kraftwatch.yaml

      kraftwatch safe-to-restart 1,2,3,101,102 --order --config kraftwatch.yaml
    """
    from streaming.cli.cluster_query import until_true

    if opts.after and opts.order:
        raise UsageError("--after is asked of one node: do not combine it with --order")
    if opts.despite is not None:
        from streaming.status.restart_output import check_despite

        check_despite(opts.despite)
    if opts.after and (opts.despite or opts.announce):
        raise UsageError("--despite and --announce are about a restart that is still to come: not with --after")
    if opts.announce and (opts.order or opts.config is None):
        raise UsageError("--announce writes a silence into the database of one job: give --config and one node")
    asked = _nodes(nodes, several=opts.order)
    question: _Question
    if _is_of_job(opts):
        question = of_job = _AnswerOfJob(opts, asked[0])
        of_job.ask()
    else:
        question = _Back(opts, asked[0]) if opts.after else _SafeToRestart(opts, asked)
        until_true(opts, question.is_settled, within_s=max(opts.wait, _FETCHES_S))
    question.print_answer()
    raise typer.Exit(_EXIT_UNKNOWN if question.answer is None else 0 if question.answer else 2)


def _is_of_job(opts: RestartOptions) -> bool:
    """Returns whether the job of `--job` answers: not where more is asked than it evaluates for each status."""
    more = opts.after or opts.order or opts.strict or opts.min_isr or opts.witness or opts.setting
    return opts.job is not None and not opts.live and not more


class _Question(ABC):
    """A question that is asked until its answer is yes; says why it waits when that has changed."""

    def __init__(self, opts: RestartOptions) -> None:
        self._opts = opts
        self._said = ""
        self.answer: bool | None = None

    def is_settled(self, state: "ClusterState") -> bool:
        """Asks, and says on stderr why it waits; returns whether the answer is yes, or a no for which nobody waits."""
        return self._answered(*self._asked(state)) or (self.answer is False and self._refusal_is_final)

    @property
    def _refusal_is_final(self) -> bool:
        return not self._opts.wait

    def _answered(self, answer: bool | None, why: str) -> bool:  # noqa: FBT001 - it is the answer
        self.answer = answer
        if self._opts.wait and not self.answer:
            before, self._said = self._said, _CHANGING.sub("", why)
            if self._said != before and self._opts.as_json:
                self.print_answer()
            elif self._said != before:
                print_progress(f"waiting: {why}")
        return self.answer is True

    def _asked(self, state: "ClusterState") -> tuple[bool | None, str]:
        """Returns the answer, and why it is not yes."""
        raise NotImplementedError

    @abstractmethod
    def print_answer(self) -> None:
        """Prints what was answered last."""


class _AnswerOfJob(_Question):
    """Whether a node may be restarted, as the job of `--job` answers by its newest status."""

    def __init__(self, opts: RestartOptions, node: "NodeId") -> None:
        super().__init__(opts)
        self._node = node
        self._last: Mapping[str, Any] = {}

    def ask(self) -> None:
        """Asks until the answer is yes or the time is up, each time by what the job observes from then on."""
        from streaming.cli import config_from_options
        from streaming.cli.cluster_query import only_one
        from streaming.cli.recorded_states import job_page

        opts = self._opts
        page, only = job_page(opts), config_from_options.patterns(opts.only)
        known = [*page.cluster_ids()]
        config_from_options.check_only(only, known)
        name = only_one([name for name in known if selects(only, name)])
        end = time.monotonic() + opts.wait
        while True:
            self._last = page.restart(name, self._node, opts.despite)
            against, unknown = self._last["against"], self._last["unknown"]
            yes = self._answered(self._last["safe"], f"node {self._node}: {'; '.join((*against, *unknown))}")
            if yes or time.monotonic() >= end:
                return
            time.sleep(_REPEAT_S)

    def print_answer(self) -> None:
        """Prints the answer."""
        from streaming.status.restart_output import restart_text

        if self._opts.as_json:
            print_json(self._last)
        else:
            print_text(restart_text(self._last))


class _SafeToRestart(_Question):
    """Whether a node may be restarted, of several the first one."""

    def __init__(self, opts: RestartOptions, nodes: "Sequence[NodeId]") -> None:
        super().__init__(opts)
        self._nodes = nodes
        self._state: ClusterState | None = None
        self._answers: Sequence[RestartSafety] = ()
        """In the order of the restarts."""

    def _asked(self, state: "ClusterState") -> tuple[bool | None, str]:
        first = self._evaluated(state)
        while first.safe and self._opts.announce and not self._announced(state, first):
            first = self._evaluated(state)
        return first.safe, f"node {first.node}: {'; '.join((*map(str, first.against), *first.unknown))}"

    def _evaluated(self, state: "ClusterState") -> "RestartSafety":
        """Evaluates the restart of each node; returns the answer for the first one."""
        from rules.answers.broker_restart import RestartTerms
        from rules.answers.restart import restartable
        from rules.answers.restart_order import restart_order
        from streaming.cli.cluster_query import job_silences
        from streaming.status import restart_output

        opts, silences = self._opts, job_silences(self._opts)
        announced = restart_output.announcements(silences, state.quorum.cluster, restartable(state.facts))
        terms = RestartTerms(strict=opts.strict, min_isr=opts.min_isr, despite=opts.despite, announced=announced)
        answers = {node: restart_output.evaluate_restart(state, node, terms) for node in self._nodes}
        order = restart_order(state.facts, answers) if opts.order else self._nodes
        self._state, self._answers = state, [answers[node] for node in order]
        return self._answers[0]

    def _announced(self, state: "ClusterState", first: "RestartSafety") -> bool:
        """Adds a silence for the restart to the database of the job; returns False if another one was added too."""
        from connectors.process.wall_clock import wall_ms
        from connectors.store.collection import SilenceStore
        from rules.formatting import iso
        from rules.model.identifiers import Millis
        from streaming.cli.options import database_to_write, job_place, person
        from streaming.status.restart_output import announcing, is_only_one

        cluster, now_ms = state.quorum.cluster, wall_ms()
        until_ms = Millis(now_ms + round(self._opts.announce * 1000))
        silences = announcing(cluster, first, now_ms, until_ms, author=person("--author", None))
        store = SilenceStore(database_to_write(job_place(None, self._opts.config).store))
        store.add(*silences, now_ms=now_ms)
        if not is_only_one(store.read(), silences[0], now_ms):
            store.end(silences[0].id, now_ms=now_ms)
            return False
        print_progress(f"restart of node {first.node} announced until {iso(until_ms)}: silence {silences[0].id}")
        return True

    def print_answer(self) -> None:
        """Prints the answer, or with --order all of them."""
        from streaming.status import restart_output

        state, answers = self._state, self._answers
        assert state is not None
        if self._opts.order and self._opts.as_json:
            print_json(restart_output.order_json(state, answers))
        elif self._opts.order:
            print_text(restart_output.order_text(state, answers))
        elif self._opts.as_json:
            print_json(restart_output.restart_json(state, answers[0]))
        else:
            print_text(restart_output.restart_text(restart_output.restart_json(state, answers[0])))


class _Back(_Question):
    """Whether a node that was restarted is back."""

    def __init__(self, opts: RestartOptions, node: "NodeId") -> None:
        super().__init__(opts)
        self._node = node
        self._last: tuple[ClusterState, AfterRestart] | None = None

    def _asked(self, state: "ClusterState") -> tuple[bool | None, str]:
        from streaming.status import restart_output

        found = restart_output.evaluate_after_restart(state, self._node)
        self._last = state, found
        if found.back:
            self._end_announcement(state.quorum.cluster)
        return found.back, f"node {found.node}: {'; '.join((*found.missing, *found.unknown))}"

    @property
    def _refusal_is_final(self) -> bool:
        # It may fetch yet.
        return False

    def _end_announcement(self, cluster: str) -> None:
        """Ends what `--announce` added for this node: its restart is over."""
        from connectors.errors import StoreError
        from connectors.process.wall_clock import wall_ms
        from connectors.store.collection import SilenceStore
        from streaming.cli.cluster_query import job_silences
        from streaming.cli.options import database_to_write, job_place
        from streaming.status.restart_output import announcements_of

        now_ms = wall_ms()
        if over := announcements_of(job_silences(self._opts), cluster, self._node, now_ms):
            try:
                store = SilenceStore(database_to_write(job_place(None, self._opts.config).store))
                for silence in over:
                    store.end(silence, now_ms=now_ms)
            except (UsageError, StoreError) as problem:
                print_progress(f"the announcement of its restart goes on: {problem}")

    def print_answer(self) -> None:
        """Prints the answer."""
        from streaming.status import restart_output

        assert self._last is not None
        if self._opts.as_json:
            print_json(restart_output.after_json(*self._last))
        else:
            print_text(restart_output.after_text(*self._last))


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
