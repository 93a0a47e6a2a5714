"""The faults of the evaluation: what is done to a healthy quorum by hand, and what the person on call must read."""

import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import tests.lab
from deploy.lab.lab import Lab
from streaming.demo.job_process import AlertLine
from streaming.demo.scenarios import (
    ScenarioContext,
    controller_names,
    drop_names,
    elect_uncleanly,
    followers,
    leader,
    replace_disk,
    restart_brokers,
)
from tests.eventually import eventually
from tests.job.job_state import cluster_status
from tests.kafka.forged_log import append_to_every_log, begin_transaction
from tests.kafka.lab_helpers import start_new_controller

FLAPS = 3


def restore(context: ScenarioContext, alerts: Sequence[AlertLine]) -> None:
    """Resumes the controllers that are paused and starts every node that is stopped."""
    lab = context.lab
    for node in lab.controllers:
        if lab.node(node).running:
            lab.resume(node)
    stopped = [node for node in sorted({*lab.controllers, *lab.brokers}) if not lab.node(node).running]
    lab.start(*stopped)


def await_whole_quorum(lab: Lab) -> None:
    """Waits until every controller that is a voter has fetched what is committed now."""
    now = lab.await_state(lambda state: True, what="a leader").high_watermark
    lab.await_state(
        lambda state: all(voter.log_end_offset > now for voter in state.voters), what=f"every voter beyond offset {now}"
    )


def kill_follower(context: ScenarioContext) -> None:
    """Kills a controller that does not lead."""
    context.lab.kill(followers(context)[0])


def kill_leader(context: ScenarioContext) -> None:
    """Kills the active controller."""
    context.lab.kill(leader(context))


def pause_leader(context: ScenarioContext) -> None:
    """Stops the active controller with SIGSTOP: it accepts connections and does not answer."""
    before = leader(context)
    context.lab.pause(before)
    context.lab.await_state(lambda state: state.leader_id != before, what="another leader")


def pause_follower(context: ScenarioContext) -> None:
    """Stops another controller that does not lead with SIGSTOP."""
    state = context.lab.await_state(lambda state: True, what="a leader")
    active = [voter.id for voter in state.voters if voter.log_end_offset >= state.high_watermark - 20]
    context.lab.pause(next(node for node in reversed(active) if node != state.leader_id))


def kill_majority(context: ScenarioContext) -> None:
    """Kills the leader and two other voters of five."""
    context.lab.kill(leader(context), *followers(context)[:2])


def move_port(context: ScenarioContext) -> None:
    """Restarts a controller at another port; it sends the leader its new endpoint."""
    lab, node = context.lab, followers(context)[0]
    lab.stop(node)
    lab.move_endpoint(node)
    lab.start(node)
    lab.await_state(
        lambda state: lab.node(node).endpoint in state.endpoints.get(node, ()), what=f"voter {node}'s new endpoint"
    )


def restore_dropped_names(context: ScenarioContext, alerts: Sequence[AlertLine]) -> None:
    """Adds the controllers' names again."""
    context.lab.names.add(*controller_names(context))


def run_printed_remedy(context: ScenarioContext, alerts: Sequence[AlertLine]) -> None:
    """Runs exactly the commands of the first alert, for the controller that its subject names."""
    found = re.search(r"\d+", alerts[0].subject)
    assert found is not None, alerts[0].subject
    node = int(found.group())
    for line in alerts[0].remedy:
        context.lab.run_remedy(line, node_properties=context.lab.node(node).properties_file)


def stop_broker(context: ScenarioContext) -> None:
    """Kills the broker that holds no partition of the other faults alone."""
    context.lab.node(context.lab.brokers[-1]).running_process().signal(signal.SIGKILL)


def leave_transaction_open(context: ScenarioContext) -> None:
    """Kills all controllers; their logs end with the beginning of a metadata transaction."""
    context.lab.kill(*context.lab.controllers)
    append_to_every_log(context.lab, begin_transaction("evaluation"))


