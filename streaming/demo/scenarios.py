"""The four scenarios of the demo: a fault, the alerts that it must cause, and how it is fixed.

Each one was reproduced on a real quorum first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deploy.lab.lab import Lab
from rules.model.subject import Subject
from streaming.demo.job_process import AlertLine, JobProcess

Print = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioContext:
    """What a scenario works with."""

    lab: Lab
    job: JobProcess
    say: Print
    """Prints each step as it is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An alert that must fire."""

    rule: str
    subject: str = ""
    """A part of the alert's subject."""
    severity: str = ""
    """The exact severity; empty for any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One fault, described as an operator would meet it."""

    name: str
    """Three words for a table."""
    title: str
    description: str
    """What happens, and what an operator does not notice."""
    inject: Callable[[ScenarioContext], None]
    expected: tuple[Expectation, ...]
    fix_description: str
    """How it is fixed, or why it cannot be."""
    fix: Callable[[ScenarioContext, Sequence[AlertLine]], None] | None
    """Takes the alerts that fired; None if it cannot be fixed."""
    notified: tuple[str, ...] = ("firing", "resolved")
    """The reasons of the notifications that people must get: one when it begins, one when it ends."""
    also: tuple[str, ...] = ()
    """Rules that may fire as well: real consequences, not false alerts."""


TOPICS = ("orders", "payments")


def drop_names(context: ScenarioContext) -> None:
    """Drops every controller's DNS name while all connections stay open."""
    context.say("the controllers' DNS names are dropped; all processes run and all connections stay open")
    context.lab.names.drop(*controller_names(context))


def restore_names(context: ScenarioContext, alerts: Sequence[AlertLine]) -> None:
    """The printed procedure: old names back, restarts one by one under new names, leader last, old names dropped."""
    lab = context.lab
    old = controller_names(context)
    context.say("the old names resolve again, and new names resolve as well")
    lab.names.add(*old, *(renamed(name) for name in old))
    for node in [*followers(context), leader(context)]:
        name = renamed(lab.node(node).host)
        context.say(f"controller {node} restarts as {name}; waiting for its VotersRecord")
        lab.stop(node)
        lab.rename(node, name)
        lab.start(node)
        lab.await_state(
            lambda state, node=node: lab.node(node).endpoint in state.endpoints.get(node, ()),  # type: ignore[misc]
            what=f"the new endpoint of voter {node}",
        )
    context.say("the old names are dropped")
    lab.names.drop(*old)


def controller_names(context: ScenarioContext) -> list[str]:
    """Returns the names that the controllers advertise now."""
    return [context.lab.node(node).host for node in context.lab.controllers]


def renamed(name: str) -> str:
    """Returns the same host in the new domain."""
    host, _, domain = name.partition(".")
    return f"{host}-new.{domain}"


def replace_disk(context: ScenarioContext) -> None:
    """Stops a follower, wipes its disk and starts it again."""
    node = followers(context)[0]
    context.say(f"controller {node} is stopped, its disk is replaced and formatted, and it is started again")
    context.lab.stop(node)
    context.lab.wipe_disk(node)
    context.lab.start(node)


def run_printed_commands(context: ScenarioContext, alerts: Sequence[AlertLine]) -> None:
    """Runs exactly the commands that the alert printed."""
    alert = next(each for each in alerts if each.rule == "voter-disk-replaced")
    node = Subject.of(alert.subject).node
    for line in alert.remedy:
        if not line.startswith("#"):
            context.say(f"$ {line}")
            context.lab.run_remedy(line, node_properties=context.lab.node(node).properties_file)


def elect_uncleanly(context: ScenarioContext) -> None:
    """Two topics with two replicas: the replica with all records stops, the other one is elected uncleanly."""
    context.say(f"topics {' and '.join(TOPICS)}: one broker lags, the other stops, and an unclean election follows")
    context.lab.leave_partitions_recovering(*TOPICS)


def restart_brokers(context: ScenarioContext, alerts: Sequence[AlertLine]) -> None:
    """Starts the stopped broker again."""
    for broker in context.lab.brokers:
        if not context.lab.node(broker).running:
            context.say(f"broker {broker} is started again")
            context.lab.start(broker)


def move_all_endpoints(context: ScenarioContext) -> None:
    """Stops every controller, changes every endpoint and starts them all."""
    lab, job = context.lab, context.job
    since = len(job.alerts())
    context.say("all controllers are stopped")
    # All at once: one that still answers while the others refuse would be another scenario.
    lab.kill(*lab.controllers)
    job.wait_for("no-leader", since=since, within_s=120)
    lab.move_endpoint(*lab.controllers)
    context.say("the job is restarted with the new addresses and continues from its recorded state")
    job.stop()
    job.bootstrap = lab.bootstrap
    job.start()
    context.say("all controllers are started at their new ports; none reaches another one")
    lab.start(*lab.controllers)


def leader(context: ScenarioContext) -> int:
    """Returns the id of the current leader."""
    return context.lab.await_state(lambda state: True, what="a leader").leader_id


def followers(context: ScenarioContext) -> list[int]:
    """Returns the ids of the controllers that do not lead."""
    leading = leader(context)
    return [node for node in context.lab.controllers if node != leading]


SCENARIOS = (
    Scenario(
        name="names do not resolve",
        title="The controllers' DNS names are dropped while the quorum is healthy",
        description="Someone cleaned up a DNS zone. The quorum keeps working, because open connections do not use DNS. "
        "When the controllers restart, none can reach another one.",
        inject=drop_names,
        expected=(
            Expectation(rule="stale-voter-endpoint", subject="voter 1", severity="critical"),
            Expectation(rule="stale-voter-endpoint", subject="voter 2", severity="critical"),
            Expectation(rule="stale-voter-endpoint", subject="voter 3", severity="critical"),
        ),
        fix_description="the printed procedure: old names back first, then one restart at a time, the leader last",
        fix=restore_names,
    ),
    Scenario(
        name="disk replaced",
        title="A controller's disk is replaced",
        description="The pod is ready and the process runs, but its new directory id is not a voter: two of three "
        "voters are left.",
        inject=replace_disk,
        expected=(Expectation(rule="voter-disk-replaced", severity="warning"),),
        fix_description="exactly the printed commands",
        fix=run_printed_commands,
    ),
    Scenario(
        name="stuck RECOVERING",
        title="Partitions of two topics stay RECOVERING",
        description="After an unclean election the new leader serves clients as usual. No metric and no Kafka tool "
        "shows that records may be lost.",
        inject=elect_uncleanly,
        expected=tuple(Expectation(rule="partition-stuck-recovering", subject=topic) for topic in TOPICS),
        also=("unclean-election",),
        fix_description="the broker with the other replica is started",
        fix=restart_brokers,
    ),
    Scenario(
        name="all endpoints moved",
        title="All endpoints are moved at once",
        description="A migration in one step. The voters' endpoints in the log reach no controller, and without a "
        "leader the log cannot be corrected.",
        inject=move_all_endpoints,
        expected=(Expectation(rule="no-leader", severity="critical"),),
        fix_description="none: this quorum cannot elect a leader. Its recorded state is the only "
        "description of it that is left",
        fix=None,
        notified=("firing",),
    ),
)
