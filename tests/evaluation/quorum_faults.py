"""The faults of the evaluation, and what must be read of each. What is done to a quorum is in `fault_actions`."""

from dataclasses import replace

from streaming.demo.scenarios import drop_names, elect_uncleanly, replace_disk, restart_brokers
from tests.evaluation import fault_actions as actions
from tests.evaluation.evaluated_fault import EvaluatedFault, ExpectedText
from tests.evaluation.evaluated_quorum import EvaluatedQuorum

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
    "monitor-blind.controller_hold": 75.0,
    "unclean-election.keep_firing_for": 90.0,
}
"""Holds are shorter than the defaults and in the same order, so that a fault takes a minute. That of no-leader is
longer: on a busy machine an election takes seconds. A refused certificate is found within a minute, before
controller_hold, as with the defaults. The faults restart nodes of one quorum: their starts are no crash loop."""
_START = r"# Start controller \d+ so that it listens at"
_RENEW = r"# Renew the certificate of controller \d+"
_COPY_FIRST = r"# Do not start or restart broker \d+ before you have copied"
_HANGS = r"# Controller \d+ hangs, .*take a thread dump .*before you restart it"


def _not_fetching(step: str) -> ExpectedText:
    sentence = r"Voter \d+ (is not fetching|has not fetched since)"
    return ExpectedText(rule="voter-lagging", severity="warning", sentence=sentence, step=step)


_NO_LEADER = ExpectedText(
    rule="no-leader",
    severity="critical",
    sentence=r"No leader since .*: no metadata change is possible",
    step=r"# Start controller \d+ at",
)
_FENCED = ExpectedText(
    rule="broker-fenced", severity="warning", sentence=r"Broker \d+ is fenced", step=r"# Start (broker|controller) \d+"
)
FAULTS = (
    EvaluatedFault(
        name="a follower is killed", inject=actions.kill_follower, expected=_not_fetching(_START), fix=actions.restore
    ),
    EvaluatedFault(
        name="the leader is killed", inject=actions.kill_leader, expected=_not_fetching(_START), fix=actions.restore
    ),
    EvaluatedFault(
        name="the leader hangs (SIGSTOP)",
        inject=actions.pause_leader,
        expected=_not_fetching(_HANGS),
        fix=actions.restore,
    ),
    EvaluatedFault(
        name="two voters stop fetching, one after the other",
        inject=actions.kill_follower,
        expected=_not_fetching(_START),
        worsen=actions.pause_follower,
        worse=(
            ExpectedText(
                rule="failure-tolerance",
                severity="warning",
                sentence="The quorum tolerates no further failure: 3 of 5 voters are in sync",
                step=f"{_START}|{_HANGS}",
            ),
        ),
        fix=actions.restore,
    ),
    EvaluatedFault(
        name="the majority is killed and started",
        inject=actions.kill_majority,
        expected=_NO_LEADER,
        fix=actions.restore,
    ),
    EvaluatedFault(
        name="a controller moves to another port", inject=actions.move_port, expected=None, fix=actions.restore
    ),
    EvaluatedFault(
        name="the controllers' names are dropped",
        inject=drop_names,
        expected=ExpectedText(
            rule="stale-voter-endpoint",
            severity="critical",
            sentence=r"Voter \d+'s recorded endpoint \S+ does not resolve",
            step="# Do not restart",
        ),
        fix=actions.restore_dropped_names,
    ),
    EvaluatedFault(
        name="a controller's disk is replaced",
        inject=replace_disk,
        expected=ExpectedText(
            rule="voter-disk-replaced",
            severity="warning",
            sentence=r"Controller \d+ has a new directory id and is not a voter",
            step=r"kafka-metadata-quorum\.sh .* (add|remove)-controller",
        ),
        fix=actions.run_printed_remedy,
    ),
    EvaluatedFault(
        name="a broker is killed",
        inject=actions.stop_broker,
        expected=_FENCED,
        fix=restart_brokers,
    ),
    EvaluatedFault(
        name="an unclean election; partitions stay RECOVERING",
        inject=elect_uncleanly,
        expected=ExpectedText(
            rule="unclean-election", severity="critical", sentence=r"\d+ unclean leader election", step=_COPY_FIRST
        ),
        worse=(
            ExpectedText(
                rule="partition-stuck-recovering",
                severity="warning",
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
        fix=actions.restore,
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
        expected=ExpectedText(
            rule="broker-flapping",
            severity="warning",
            sentence=r"Broker \d+ was fenced \d+ times within",
            step=r"# Check the host of broker \d+ for long pauses",
        ),
        fix=actions.restore,
        silent=("broker-fenced",),
    ),
    EvaluatedFault(
        name="the majority is killed while a broker is fenced",
        inject=actions.stop_broker,
        expected=_FENCED,
        worsen=actions.kill_majority,
        worse=(_NO_LEADER,),
        separate=True,
        fix=actions.restore,
    ),
    EvaluatedFault(
        name="the monitor is stopped while there is no leader",
        inject=actions.stop_monitor_without_leader,
        expected=None,
        fix=actions.restore,
        silent=("no-leader", "monitor-blind"),
    ),
    EvaluatedFault(
        name="the job starts on a starved host, without a leader",
        inject=actions.start_starved_without_leader,
        expected=replace(
            # The job has observed no leader before: nothing is known of the voters.
            _NO_LEADER,
            sentence=r"No leader: no metadata change is possible",
            step=r"# Start the controllers at .*: connections are refused there",
        ),
        fix=actions.end_starvation,
    ),
    EvaluatedFault(
        name="a certificate has expired; then the leader is killed",
        quorum=EvaluatedQuorum.SECURED,
        inject=actions.expire_certificate,
        expected=ExpectedText(
            rule="stale-voter-endpoint",
            severity="warning",
            sentence=r"Voter \d+'s recorded endpoint \S+ presents a certificate that expired at",
            step=_RENEW,
        ),
        worsen=actions.kill_leader,
        worse=(replace(_NO_LEADER, step=_RENEW),),
        separate=True,
        fix=actions.restart_all,
    ),
    EvaluatedFault(
        name="one controller refuses the monitor's login",
        quorum=EvaluatedQuorum.SECURED,
        inject=actions.forget_user,
        expected=ExpectedText(
            rule="monitor-blind",
            severity="warning",
            sentence=r"Controller \d+ does not answer the monitor: not-authenticated",
            step=r"# .*127\.0\.0\.1:",
            hold="controller_hold",
        ),
        fix=actions.restart_all,
    ),
    EvaluatedFault(
        name="a combined node is killed",
        quorum=EvaluatedQuorum.COMBINED,
        inject=actions.kill_combined_node,
        expected=ExpectedText(
            rule="failure-tolerance",
            severity="warning",
            sentence=r"Voter \d+ .*",
            step=_START,
        ),
        worse=(_FENCED,),
        fix=actions.restore,
    ),
    EvaluatedFault(
        name="the monitor's host is cut off from three clusters",
        quorum=EvaluatedQuorum.SEVERAL,
        inject=actions.pause_all_clusters,
        expected=ExpectedText(
            rule="monitor-blind",
            severity="critical",
            subject="clusters",
            sentence=r"This host cannot observe 3 of 3 clusters since",
            step=r"# Check",
        ),
        fix=actions.resume_all_clusters,
    ),
)