def add_observer(context: ScenarioContext) -> None:
    """Starts a new controller, which is not a voter yet."""
    assert isinstance(context.lab, tests.lab.Lab)
    start_new_controller(context.lab)


def flap_broker(context: ScenarioContext) -> None:
    """Stops a broker until it is fenced, and resumes it, three times; each time is shorter than broker-fenced holds."""
    lab, broker = context.lab, context.lab.brokers[-1]
    for number in range(FLAPS):
        context.say(f"broker {broker} is paused, {number + 1} of {FLAPS}")
        lab.pause(broker)
        eventually(lambda: _require_fenced(context, [broker]), within_s=30)
        lab.resume(broker)
        eventually(lambda: _require_fenced(context, []), within_s=30)


def _require_fenced(context: ScenarioContext, brokers: list[int]) -> None:
    assert cluster_status(context.job)["brokers"]["fenced"] == brokers


Inject = Callable[[ScenarioContext], None]
Fix = Callable[[ScenarioContext, Sequence[AlertLine]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedText:
    """The alert that must be sent, and what it must say first."""

    rule: str
    severity: str
    sentence: str
    """A regular expression for the first sentence of its summary: the conclusion."""
    step: str
    """A regular expression for the first line of its remedy."""
    subject: str = ""
    """A part of the alert's subject."""
    within_s: float = 90.0

    def sentence_is_right(self, alert: AlertLine) -> bool:
        """Returns whether the summary begins with the conclusion."""
        return re.match(self.sentence, first_sentence(str(alert.line["summary"]))) is not None

    def step_is_right(self, alert: AlertLine) -> bool:
        """Returns whether the remedy begins with the right step."""
        return bool(alert.remedy) and re.match(self.step, alert.remedy[0]) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedFault:
    """One fault, injected by hand into a healthy quorum."""

    name: str
    """A few words for a table."""
    inject: Inject
    expected: ExpectedText | None
    """None: nobody needs to be notified."""
    fix: Fix = restore
    worsen: Inject | None = None
    worse: tuple[ExpectedText, ...] = ()
    """The alerts after `worsen`, or those that follow from the same fault; each makes it worse."""
    separate: bool = False
    """Whether each alert of `worse` is a fault of its own, with notifications of its own."""
    silent: tuple[str, ...] = ()
    """Rules of which no alert may fire."""

    @property
    def notifications(self) -> dict[str, int]:
        """How many notifications are right: one when it begins, one each time it gets worse, one when it ends."""
        worse = 0 if self.separate else len(self.worse)
        notified = int(self.expected is not None) + len(self.worse) - worse
        return {"begin": notified, "worse": worse, "end": notified}


def first_sentence(text: str) -> str:
    """Returns the text up to the first full stop, question mark or colon that ends a sentence."""
    return re.split(r"(?<=[.?])\s", text, maxsplit=1)[0]


THRESHOLDS = {
    "no-leader.hold": 10.0,
    "stale-voter-endpoint.hold": 12.0,
    "voter-disk-replaced.hold": 10.0,
    "observer-could-be-voter.hold": 20.0,
    "partition-stuck-recovering.hold": 10.0,
    "failure-tolerance.hold": 12.0,
    "voter-lagging.hold": 15.0,
    "broker-fenced.hold": 20.0,
    "broker-flapping.fencings": 3.0,
    "broker-flapping.window": 90.0,
    "node-restarting.starts": 33.0,
    "node-restarting.slow_starts": 33.0,
    "restarts-without-end.rounds": 33.0,
    "monitor-blind.hold": 30.0,
    "unclean-election.keep_firing_for": 90.0,
}
"""Holds are shorter than the defaults and in the same order, so that a fault takes a minute. That of no-leader is
longer: on a busy machine an election takes seconds. That of stale-voter-endpoint is longer than two probes, of which
the first one may have begun before a controller went on that hung. The faults restart nodes of one quorum: their starts
are no crash loop. An observer has caught up within the hold of observer-could-be-voter."""
_START = r"# Start controller \d+ so that it listens at"
_COPY_FIRST = r"# Do not start or restart broker \d+ before you have copied"
_HANGS = r"# Controller \d+ hangs, .*take a thread dump .*before you restart it"


_warning, _critical = partial(ExpectedText, severity="warning"), partial(ExpectedText, severity="critical")


def _not_fetching(step: str) -> ExpectedText:
    return _warning(rule="voter-lagging", sentence=r"Voter \d+ (is not fetching|has not fetched since)", step=step)


_NO_LEADER = _critical(
    rule="no-leader", sentence=r"No leader since .*: no metadata change is possible", step=r"# Start controller \d+ at"
)
_FENCED = _warning(rule="broker-fenced", sentence=r"Broker \d+ is fenced", step=r"# Start broker \d+")
FAULTS = (
    EvaluatedFault(name="a follower is killed", inject=kill_follower, expected=_not_fetching(_START)),
    EvaluatedFault(name="the leader is killed", inject=kill_leader, expected=_not_fetching(_START)),
    EvaluatedFault(name="the leader hangs (SIGSTOP)", inject=pause_leader, expected=_not_fetching(_HANGS)),
    EvaluatedFault(
        name="two voters stop fetching, one after the other",
        inject=kill_follower,
        expected=_not_fetching(_START),
        worsen=pause_follower,
        worse=(
            _warning(
                rule="failure-tolerance",
                sentence="The quorum tolerates no further failure: 3 of 5 voters are in sync",
                step=f"{_START}|{_HANGS}",
            ),
        ),
    ),
    EvaluatedFault(name="the majority is killed and started", inject=kill_majority, expected=_NO_LEADER),
    EvaluatedFault(name="a controller moves to another port", inject=move_port, expected=None),
    EvaluatedFault(
        name="the controllers' names are dropped",
        inject=drop_names,
        expected=_critical(
            rule="stale-voter-endpoint",
            sentence=r"Voter \d+'s recorded endpoint \S+ does not resolve",
            step="# Do not restart",
        ),
        fix=restore_dropped_names,
    ),
    EvaluatedFault(
        name="a controller's disk is replaced",
        inject=replace_disk,
        expected=_warning(
            rule="voter-disk-replaced",
            sentence=r"Controller \d+ has a new directory id and is not a voter",
            step=r"# Check on controller \d+'s host that the directory \S+ .* is lost",
        ),
        fix=run_printed_remedy,
    ),
    EvaluatedFault(name="a broker is killed", inject=stop_broker, expected=_FENCED, fix=restart_brokers),
    EvaluatedFault(
        name="an unclean election; partitions stay RECOVERING",
        inject=elect_uncleanly,
        expected=_critical(rule="unclean-election", sentence=r"\d+ unclean leader election", step=_COPY_FIRST),
        worse=(
            _warning(
                rule="partition-stuck-recovering",
                sentence=r"\d+ partitions? of topic \S+ (has|have) been RECOVERING since",
                step=_COPY_FIRST,
            ),
        ),
        fix=restart_brokers,
    ),
    EvaluatedFault(
        name="all controllers are killed inside a metadata transaction",
        inject=leave_transaction_open,
        expected=_NO_LEADER,
        silent=("open-transaction",),
    ),
    EvaluatedFault(
        name="a new controller is not a voter",
        inject=add_observer,
        expected=ExpectedText(
            rule="observer-could-be-voter",
            severity="info",
            sentence=r"Controller \d+ is an observer and could be a voter",
            step=r"# Add controller \d+ together with another one, or keep it as a spare",
        ),
        fix=run_printed_remedy,
    ),
    EvaluatedFault(
        name="a broker is fenced again and again",
        inject=flap_broker,
        expected=_warning(
            rule="broker-flapping",
            sentence=r"Broker \d+ was fenced \d+ times within",
            step=r"# Check the host of broker \d+ for long pauses",
        ),
        silent=("broker-fenced",),
    ),
    EvaluatedFault(
        name="the majority is killed while a broker is fenced",
        inject=stop_broker,
        expected=_FENCED,
        worsen=kill_majority,
        worse=(_NO_LEADER,),
        separate=True,
    ),
)
