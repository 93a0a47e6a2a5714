"""Facts: what is known of one quorum now. Rules, commands, status and metrics read it."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from rules.facts import (
    addresses,
    brokers,
    damaged_log,
    doubts,
    emptied,
    leadership,
    needs,
    offline_partitions,
    only_copies,
    other_quorums,
    registered_node,
    reported_leaders,
    roles,
    static_voters,
    stopped_timers,
    unlike_listeners,
    unreplayable,
    voter_changes,
    witnesses,
)
from rules.facts.doubts import About, Doubt
from rules.facts.fact import Fact
from rules.facts.node import Nodes
from rules.facts.offline_partitions import Cause
from rules.model.history import PartitionSum
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.quorum import Quorum

_FactT = TypeVar("_FactT")


def _fact(compute: Callable[["Facts"], _FactT]) -> Fact["Facts", _FactT]:
    return Fact(compute)


class Facts:
    """What is known of one quorum now, of each node and of the quorum. Each fact is computed once.

    What a fact is, the docstring of the function behind it says.
    """

    def __init__(self, quorum: Quorum) -> None:
        self.quorum = quorum
        """What was observed."""
        self.answers: dict[object, object] = {}
        """What was answered of it already, by question (`rules.facts.asked_once`)."""

    nodes = _fact(lambda facts: Nodes(facts.quorum))
    """Each voter and registered controller, by node id."""
    witnesses = _fact(lambda facts: witnesses.Witnesses(facts.nodes))
    """Which controller reaches which, as their own hosts see it."""
    unmet_needs = _fact(lambda facts: needs.unmet_needs(facts.nodes))

    damaged_logs = _fact(lambda facts: damaged_log.damaged_logs(facts.quorum))
    hides_records = _fact(lambda facts: any(log.batches for log in facts.damaged_logs))
    """Whether damaged batches of the log were skipped: what is not known may be written there."""

    replay_end = _fact(lambda facts: unreplayable.replay_end(facts.quorum))

    # The leader.
    who_leads = _fact(lambda facts: leadership.WhoLeads(facts.nodes))
    """What the nodes answer to the question who leads."""
    leaderless = _fact(lambda facts: leadership.leaderless(facts.who_leads))
    unreachable_leader = _fact(lambda facts: facts.who_leads.unreachable_leader)
    current_leader = _fact(lambda facts: None if facts.leaderless else facts.quorum.leader_id)
    """The leader by the newest evidence; None if the quorum has none or nothing is known."""
    voters_fetching = _fact(
        lambda facts: reported_leaders.NO_VOTERS if facts.leaderless else reported_leaders.voters_fetching(facts.quorum)
    )
    disagreeing_views = _fact(lambda facts: reported_leaders.disagreeing_views(facts.quorum))
    other_quorums = _fact(lambda facts: other_quorums.other_quorums(facts.quorum))
    metadata_contradicts = _fact(lambda facts: other_quorums.metadata_contradicts(facts.quorum))

    # The nodes and their roles.
    known_controllers = _fact(lambda facts: roles.known_controllers(facts.quorum))
    controllers_only = _fact(lambda facts: roles.controllers_only(facts.nodes))
    leftover_brokers = _fact(lambda facts: roles.leftover_brokers(facts.quorum, facts.controllers_only))
    registered_nodes = _fact(lambda facts: registered_node.registered_nodes(facts.quorum, facts.leftover_brokers))
    short_of_unregistering = _fact(lambda facts: registered_node.short_of_unregistering(facts.registered_nodes))

    # The voters.
    change_is_pending = _fact(lambda facts: voter_changes.change_is_pending(facts.quorum))
    former_voters = _fact(lambda facts: voter_changes.former_voters(facts.quorum))
    replaced_disks = _fact(lambda facts: voter_changes.replaced_disks(facts.nodes))
    voter_lists = _fact(lambda facts: static_voters.voter_lists(facts.quorum))
    two_majorities = _fact(lambda facts: static_voters.two_majorities(facts.voter_lists))
    without_list = _fact(lambda facts: static_voters.without_list(facts.nodes))
    with_doubtful_list = _fact(lambda facts: static_voters.with_doubtful_list(facts.nodes))
    unlike_listeners = _fact(lambda facts: unlike_listeners.unlike_listeners(facts.nodes))
    without_vote = _fact(
        lambda facts: doubts.without_vote(
            facts.nodes,
            replaced_disks=facts.replaced_disks,
            without_list=facts.without_list,
            hides_records=facts.hides_records,
        )
    )
    doubts = _fact(
        lambda facts: doubts.doubts(
            facts.nodes,
            views=facts.disagreeing_views,
            lists=facts.with_doubtful_list,
            listeners=facts.unlike_listeners,
            timers=stopped_timers.stopped_timers(facts.nodes),
            hides_records=facts.hides_records,
            dialled_by_all=facts.witnesses.dialled_by_all,
        )
    )
    denying = _fact(lambda facts: doubts.denying(facts.doubts))
    denied_before_outage = _fact(lambda facts: doubts.denied_before_outage(facts.nodes, facts.denying))

    def doubts_about(self, about: Collection[About]) -> Mapping[NodeId, Doubt]:
        """Returns the most important doubt about one of these of each controller that has one."""
        return doubts.about(self.doubts, about)

    # The log and the partitions.
    emptied = _fact(lambda facts: emptied.Emptied(facts.quorum))
    """The replicas that their broker created again without their records."""
    recoveries = _fact(lambda facts: emptied.recoveries(facts.quorum, facts.emptied))
    offline = _fact(lambda facts: emptied.offline_sums(facts.quorum, facts.emptied))
    may_lead = _fact(
        lambda facts: {
            (one.topic_id, one.partition): tuple(holder.id for holder in waiting.holders)
            for waiting in facts.offline
            for one in waiting.examples
        }
    )
    """By topic and partition, for some of the partitions without a leader, the brokers whose replicas may lead."""
    only_copies = _fact(lambda facts: only_copies.only_copies(facts.quorum, facts.recoveries, facts.emptied))
    only_in_sync_copies = _fact(lambda facts: only_copies.only_in_sync_copies(facts.recoveries))
    elected_recovered = _fact(lambda facts: only_copies.elected_recovered(facts.quorum))
    stopped_before = _fact(lambda facts: only_copies.stopped_before(facts.quorum, facts.emptied))
    copied_before = _fact(lambda facts: only_copies.copied_before(facts.quorum, facts.offline, facts.recoveries))
    records_awaited = _fact(
        lambda facts: only_copies.records_awaited(facts.offline, facts.stopped_before, facts.emptied)
    )
    led_at_a_start = _fact(lambda facts: only_copies.led_at_a_start(facts.quorum, facts.offline, facts.emptied))
    to_be_stopped = _fact(
        lambda facts: frozenset(leader for of_node in facts.stopped_before.values() for leader in of_node)
    )
    """The brokers that lead partitions without records that others have: they must be stopped before those start."""
    brokers_before = _fact(
        lambda facts: offline_partitions.brokers_before(
            facts.quorum, facts.offline, facts.controllers_only, facts.emptied
        )
    )

    def awaited(self, one: PartitionSum) -> tuple[Cause, ReplicaKey | None]:
        """Returns the replica that can come back most easily of those that may lead these partitions, and why it does
        not; None if one of them may lead at once, or none is named."""
        return offline_partitions.awaited(self.quorum, one, self.controllers_only, self.emptied)

    def not_in_sync(self, one: PartitionSum) -> tuple[Cause, ReplicaKey]:
        """Returns the replica of partitions below min.insync.replicas that comes back most easily, and why it is
        missing."""
        return offline_partitions.not_in_sync(self.quorum, one, self.controllers_only)

    # The brokers.
    left_in_order = _fact(lambda facts: offline_partitions.left_in_order(facts.quorum))
    fenced_ms = _fact(lambda facts: roles.fenced_ms(facts.quorum))
    broker_ids = _fact(lambda facts: sorted(facts.quorum.brokers))
    """The registered brokers."""
    brokers_alive = _fact(lambda facts: sum(broker.alive for broker in facts.quorum.brokers.values()))
    """How many brokers are unfenced."""
    starting_brokers = _fact(lambda facts: brokers.starting_brokers(facts.quorum))
    unregistered_running = _fact(lambda facts: brokers.unregistered_running(facts.quorum, facts.known_controllers))
    needed_replicas = _fact(lambda facts: brokers.needed_by_broker(facts.quorum))
    broker_fetch_ages = _fact(lambda facts: brokers.broker_fetch_ages(facts.quorum))
    longest_without_fetch = _fact(lambda facts: brokers.longest_without_fetch(facts.broker_fetch_ages))
    brokers_away = _fact(lambda facts: brokers.brokers_away(facts.quorum))
    brokers_behind = _fact(lambda facts: brokers.brokers_behind(facts.quorum))
    recovering_on = _fact(
        lambda facts: Counter(node for recovery in facts.quorum.recovering for node in {*recovery.replicas})
    )
    """How many RECOVERING partitions have a replica on each broker."""
    recovering_topics = _fact(lambda facts: Counter(recovery.topic_id for recovery in facts.quorum.recovering))
    """How many partitions of each topic are RECOVERING."""
    newest_histories = _fact(lambda facts: brokers.newest_histories(facts.quorum))
    first_polled_ms = _fact(
        lambda facts: min((history.first_seen_at_ms for history in facts.quorum.histories.values()), default=None)
    )
    """When the first replica that is remembered was listed."""

    # Addresses for Kafka's tools.
    tool_addresses = _fact(lambda facts: addresses.tool_addresses(facts.quorum))
    answering_brokers = _fact(lambda facts: addresses.answering_brokers(facts.quorum))
    protocols = _fact(lambda facts: addresses.protocols(facts.quorum))
