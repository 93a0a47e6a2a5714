"""The faults of the evaluation, and what must be read of each. What is done to a quorum is in `fault_actions`."""

from functools import partial

from streaming.demo.scenarios import drop_names, elect_uncleanly, replace_disk, restart_brokers
from tests.evaluation import fault_actions as actions
from tests.evaluation.evaluated_fault import EvaluatedFault, ExpectedText

THRESHOLDS = {
    "no-leader.hold": 10.0,
    "stale-voter-endpoint.hold": 8.0,
    "voter-disk-replaced.hold": 10.0,
    "observer-could-be-voter.hold": 10.0,
    "partition-stuck-recovering.hold": 10.0,
    "failure-tolerance.hold": 12.0,
    "voter-lagging.hold": 15.0,
    "broker-fenced.hold": 20.0,
    "broker-flapping.fencings": 3.0,
    "broker-flapping.window": 90.0,
    "node-restarting.starts": 33.0,
    "monitor-blind.hold": 30.0,
    "unclean-election.keep_firing_for": 90.0,
}
"""Holds are shorter than the defaults and in the same order, so that a fault takes a minute. That of no-leader is
longer: on a busy machine an election takes seconds. The faults restart nodes of one quorum: their starts are no crash
loop."""
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
    EvaluatedFault(name="a follower is killed", inject=actions.kill_follower, expected=_not_fetching(_START)),
    EvaluatedFault(name="the leader is killed", inject=actions.kill_leader, expected=_not_fetching(_START)),
    EvaluatedFault(name="the leader hangs (SIGSTOP)", inject=actions.pause_leader, expected=_not_fetching(_HANGS)),
    EvaluatedFault(
        name="two voters stop fetching, one after the other",
        inject=actions.kill_follower,
        expected=_not_fetching(_START),
        worsen=actions.pause_follower,
        worse=(
            _warning(
                rule="failure-tolerance",
                sentence="The quorum tolerates no further failure: 3 of 5 voters are in sync",
                step=f"{_START}|{_HANGS}",
            ),
        ),
    ),
    EvaluatedFault(name="the majority is killed and started", inject=actions.kill_majority, expected=_NO_LEADER),
    EvaluatedFault(name="a controller moves to another port", inject=actions.move_port, expected=None),
    EvaluatedFault(
        name="the controllers' names are dropped",
        inject=drop_names,
        expected=_critical(
            rule="stale-voter-endpoint",
            sentence=r"Voter \d+'s recorded endpoint \S+ does not resolve",
            step="# Do not restart",
        ),
        fix=actions.restore_dropped_names,
    ),
    EvaluatedFault(
        name="a controller's disk is replaced",
        inject=replace_disk,
        expected=_warning(
            rule="voter-disk-replaced",
            sentence=r"Controller \d+ has a new directory id and is not a voter",
            step=r"kafka-metadata-quorum\.sh .* (add|remove)-controller",
        ),
        fix=actions.run_printed_remedy,
    ),
    EvaluatedFault(name="a broker is killed", inject=actions.stop_broker, expected=_FENCED, fix=restart_brokers),
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
        inject=actions.leave_transaction_open,
        expected=_NO_LEADER,
        silent=("open-transaction",),
    ),
    EvaluatedFault(
        name="a new controller is not a voter",
        inject=actions.add_observer,
        expected=ExpectedText(
            rule="observer-could-be-voter",
            severity="info",
            sentence=r"Controller \d+ is an observer and could be a voter",
            step=r"# Add controller \d+ together with another one, or keep it as a spare",
        ),
        fix=actions.run_printed_remedy,
    ),
    EvaluatedFault(
        name="a broker is fenced again and again",
        inject=actions.flap_broker,
        expected=_warning(
            rule="broker-flapping",
            sentence=r"Broker \d+ was fenced \d+ times within",
            step=r"# Check the host of broker \d+ for long pauses",
        ),
        silent=("broker-fenced",),
    ),
    EvaluatedFault(
        name="the majority is killed while a broker is fenced",
        inject=actions.stop_broker,
        expected=_FENCED,
        worsen=actions.kill_majority,
        worse=(_NO_LEADER,),
        separate=True,
    ),
)
