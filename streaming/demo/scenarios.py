"""The four scenarios of the demo: a fault as an operator would meet it, and how it is fixed.

Each one was reproduced on a real quorum first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deploy.lab.lab import Lab
from streaming.demo.fault import (
    CONTROLLERS_KILLED,
    DISK_REPLACED,
    ELECTED_UNCLEANLY,
    NAMES_DROPPED,
    TOPICS,
    Fault,
    Nodes,
)
from streaming.demo.job_process import JobProcess

Print = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioContext:
    """What a scenario works with."""

    lab: Lab
    job: JobProcess
    say: Print
    """Prints each step as it is done."""


Fix = Callable[[ScenarioContext, Nodes, Sequence[str]], None]
"""Ends the fault of these nodes, by the remedy of its first alert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One fault, described as an operator would meet it."""

    name: str
    """Three words for a table."""
    title: str
    description: str
    """What happens, and what an operator does not notice."""
    fault: Fault
    said: str
    """What is printed when it is injected; `{node}` is its first node."""
    rule: str
    """The rule whose alerts are shown; other alerts of the fault may fire."""
    fix_description: str
    """How it is fixed, or what would be needed."""
    fix: Fix | None
    """None if the demo does not fix it."""
    then: Callable[[ScenarioContext, int], None] | None = None
    """What follows the fault; takes the number of alert lines before it."""
    notified: tuple[str, ...] = ("firing", "resolved")
    """The reasons of the notifications that people must get: one when it begins, one when it ends."""


def restore_names(context: ScenarioContext, old: Nodes, _: Sequence[str]) -> None:
    """The printed procedure: old names back, restarts one by one under new names, leader last, old names dropped."""
    lab = context.lab
    old_names = [lab.node(node).host for node in old]
    context.say("the old names resolve again, and new names resolve as well")
    lab.names.add(*old_names, *map(renamed, old_names))
    for node in [*lab.followers, lab.leader]:
        name = renamed(lab.node(node).host)
        context.say(f"controller {node} restarts as {name}; waiting for its VotersRecord")
        lab.stop(node)
        lab.rename(node, name)
        lab.start(node)
        lab.await_recorded_endpoint(node)
    context.say("the old names are dropped")
    lab.names.drop(*old_names)


def renamed(name: str) -> str:
    """Returns the same host in the new domain."""
    host, _, domain = name.partition(".")
    return f"{host}-new.{domain}"


def run_printed_commands(context: ScenarioContext, nodes: Nodes, remedy: Sequence[str]) -> None:
    """Runs exactly the commands that the alert printed."""
    for line in remedy:
        if not line.startswith("#"):
            context.say(f"$ {line}")
    DISK_REPLACED.end(context.lab, nodes, remedy)


def start_broker(context: ScenarioContext, nodes: Nodes, remedy: Sequence[str]) -> None:
    """Starts the stopped broker again."""
    context.say("the stopped broker is started again")
    ELECTED_UNCLEANLY.end(context.lab, nodes, remedy)


def move_all_endpoints(context: ScenarioContext, since: int) -> None:
    """Changes every endpoint and starts all controllers."""
    lab, job = context.lab, context.job
    job.wait_for("no-leader", since=since, within_s=120)
    lab.move_endpoint(*lab.controllers)
    context.say("the job is restarted with the new addresses and continues from its recorded state")
    job.stop()
    job.bootstrap = lab.bootstrap
    job.start()
    context.say("all controllers are started at their new ports; none reaches another one")
    lab.start(*lab.controllers)


SCENARIOS = (
    Scenario(
        name="names do not resolve",
        title="The controllers' DNS names are dropped while the quorum is healthy",
        description="Someone cleaned up a DNS zone. The quorum keeps working, because open connections do not use DNS. "
        "When the controllers restart, none can reach another one.",
        fault=NAMES_DROPPED,
        said="the controllers' DNS names are dropped; all processes run and all connections stay open",
        rule="stale-voter-endpoint",
        fix_description="the printed procedure: old names back first, then one restart at a time, the leader last",
        fix=restore_names,
    ),
    Scenario(
        name="disk replaced",
        title="A controller's disk is replaced",
        description="The pod is ready and the process runs, but its new directory id is not a voter: two of three "
        "voters are left.",
        fault=DISK_REPLACED,
        said="controller {node} is stopped, its disk is replaced and formatted, and it is started again",
        rule="voter-disk-replaced",
        fix_description="exactly the printed commands",
        fix=run_printed_commands,
    ),
    Scenario(
        name="stuck RECOVERING",
        title="Partitions of two topics stay RECOVERING",
        description="After an unclean election the new leader serves clients as usual. No metric and no Kafka tool "
        "shows that records may be lost.",
        fault=ELECTED_UNCLEANLY,
        said=f"topics {' and '.join(TOPICS)}: one broker lags, the other stops, and an unclean election follows",
        rule="partition-stuck-recovering",
        fix_description="the broker with the other replica is started",
        fix=start_broker,
    ),
    Scenario(
        name="all endpoints moved",
        title="All endpoints are moved at once",
        description="A migration in one step. The voters' endpoints in the log reach no controller, and without a "
        "leader no command of Kafka corrects it.",
        fault=CONTROLLERS_KILLED,
        said="all controllers are stopped",
        then=move_all_endpoints,
        rule="no-leader",
        fix_description="none here: a rescue of each stopped controller, as printed; the recorded state still lists "
        "the voters",
        fix=None,
        notified=("firing",),
    ),
)
