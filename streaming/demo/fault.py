"""What a fault of a quorum is: its nodes, how it is injected and ended, and the alerts that it must cause.

The faults of the demo are here; `tests.faults` has all.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from deploy.lab.lab import Lab

Nodes = Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedAlert:
    """An alert that must fire, and what it must say first."""

    rule: str
    severity: str
    sentence: str
    """A regular expression for the first sentence of its summary: the conclusion."""
    step: str
    """A regular expression for the first line of its remedy."""
    subject: str = ""
    """A part of its subject. With `{node}` there is an alert for each node of the fault."""
    within_s: float = 90.0
    """After its hold."""

    def problems(self, *, severity: str, summary: str, remedy: Sequence[str]) -> Iterator[str]:
        """Yields what an alert of this rule has or says otherwise."""
        if severity != self.severity:
            yield f"severity {severity}, expected {self.severity}"
        sentence, step = first_sentence(summary), remedy[0] if remedy else ""
        if re.match(self.sentence, sentence) is None:
            yield f"unexpected text: {sentence}"
        if re.match(self.step, step) is None:
            yield f"unexpected step: {step}"


End = Callable[[Lab, Nodes, Sequence[str]], None]
"""Ends a fault of these nodes; takes the remedy of its first alert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of a quorum."""

    name: str
    """A few words for a table."""
    nodes: Callable[[Lab], Nodes]
    """Returns the nodes on which it acts, of a healthy quorum."""
    inject: Callable[[Lab, Nodes], None]
    end: End
    """The alerts resolve after it."""
    alerts: tuple[ExpectedAlert, ...]
    """None: nobody needs to be notified."""
    never: tuple[str, ...] = ()
    """Rules of which no alert may fire."""

    def expected(self, nodes: Nodes) -> tuple[ExpectedAlert, ...]:
        """Returns the alerts that must fire if it acts on these nodes."""
        return tuple(
            replace(alert, subject=alert.subject.format(node=node))
            for alert in self.alerts
            for node in (nodes if "{node}" in alert.subject else nodes[:1])
        )


def first_sentence(text: str) -> str:
    """Returns the text up to the first full stop or question mark that ends a sentence."""
    return re.split(r"(?<=[.?])\s", text, maxsplit=1)[0]


def one_follower(lab: Lab) -> Nodes:
    """Returns a controller that does not lead."""
    return lab.followers[:1]


def all_controllers(lab: Lab) -> Nodes:
    """Returns all controllers."""
    return lab.controllers


def start_nodes(lab: Lab, nodes: Nodes, _: Sequence[str]) -> None:
    """Starts the nodes that are stopped."""
    lab.start(*(node for node in nodes if not lab.node(node).running))


def run_printed_commands(lab: Lab, nodes: Nodes, remedy: Sequence[str]) -> None:
    """Runs exactly the commands of the alert, on the first node."""
    for line in remedy:
        lab.run_remedy(line, node_properties=lab.node(nodes[0]).properties_file)


def _names(lab: Lab, nodes: Nodes) -> list[str]:
    return [lab.node(node).host for node in nodes]


def _replace_disk(lab: Lab, nodes: Nodes) -> None:
    lab.stop(*nodes)
    for node in nodes:
        lab.wipe_disk(node)
    lab.start(*nodes)


def _elect_uncleanly(lab: Lab, _: Nodes) -> None:
    """One broker lags, the other one stops, and the first one is elected."""
    lab.leave_partitions_recovering(*TOPICS)


TOPICS = ("orders", "payments")
_COPY_FIRST = r"# Do not start or restart broker \d+ before you have copied"
NO_LEADER = ExpectedAlert(
    rule="no-leader",
    severity="critical",
    sentence=r"No leader since .*: no metadata change is possible",
    step=r"# Start controller \d+ at",
)
CONTROLLERS_KILLED = Fault(
    name="all controllers are killed",
    nodes=all_controllers,
    # All at once: one that still answers while the others refuse would be another fault.
    inject=lambda lab, nodes: lab.kill(*nodes),
    end=start_nodes,
    alerts=(NO_LEADER,),
)
NAMES_DROPPED = Fault(
    name="the controllers' names are dropped",
    nodes=all_controllers,
    inject=lambda lab, nodes: lab.names.drop(*_names(lab, nodes)),
    end=lambda lab, nodes, _: lab.names.add(*_names(lab, nodes)),
    alerts=(
        ExpectedAlert(
            rule="stale-voter-endpoint",
            severity="critical",
            subject="voter {node}",
            sentence=r"Voter \d+'s recorded endpoint \S+ does not resolve",
            step="# Do not restart",
        ),
    ),
)
DISK_REPLACED = Fault(
    name="a controller's disk is replaced",
    nodes=one_follower,
    inject=_replace_disk,
    end=run_printed_commands,
    alerts=(
        ExpectedAlert(
            rule="voter-disk-replaced",
            severity="warning",
            subject="controller {node}",
            sentence=r"Controller \d+ has a new directory id and is not a voter",
            step=r"# Check on controller \d+'s host that the directory \S+ .* is lost",
        ),
    ),
)
ELECTED_UNCLEANLY = Fault(
    name="an unclean election; partitions stay RECOVERING",
    nodes=lambda lab: lab.brokers[:2],
    inject=_elect_uncleanly,
    end=start_nodes,
    alerts=(
        ExpectedAlert(
            rule="unclean-election",
            severity="critical",
            sentence=r"\d+ unclean leader election",
            step=_COPY_FIRST,
        ),
        *(
            ExpectedAlert(
                rule="partition-stuck-recovering",
                severity="warning",
                subject=topic,
                sentence=rf"\d+ partitions? of topic {topic} (has|have) been RECOVERING since",
                step=_COPY_FIRST,
            )
            for topic in TOPICS
        ),
    ),
)
