"""The faults of a live campaign: each is injected into a real quorum, is reported by one alert, and is fixed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from deploy.lab.lab import Lab
from streaming.demo.job_process import AlertLine

THRESHOLDS = {
    "no-leader": {"hold": 6, "clear": 3},
    "broker-fenced": {"hold": 4, "clear": 3},
    "voter-disk-replaced": {"hold": 5, "clear": 3},
    "failure-tolerance": {"hold": 5, "clear": 3},
    # The campaign causes many elections, and restarts nodes again and again.
    "epoch-churn": {"elections": 10_000},
    "node-restarting": {"starts": 10_000},
}
"""Short, so that a fault takes seconds."""


@dataclass(frozen=True, kw_only=True)
class LiveFault:
    """A fault, and the alert that reports it."""

    description: str
    rule: str
    subject: str
    """Part of the alert's subject."""
    inject: Callable[[], None]
    fix: Callable[[AlertLine], None]
    """Fixes it; gets the alert with its remedy."""

    def is_reported_by(self, line: AlertLine) -> bool:
        """Returns whether a line of the jsonl file is about this fault."""
        return line.rule == self.rule and self.subject in line.subject


def choose_fault(lab: Lab, random: Random) -> LiveFault:
    """Returns the next fault of a quorum that is healthy."""
    return random.choice((_killed_broker, _killed_broker, _paused_majority, _stopped_voter, _replaced_disk))(
        lab, random
    )


def _killed_broker(lab: Lab, random: Random) -> LiveFault:
    broker = random.choice(lab.brokers)
    return LiveFault(
        description=f"broker {broker} is killed",
        rule="broker-fenced",
        subject=f"broker {broker}",
        inject=lambda: lab.kill(broker),
        fix=lambda _: lab.start(broker),
    )


def _paused_majority(lab: Lab, random: Random) -> LiveFault:
    paused = [_leader(lab), random.choice(_followers(lab))]
    return LiveFault(
        description=f"controllers {paused} are paused",
        rule="no-leader",
        subject="",
        inject=lambda: lab.pause(*paused),
        fix=lambda _: lab.resume(*paused),
    )


def _stopped_voter(lab: Lab, random: Random) -> LiveFault:
    node = random.choice(_followers(lab))
    return LiveFault(
        description=f"controller {node} is stopped",
        rule="failure-tolerance",
        subject="",
        inject=lambda: lab.stop(node),
        fix=lambda _: lab.start(node),
    )


def _replaced_disk(lab: Lab, random: Random) -> LiveFault:
    node = random.choice(_followers(lab))

    def inject() -> None:
        lab.stop(node)
        lab.wipe_disk(node)
        lab.start(node)

    def fix(alert: AlertLine) -> None:
        for line in alert.remedy:
            lab.run_remedy(line, node_properties=lab.node(node).properties_file)

    return LiveFault(
        description=f"the disk of controller {node} is replaced",
        rule="voter-disk-replaced",
        subject=f"controller {node}",
        inject=inject,
        fix=fix,
    )


def await_healthy(lab: Lab) -> None:
    """Waits until every voter has fetched what is committed now, and every broker is an observer."""
    now = lab.await_state(lambda state: True, what="a leader").high_watermark
    lab.await_state(
        lambda state: (
            state.voter_ids == set(lab.controllers) and all(voter.log_end_offset > now for voter in state.voters)
        ),
        what=f"every controller a voter beyond offset {now}",
    )


def _leader(lab: Lab) -> int:
    return lab.await_state(lambda state: True, what="a leader").leader_id


def _followers(lab: Lab) -> Sequence[int]:
    leader = _leader(lab)
    return [node for node in lab.controllers if node != leader]
