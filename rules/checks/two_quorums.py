"""Several quorums have this cluster id: a controller leads other voters than the quorum that kraftwatch follows.

What it means
    Each of them elects leaders and commits records on its own, and none knows of the others. Usually a new controller's
    disk was formatted with `--standalone`, or with another list of initial controllers, and with the cluster id of a
    cluster that exists; or each disk of a new cluster was formatted with `--standalone`. The cluster id does not tell
    them apart, only the directory ids of their voters do. A broker or a client that reaches the wrong one works with
    its metadata: topics are missing, and what is created there is lost.

    A voter whose disk was formatted like that does not lead for long: its former leader still sends it requests, on
    which its process ends if both have the same epoch (seen with Kafka 4.4).

    kraftwatch follows one of them: the one that it followed before, or that answered first. It does not mix their
    answers. It changes only if most controllers follow another one.

    A leader that was replaced and does not know it yet is no second quorum: it leads the same voters.

What to do
    1. Copy the metadata directory of every controller and broker.
    2. Find out which quorum the brokers follow: its leader lists them as observers.
    3. Stop the controllers of the others, and keep their folders until nothing in them is missed.
    4. Format their disks again, without initial controllers, and start them: they join as observers. A controller that
       was a voter then has a new directory id: `voter-disk-replaced` has the commands that replace the old one.

What not to do
    Do not restart the brokers before the wrong quorums are stopped: a broker whose bootstrap servers lead to one may
    follow it. Do not add or remove voters of any quorum while several answer.
"""

import shlex
from collections.abc import Iterable, Sequence

from rules.answers.now import leads
from rules.claims.statement import statement
from rules.facts.freshness import fresh_poll, fresh_views
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, Plain, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import and_join, numbered, plural
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.monitoring import LeaderView
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_replication
from rules.remedies.start_conditions import COPY_METADATA_FIRST
from rules.remedies.step import Act, does, starts
from rules.rule import Rule

_MOST_NAMED = 5


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the quorum if controllers lead voters that are not its own."""
    if not fresh_views(facts.quorum):
        yield UnknownResult(why="no controller has recently reported its leader")
        return
    if others := facts.other_quorums:
        yield _finding(facts, others)


def _finding(facts: Facts, others: Sequence[LeaderView]) -> Finding:
    quorum = facts.quorum
    poll = fresh_poll(quorum)
    own = sorted(poll.voter_keys if poll else quorum.committed.keys if quorum.committed else ())
    leader, epoch = (poll.leader_id, poll.leader_epoch) if poll else (quorum.leader_id, quorum.leader_epoch)
    followed = _quorum_text(leader, epoch, own) if leader is not None else f"{_voters(own)} without a leader"
    quorums: list[Plain] = [{"leader": leader, "leader_epoch": epoch, "voters": [*map(str, own)], "followed": True}]
    quorums += [
        {
            "leader": view.leader_id,
            "leader_epoch": view.leader_epoch,
            "voters": [*map(str, view.other_voters)],
            "followed": False,
            "endpoint": view.endpoint,
        }
        for view in others
    ]
    sets = [own, *(sorted(view.other_voters) for view in others)]
    singles = all(len(voters) == 1 for voters in sets)
    each = f" of one voter each, {and_join((f'{{{voters[0].id}}}' for voters in sets), 4)}," if singles else ""
    named = [followed, *(_quorum_text(view.leader_id, view.leader_epoch, view.other_voters) for view in others)]
    joined = "; ".join(named[:4]) if len(named) > 2 else ", and ".join(named)
    return Finding(
        subject=Subject("quorum"),
        severity=Severity.CRITICAL,
        summary=f"{len(sets)} quorums{each} have this cluster id: {joined}. kraftwatch follows the first one.",
        evidence={
            "quorums": quorums,
            "cluster_id": quorum.cluster_id,
            "brokers_registered_in_the_followed_quorum": len(quorum.brokers),
        },
        remedy=tuple(_remedy(facts, leader, others, singles=singles)),
        keep_running=facts.known_controllers,
    )


def _quorum_text(leader: NodeId | None, epoch: int | None, voters: Iterable[ReplicaKey]) -> str:
    return f"controller {leader} leads {_voters(voters)} in epoch {epoch}"


def _voters(voters: Iterable[ReplicaKey]) -> str:
    named = [*voters]
    return f"{'voter' if len(named) == 1 else 'voters'} {and_join(named, _MOST_NAMED)}"


def _remedy(facts: Facts, leader: NodeId | None, others: Sequence[LeaderView], *, singles: bool) -> Iterable[str]:
    quorum = facts.quorum
    yield COPY_METADATA_FIRST
    lost = {view.leader_id for view in others} & facts.former_voters
    if lost and any(change.rebuilt for change in quorum.history.reconfigurations):
        controllers = numbered("controller", sorted(facts.former_voters))
        yield does(
            f"# Stop {controllers}, keep them down and wipe their disks: they are lost voters of a quorum that was "
            "rescued, and the rescued one goes on",
            *((act, sorted(facts.former_voters)) for act in (Act.STOP, Act.FORMAT)),
        )
    elif singles:
        yield (
            "# Each of these controllers was formatted with --standalone: keep one, format the others with "
            "--no-initial-controllers, and add them to its voters one by one"
        )
    yield "# Find out which quorum the brokers follow: its leader lists them as observers"
    yield describe_replication(facts)
    yield from (describe_replication(facts, at=view.endpoint) for view in others)
    registered = plural(len(quorum.brokers), "broker")
    followed = "without a leader" if leader is None else f"of leader {leader}"
    then = "that quorum, once it has a leader" if leader is None else f"leader {leader}"
    for view in others:
        name = f"controller {view.leader_id}"
        node = () if view.leader_id is None else (view.leader_id,)
        yield does(
            f"# If they follow the quorum {followed} (it has {registered} registered), stop {name} and every other "
            f"voter of its quorum ({and_join(view.other_voters, _MOST_NAMED)}), and move their metadata.log.dir away",
            (Act.STOP, node),
            (Act.FORMAT, node),
        )
        yield f"# On the host of {name}, with its own configuration file as $NODE_PROPERTIES"
        if quorum.cluster_id is not None:
            initial = "" if quorum.kraft_version == 0 else " --no-initial-controllers"
            known = shlex.quote(quorum.cluster_id)
            yield f"kafka-storage.sh format --config $NODE_PROPERTIES --cluster-id {known}{initial}"
        yield starts(f"# Start {name} again, which then follows {then}", *node)


def _resolved(facts: Facts, _subject: Subject) -> str:
    return statement("No controller leads another quorum with this cluster id. ", leads(facts.quorum), ".")


RULE = Rule(
    title="Several quorums have one cluster id",
    resolved=_resolved,
    hold=hold(10.0),
    needs=(Need.METADATA_LOG,),
    grouped_with=("failure-tolerance", "voter-lagging", "no-leader"),
    without_leader=True,
)
