"""Facts: what is known of one quorum now. Rules, commands, status and metrics read it; each fact is computed once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rules.facts import (
    addresses,
    brokers,
    damaged_log,
    leadership,
    missing_voter,
    offline_partitions,
    only_copies,
    other_quorums,
    registered_node,
    roles,
    static_voters,
    unlike_listeners,
    voter_status,
    votes,
)
from rules.facts.damaged_log import DamagedLog
from rules.facts.leadership import Leaderless, UnreachableLeader
from rules.facts.node import Nodes
from rules.facts.offline_partitions import Cause
from rules.facts.only_copies import PartitionDirectory
from rules.facts.registered_node import RegisteredNode
from rules.facts.unlike_listeners import UnlikeListener
from rules.facts.voter_status import VoterStatus
from rules.model.history import PartitionSum
from rules.model.identifiers import Millis, NodeId, ReplicaKey, TopicId
from rules.model.monitoring import LeaderView
from rules.model.quorum import Quorum
from rules.model.replica import ReplicaHistory


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of one quorum now, of each node and of the quorum. Without slots: each fact is kept."""

    quorum: Quorum
    """What was observed."""

    # The leader.

    @cached_property
    def leaderless(self) -> Leaderless | None:
        """The evidence that the quorum has no leader; None if it has one, or that is not known."""
        return leadership.leaderless(self.nodes)

    @cached_property
    def unreachable_leader(self) -> UnreachableLeader | None:
        """The leader that the answering controllers follow and that does not answer the monitor."""
        return leadership.unreachable_leader(self.nodes)

    @property
    def current_leader(self) -> NodeId | None:
        """The leader by the newest evidence; None if the quorum has none or nothing is known."""
        return None if self.leaderless else self.quorum.leader_id

    @cached_property
    def voters_fetching(self) -> tuple[frozenset[NodeId], tuple[NodeId, ...]]:
        """The voters that fetched at the newest poll, and those that did not; none without a leader."""
        return (frozenset(), ()) if self.leaderless else leadership.voters_fetching(self.quorum)

    @cached_property
    def disagreeing_views(self) -> tuple[LeaderView, ...]:
        """What controllers reported that do not follow the only leader of the epoch of `reported_leaders`."""
        return leadership.disagreeing_views(self.quorum)

    @cached_property
    def other_quorums(self) -> Sequence[LeaderView]:
        """A view of each other quorum that answers with the same cluster id."""
        return other_quorums.other_quorums(self.quorum)

    # The nodes and their roles.

    @cached_property
    def nodes(self) -> Nodes:
        """Each voter and registered controller, by node id."""
        return Nodes(self.quorum)

    @cached_property
    def known_controllers(self) -> frozenset[NodeId]:
        """Every controller that the log or the poll names."""
        return roles.known_controllers(self.quorum)

    @cached_property
    def controllers_only(self) -> Mapping[NodeId, str]:
        """The nodes that run as controllers only and were brokers, or may have been: each with what shows it."""
        return roles.controllers_only(self.nodes)

    @cached_property
    def leftover_brokers(self) -> Mapping[NodeId, str]:
        """Those of them that are still registered as brokers."""
        return {node: why for node, why in self.controllers_only.items() if node in self.quorum.brokers}

    @cached_property
    def registered_nodes(self) -> list[RegisteredNode]:
        """Every registration: controllers first, then brokers, each sorted by node id."""
        return registered_node.registered_nodes(self.quorum, self.leftover_brokers)

    @cached_property
    def short_of_unregistering(self) -> list[RegisteredNode]:
        """The nodes whose registrations keep Kafka from the level that unregisters controllers."""
        return registered_node.short_of_unregistering(self.registered_nodes)

    # The voters.

    @cached_property
    def voter_statuses(self) -> tuple[VoterStatus, ...]:
        """The status of each voter of the poll; none without a current poll in which the leader has a row."""
        return voter_status.voter_statuses(self.nodes)

    @cached_property
    def change_is_pending(self) -> bool:
        """Whether the leader has a voter set that is not committed."""
        return voter_status.change_is_pending(self.quorum)

    @cached_property
    def former_voters(self) -> frozenset[NodeId]:
        """The voters that a forced change removed."""
        return voter_status.former_voters(self.quorum)

    @cached_property
    def replaced_disks(self) -> Mapping[NodeId, ReplicaKey]:
        """The voters that run with another disk, by node id."""
        return missing_voter.replaced_disks(self.nodes)

    @cached_property
    def voter_lists(self) -> Mapping[NodeId, str]:
        """controller.quorum.voters of each controller of a static quorum that has one and is known."""
        return static_voters.voter_lists(self.quorum)

    @cached_property
    def two_majorities(self) -> bool:
        """Whether two majorities without a common voter are possible, because controllers have different lists."""
        return static_voters.two_majorities(self.quorum)

    @cached_property
    def without_list(self) -> frozenset[NodeId]:
        """The voters of a static quorum that answer that their own list is empty."""
        return static_voters.without_list(self.nodes)

    @cached_property
    def with_doubtful_list(self) -> Mapping[NodeId, str]:
        """The voters of a static quorum that may not vote as the leader counts, and why."""
        return static_voters.with_doubtful_list(self.nodes)

    @cached_property
    def unlike_listeners(self) -> tuple[UnlikeListener, ...]:
        """The voters whose listeners differ from those of most, by node id."""
        return unlike_listeners.unlike_listeners(self.nodes)

    @cached_property
    def without_vote(self) -> Mapping[NodeId, str]:
        """The voters that grant no vote, however they follow, and why."""
        return votes.without_vote(self.nodes)

    @cached_property
    def in_doubt(self) -> Mapping[NodeId, str]:
        """The voters of which it is unknown whether they take part, and why."""
        return votes.in_doubt(self.nodes)

    @cached_property
    def unlike(self) -> Mapping[NodeId, str]:
        """The controllers that the others may not be able to use, and why."""
        return votes.unlike(self.nodes)

    @cached_property
    def unproved(self) -> Mapping[NodeId, str]:
        """The same, with controllers that all reject the monitor alike, and those whose registration may be hidden."""
        return votes.unproved(self.nodes)

    @cached_property
    def doubtful(self) -> Mapping[NodeId, str]:
        """The voters of which it is unknown whether others reach them, or they take part, and why."""
        return votes.doubtful(self.nodes)

    @cached_property
    def denying(self) -> frozenset[NodeId]:
        """The controllers that may deny what others send."""
        return votes.denying(self.nodes)

    @cached_property
    def denied_before_outage(self) -> Mapping[NodeId, str]:
        """The voters that deny, or denied when they last answered, what others send."""
        return votes.denied_before_outage(self.nodes)

    @cached_property
    def voters_that_count(self) -> frozenset[NodeId] | None:
        """The voters of the leader's latest set that may acknowledge, vote and lead now, as far as that is proved."""
        return votes.voters_that_count(self.nodes)

    @cached_property
    def in_sync_with_vote(self) -> frozenset[NodeId] | None:
        """The voters that are in sync, have a vote and serve connections, those in doubt with them."""
        return votes.in_sync_with_vote(self.nodes)

    # The log and the partitions.

    @cached_property
    def damaged_logs(self) -> Sequence[DamagedLog]:
        """What each controller served damaged."""
        return damaged_log.damaged_logs(self.quorum)

    @cached_property
    def hides_records(self) -> bool:
        """Whether damaged batches of the log were skipped: what is not known may be written there."""
        return damaged_log.hides_records(self.quorum)

    @cached_property
    def only_copies(self) -> Mapping[NodeId, frozenset[PartitionDirectory]]:
        """The brokers that may hold the only copy of acknowledged records."""
        return only_copies.only_copies(self.quorum)

    @cached_property
    def only_in_sync_copies(self) -> Mapping[NodeId, frozenset[PartitionDirectory]]:
        """The brokers that lead RECOVERING partitions as the only in-sync replica."""
        return only_copies.only_in_sync_copies(self.quorum)

    @cached_property
    def elected_recovered(self) -> Mapping[NodeId, frozenset[PartitionDirectory]]:
        """The brokers that were elected lately for partitions whose recovery that ended (KIP-704)."""
        return only_copies.elected_recovered(self.quorum)

    @cached_property
    def emptied_replicas(self) -> Mapping[ReplicaKey, set[TopicId]]:
        """The topics whose replicas were created again, without their records, by broker and directory."""
        return offline_partitions.emptied_replicas(self.quorum)

    @cached_property
    def brokers_before(self) -> Mapping[NodeId, Mapping[NodeId, int]]:
        """By broker that does not run, which ones must be back before it, and for how many partitions."""
        return offline_partitions.brokers_before(self.quorum, self.controllers_only, self.emptied_replicas)

    def awaited(self, one: PartitionSum) -> tuple[Cause, ReplicaKey | None]:
        """Returns the replica that can come back most easily of those that may lead these partitions, and why it does
        not; None if one of them may lead at once, or none is named."""
        return offline_partitions.awaited(self.quorum, one, self.controllers_only, self.emptied_replicas)

    def not_in_sync(self, one: PartitionSum) -> tuple[Cause, ReplicaKey]:
        """Returns the replica of partitions below min.insync.replicas that comes back most easily, and why it is
        missing."""
        return offline_partitions.not_in_sync(self.quorum, one, self.controllers_only)

    # The brokers.

    @cached_property
    def left_in_order(self) -> frozenset[NodeId]:
        """The brokers that left by a controlled shutdown and are not back."""
        return offline_partitions.left_in_order(self.quorum)

    @cached_property
    def fenced_ms(self) -> Mapping[NodeId, Millis]:
        """When each broker was fenced last, as far as the log shows it."""
        return roles.fenced_ms(self.quorum)

    @cached_property
    def broker_ids(self) -> list[NodeId]:
        """The registered brokers, sorted."""
        return brokers.broker_ids(self.quorum)

    @cached_property
    def brokers_alive(self) -> int:
        """How many brokers are unfenced."""
        return brokers.brokers_alive(self.quorum)

    @cached_property
    def starting_brokers(self) -> frozenset[NodeId]:
        """The brokers whose process has started again, and which do not serve yet."""
        return brokers.starting_brokers(self.quorum)

    @cached_property
    def brokers_behind(self) -> list[NodeId]:
        """The brokers that are alive, stay, and do not keep up with the metadata log by the newest poll."""
        return brokers.brokers_behind(self.quorum)

    @cached_property
    def recovering_on(self) -> Counter[NodeId]:
        """How many RECOVERING partitions have a replica on each broker."""
        return brokers.recovering_on(self.quorum)

    @cached_property
    def recovering_topics(self) -> Counter[TopicId]:
        """How many partitions of each topic are RECOVERING."""
        return brokers.recovering_topics(self.quorum)

    @cached_property
    def newest_histories(self) -> Mapping[NodeId, ReplicaHistory]:
        """The history of each node's directory that was listed last."""
        return brokers.newest_histories(self.quorum)

    @cached_property
    def first_polled_ms(self) -> Millis | None:
        """When the first replica that is remembered was listed."""
        return brokers.first_polled_ms(self.quorum)

    # Addresses for Kafka's tools.

    @cached_property
    def tool_addresses(self) -> tuple[list[addresses.Address], list[addresses.Address]]:
        """Where a controller answers or may answer, and where one may answer later, each the best first."""
        return addresses.tool_addresses(self.quorum)

    @cached_property
    def answering_brokers(self) -> list[str]:
        """The configured addresses of brokers that answer polls, even with a denial."""
        return addresses.answering_brokers(self.quorum)

    @cached_property
    def protocols(self) -> Mapping[str, str]:
        """The security protocol of each registered listener that has one, by HOST:PORT."""
        return addresses.protocols(self.quorum)
