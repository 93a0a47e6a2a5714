"""The faults of a real quorum and the alerts that each must cause: of the demo, live scenarios, `make evaluate`, chaos.

A fault is named once, here. The simulated quorums of `scripts` and `simulation` call it the same: `kill` (SIGKILL),
`stop` (SIGTERM), `pause` (SIGSTOP), `replace-disk`, `restore-log`, `move-endpoint`, `drop-names`, `add-observer`,
`hang-event-thread`, `serve-no-new-connection`, `cut-off`. Chaos takes names and injections from here; its oracle
computes what must fire from the state.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import tests.lab
from deploy.lab.lab import Lab
from deploy.lab.node import BROKER, CONTROLLER, format_disk
from streaming.demo.fault import (
    CONTROLLERS_KILLED,
    DISK_REPLACED,
    ELECTED_UNCLEANLY,
    NAMES_DROPPED,
    NO_LEADER,
    ExpectedAlert,
    Fault,
    Nodes,
    one_follower,
    run_printed_commands,
    start_nodes,
)
from tests.eventually import eventually
from tests.kafka.forged_log import append_to_every_log, begin_transaction

FLAPS = 3
RESTARTED_OFTEN = {
    "node-restarting.starts": 33.0,
    "node-restarting.slow_starts": 33.0,
    "restarts-without-end.rounds": 33.0,
}
"""Thresholds where many faults restart the nodes of one quorum: more starts than are remembered."""
_START = r"# Start controller \d+ so that it listens at"
_HANGS = r"# Controller \d+ hangs, .*take a thread dump .*before you restart it"
_NO_ANSWER = rf"{_HANGS}|# Check in the log of controller \d+ why it does not fetch from the leader"
"""Of a process that is stopped with SIGSTOP: an alert may be earlier than the probe that shows that it hangs."""
_critical, _warning = partial(ExpectedAlert, severity="critical"), partial(ExpectedAlert, severity="warning")


def _of_tests(lab: Lab) -> tests.lab.Lab:
    assert isinstance(lab, tests.lab.Lab)
    return lab


def _leader(lab: Lab) -> Nodes:
    return [lab.leader]


def _majority(lab: Lab) -> Nodes:
    return [lab.leader, *lab.followers][: len(lab.controllers) // 2 + 1]


def _last_in_sync_follower(lab: Lab) -> Nodes:
    state = lab.await_state(lambda state: True, what="a leader")
    in_sync = {voter.id for voter in state.voters if voter.log_end_offset >= state.high_watermark - 20}
    return [next(node for node in reversed(lab.controllers) if node in in_sync - {state.leader_id})]


def _one_broker(lab: Lab) -> Nodes:
    """Not one of those that an unclean election needs first."""
    return lab.brokers[-1:]


def _kill(lab: Lab, nodes: Nodes) -> None:
    lab.kill(*nodes)


def _pause(lab: Lab, nodes: Nodes) -> None:
    lab.pause(*nodes)


def _pause_leader(lab: Lab, nodes: Nodes) -> None:
    lab.pause(*nodes)
    lab.await_state(lambda state: state.leader_id not in nodes, what="another leader")


def _resume(lab: Lab, nodes: Nodes, _: Sequence[str]) -> None:
    lab.resume(*nodes)


def _move_endpoint(lab: Lab, nodes: Nodes) -> None:
    for node in nodes:
        lab.stop(node)
        lab.move_endpoint(node)
        lab.start(node)
        lab.await_recorded_endpoint(node)


def _leave_transaction(lab: Lab, nodes: Nodes) -> None:
    lab.kill(*nodes)
    append_to_every_log(_of_tests(lab), begin_transaction("evaluation"))


def _flap(lab: Lab, nodes: Nodes) -> None:
    """Each time is shorter than broker-fenced holds."""
    for _ in range(FLAPS):
        lab.pause(*nodes)
        eventually(lambda: not _of_tests(lab).unfenced_brokers & {*nodes}, within_s=30)
        lab.resume(*nodes)
        eventually(lambda: _of_tests(lab).unfenced_brokers >= {*nodes}, within_s=30)


def _new_controller(lab: Lab) -> Nodes:
    assert not lab.static, "a static quorum lists its voters in every configuration"
    return [lab.layout.add_controller().id]


def _add_observer(lab: Lab, nodes: Nodes) -> None:
    for node in map(lab.node, nodes):
        format_disk(lab.jvm, node, lab.cluster_id, initial=())
        lab.start(node.id)
        _of_tests(lab).await_observer(node)


def _make_voter(lab: Lab, nodes: Nodes) -> None:
    """Runs add-controller with the configuration of a broker, in which only its role and its listener's name differ."""
    for node in map(lab.node, nodes):
        text = node.properties_file.read_text().replace("process.roles=broker", "process.roles=controller")
        file = node.folder / "as-controller.properties"
        file.write_text(text.replace(f"listeners={BROKER}://", f"listeners={CONTROLLER}://"))
        at = ["--command-config", str(file), "--bootstrap-controller", lab.node(lab.leader).endpoint]
        lab.jvm.tool("kafka-metadata-quorum", [*at, "add-controller"])
    lab.await_state(lambda state: state.voter_ids >= {*nodes}, what=f"{nodes} among the voters")


def _nothing(lab: Lab, nodes: Nodes, _: Sequence[str]) -> None:
    """The fault ended by itself."""


def _voter_lagging(step: str) -> ExpectedAlert:
    sentence = r"Voter \d+ (is not fetching|has not fetched since)"
    return _warning(rule="voter-lagging", subject="voter {node}", sentence=sentence, step=step)


_FENCED = _warning(
    rule="broker-fenced", subject="broker {node}", sentence=r"Broker \d+ is fenced", step=r"# Start broker \d+"
)
CONTROLLER_KILLED = Fault(
    name="a controller is killed", nodes=one_follower, inject=_kill, end=start_nodes, alerts=(_voter_lagging(_START),)
)
LEADER_KILLED = replace(CONTROLLER_KILLED, name="the leader is killed", nodes=_leader)
CONTROLLER_STOPPED = replace(
    CONTROLLER_KILLED, name="a controller is stopped", inject=lambda lab, nodes: lab.stop(*nodes)
)
CONTROLLER_PAUSED = replace(
    CONTROLLER_KILLED,
    name="a controller is paused (SIGSTOP)",
    inject=_pause,
    end=_resume,
    alerts=(_voter_lagging(_NO_ANSWER),),
)
LEADER_PAUSED = replace(
    CONTROLLER_PAUSED,
    name="the leader is paused (SIGSTOP)",
    nodes=_leader,
    inject=_pause_leader,
    alerts=(_voter_lagging(_HANGS),),
)
SECOND_CONTROLLER_PAUSED = replace(
    CONTROLLER_PAUSED,
    name="a second controller of five is paused",
    nodes=_last_in_sync_follower,
    alerts=(
        _warning(
            rule="failure-tolerance",
            sentence="The quorum tolerates no further failure: 3 of 5 voters are in sync",
            step=f"{_START}|{_NO_ANSWER}",
        ),
    ),
)
MAJORITY_KILLED = replace(CONTROLLERS_KILLED, name="a majority is killed", nodes=_majority)
MAJORITY_PAUSED = replace(
    MAJORITY_KILLED,
    name="a majority is paused",
    inject=_pause,
    end=_resume,
    alerts=(replace(NO_LEADER, step=r"# Controller \d+ hangs, it accepts connections"),),
)
FOLLOWERS_PAUSED = replace(
    MAJORITY_PAUSED,
    name="a majority is paused, and not the leader",
    nodes=lambda lab: lab.followers[: len(lab.controllers) // 2 + 1],
    alerts=(
        _critical(
            rule="no-leader",
            sentence=r"Nothing is committed since .*: no metadata change is possible",
            step=_NO_ANSWER,
        ),
    ),
)
TRANSACTION_LEFT_OPEN = replace(
    CONTROLLERS_KILLED,
    name="all controllers are killed inside a metadata transaction",
    inject=_leave_transaction,
    never=("open-transaction",),
)
ENDPOINT_MOVED = Fault(
    name="a controller moves to another port", nodes=one_follower, inject=_move_endpoint, end=_nothing, alerts=()
)
OBSERVER_ADDED = Fault(
    name="a new controller is not a voter",
    nodes=_new_controller,
    inject=_add_observer,
    end=run_printed_commands,
    alerts=(
        ExpectedAlert(
            rule="observer-could-be-voter",
            severity="info",
            subject="observer {node}",
            sentence=r"Controller \d+ is an observer and could be a voter",
            # A short hold ends before it has caught up on a busy machine.
            step=r"# (Wait until controller \d+ has caught up|Add controller \d+ together with another one)",
        ),
    ),
)
BROKER_KILLED = Fault(name="a broker is killed", nodes=_one_broker, inject=_kill, end=start_nodes, alerts=(_FENCED,))
BROKER_PAUSED = replace(BROKER_KILLED, name="a broker is paused", inject=_pause, end=_resume)
BROKER_PAUSED_IN_SESSION = replace(
    BROKER_PAUSED,
    name="a broker is paused and counts as alive",
    alerts=(
        _warning(
            rule="observer-lagging",
            subject="broker {node}",
            sentence=r"Broker \d+ does not fetch the metadata log: it works with outdated metadata",
            step=r"# Check in the log of broker \d+ why it does not read the metadata log",
        ),
    ),
)
BROKER_FLAPPING = replace(
    BROKER_PAUSED,
    name="a broker is fenced again and again",
    inject=_flap,
    end=_nothing,
    alerts=(
        _warning(
            rule="broker-flapping",
            subject="broker {node}",
            sentence=r"Broker \d+ was fenced \d+ times within",
            step=r"# Check the host of broker \d+ for long pauses",
        ),
    ),
    never=("broker-fenced",),
)
BROKER_MADE_VOTER = Fault(
    name="a broker is made a voter",
    nodes=_one_broker,
    inject=_make_voter,
    end=run_printed_commands,
    alerts=(
        _warning(
            rule="voter-without-controller",
            subject="voter {node}",
            sentence=r"Voter \d+ runs no controller: it is registered as a broker only",
            step=r"# If node \d+ should be a controller, add controller to its process.roles",
        ),
    ),
)


@contextmanager
def injected(fault: Fault, lab: Lab, *nodes: int) -> Iterator[tuple[ExpectedAlert, ...]]:
    """Injects a fault into these nodes or else its own, and ends it also after a failure; yields the alerts."""
    chosen = nodes or fault.nodes(lab)
    fault.inject(lab, chosen)
    try:
        yield fault.expected(chosen)
    finally:
        fault.end(lab, chosen, ())


FAULTS = (
    *(CONTROLLER_KILLED, LEADER_KILLED, CONTROLLER_STOPPED, CONTROLLER_PAUSED, LEADER_PAUSED, SECOND_CONTROLLER_PAUSED),
    *(CONTROLLERS_KILLED, MAJORITY_KILLED, MAJORITY_PAUSED, FOLLOWERS_PAUSED, TRANSACTION_LEFT_OPEN),
    *(ENDPOINT_MOVED, NAMES_DROPPED, DISK_REPLACED, OBSERVER_ADDED, BROKER_MADE_VOTER),
    *(BROKER_KILLED, BROKER_PAUSED, BROKER_PAUSED_IN_SESSION, BROKER_FLAPPING, ELECTED_UNCLEANLY),
)
