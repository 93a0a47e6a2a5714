"""Partitions: every partition in the log, which are RECOVERING (KIP-704), and how many lack a leader or replicas.

All partitions are kept, because a PartitionChangeRecord holds only the changed fields: the in-sync replicas before an
unclean election are in an earlier record.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Final, TypeAlias

from connectors.metadata.value_limits import MOST_OF_A_NAME, MOST_PARTITIONS, MOST_REASSIGNED, MOST_RECOVERING
from connectors.observations.log_event import (
    ElrCleared,
    MinInSyncReplicasSet,
    PartitionChanged,
    PartitionSet,
    TopicCreated,
    TopicRemoved,
    Undecodable,
)
from connectors.observations.partition_run import Directories, PartitionRun, PartitionValues, RunRow
from rules.model.history import (
    BrokerPartitions,
    ElectedRecovered,
    NeededReplica,
    OfflineDirectory,
    OutOfSyncReplicas,
    PartitionSum,
    Reassignment,
    Recovery,
    RewriteCause,
    TopicPartition,
)
from rules.model.identifiers import Epoch, Millis, NodeId, Offset, TopicId
from rules.model.membership import BrokerRegistration, RecordPosition
from rules.model.unreplayable import MOST_UNREPLAYABLE, Refusal, UnreplayableRecord
from streaming.replay.broker_counts import BrokerSums
from streaming.replay.counted_partitions import CountedPartitions, eligible, missing
from streaming.replay.directory_numbers import DirectoryNumbers
from streaming.replay.emptied_replicas import Emptied
from streaming.replay.image import Image
from streaming.replay.needed_replicas import NeededReplicas, OutOfSync, is_whole, need_of
from streaming.replay.recent_history import Rewrite, UncleanElection
from streaming.replay.recovery_change import (
    UNKNOWN,
    continued,
    passed_over,
    raised,
    recovery_began,
    unclean_election,
    without_crashed,
)
from streaming.replay.stored_topics import Assignment, PageStore, StoredTopics, Topic

PartitionOrTopic: TypeAlias = (
    PartitionChanged | PartitionSet | TopicCreated | TopicRemoved | ElrCleared | MinInSyncReplicasSet
)
_assignment: Final[Callable[[tuple[object, ...]], Assignment]] = partial(tuple.__new__, Assignment)
"""Makes an Assignment of its fields; its own constructor takes twice as long."""
MOST_CHANGES = 1_024
"""The maximum number of changes of ISRs and leaders of one observation that are counted: a failed broker makes more at
once, and then none again."""
_assigned = attrgetter(*PartitionValues._fields[:5], "partition_leader_epoch", "partition_epoch")
"""Returns the fields of the Assignment that a PartitionSet makes, without its directories."""
_values = attrgetter(*PartitionValues._fields)


class Partitions:
    """Every partition of a log, and the partitions whose leader is recovering.

    The topics are many and change rarely: they are restored only when an event needs them, and stored again only after
    a change. `recovering` is small and is stored separately.
    """

    __slots__ = (
        *(
            "_awaited_min_isr",
            "_brokers_changed",
            "_brokers_down",
            "_counts",
            "_min_isr",
            "_needed",
            "_out_of_sync",
            "_under_min_isr",
        ),
        *("_crashed", "_offline_directories", "_offline", "_packed", "_pages", "_recovering", "_recovering_count"),
        *("_registered_changed", "_renamed", "_offline_replicas", "_reassigned", "_reassigned_count"),
        *("_sorted_reassigned", "_sorted_recovering"),
        *("_topics", "_with_elr", "elected_recovered", "emptied", "refused", "unclean", "rewrites", "unreplayable"),
    )

    def __init__(
        self,
        *,
        recovering: tuple[Recovery, ...] = (),
        offline: tuple[PartitionSum, ...] = (),
        offline_directories: tuple[OfflineDirectory, ...] = (),
        reassignments: tuple[Reassignment, ...] = (),
        under_min_isr: tuple[PartitionSum, ...] = (),
        brokers_down: tuple[BrokerPartitions, ...] = (),
        min_isr: int | None = None,
        needed_replicas: tuple[NeededReplica, ...] | None = (),
        out_of_sync: tuple[OutOfSyncReplicas, ...] = (),
        packed: bytes | None = None,
        pages: PageStore | None = None,
    ) -> None:
        """`packed` is what `pack` returned; `pages` holds its pages.

        `needed_replicas`: None while a snapshot is read. Its configurations follow its partitions, so all of them are
        counted at its end.
        """
        self._topics: StoredTopics | None = None
        self._packed = packed
        self._pages = pages
        self._recovering: dict[TopicId, dict[int, Recovery]] = {}
        for recovery in recovering:
            self._recovering.setdefault(recovery.topic_id, {})[recovery.partition] = recovery
        self._recovering_count = len(recovering)
        self._reassigned: dict[TopicId, dict[int, Reassignment]] = {}
        for moved in reassignments:
            self._reassigned.setdefault(moved.topic_id, {})[moved.partition] = moved
        self._reassigned_count = len(reassignments)
        self._sorted_reassigned: tuple[Reassignment, ...] | None = reassignments
        self._offline, self._under_min_isr = CountedPartitions(offline), CountedPartitions(under_min_isr)
        # The second are of topics whose configuration precedes them in one batch (Kafka 3.3).
        self._min_isr, self._awaited_min_isr = min_isr, dict[str, int]()
        self._needed = None if needed_replicas is None else NeededReplicas(needed_replicas)
        self._out_of_sync = OutOfSync(out_of_sync)
        self._counts: BrokerSums | None = None
        """None until the topics are restored."""
        self._brokers_down, self._brokers_changed, self._registered_changed = brokers_down, False, False
        self._offline_directories: tuple[OfflineDirectory, ...] | None = offline_directories
        self._offline_replicas: dict[tuple[NodeId, int], int] = {}
        """By broker and number of the directory; as many as were read since the topics were restored."""
        self._renamed: dict[TopicId, str] = {}
        """Topics with another name than their recoveries."""
        self._sorted_recovering: tuple[Recovery, ...] | None = recovering
        self._with_elr: dict[TopicId, set[int]] | None = None
        """The partitions that may have an ELR; None until a ClearElrRecord is read."""
        self.elected_recovered: list[ElectedRecovered] = []
        """Ends of a recovery by an election since `end_observation`."""
        self.unclean: list[UncleanElection] = []
        """Unclean elections since `end_observation`."""
        self.rewrites: list[Rewrite] = []
        """Changes of ISRs and leaders since `end_observation`; at most MOST_CHANGES."""
        self.emptied = Emptied()
        """Replicas that were created again in another directory."""
        self._crashed: dict[NodeId, list[int]] = {}
        """By broker, which of them may have passed over only this one, which crashed."""
        self.unreplayable: list[UnreplayableRecord] = []
        """Records that Kafka cannot replay, since `Log.end_observation`; at most MOST_UNREPLAYABLE."""
        self.refused: list[Undecodable] = []
        """Records beyond a limit of `value_limits`, until `Log.take_refused`."""

    @property
    def recovering(self) -> tuple[Recovery, ...]:
        """Partitions whose leader is recovering, ordered by topic name, topic id, partition."""
        if self._sorted_recovering is None:
            for topic_id, name in self._renamed.items():
                of_topic = self._recovering.get(topic_id, {})
                of_topic.update({number: replace(recovery, topic=name) for number, recovery in of_topic.items()})
            self._renamed.clear()
            all_of_them = (recovery for of_topic in self._recovering.values() for recovery in of_topic.values())
            self._sorted_recovering = tuple(
                sorted(all_of_them, key=lambda one: (one.topic or "", one.topic_id, one.partition))
            )
        return self._sorted_recovering

    @property
    def reassignments(self) -> tuple[Reassignment, ...]:
        """Partitions that are moved to other replicas, ordered by their beginning."""
        if self._sorted_reassigned is None:
            all_of_them = (reassignment for of_topic in self._reassigned.values() for reassignment in of_topic.values())
            self._sorted_reassigned = tuple(
                sorted(all_of_them, key=lambda one: (one.since_timestamp_ms, one.topic_id, one.partition))
            )
        return self._sorted_reassigned

    @property
    def offline(self) -> tuple[PartitionSum, ...]:
        """The partitions without a leader, as sums."""
        return self._offline.current

    @property
    def under_min_isr(self) -> tuple[PartitionSum, ...]:
        """The partitions with a leader and fewer in-sync replicas than min.insync.replicas, as sums."""
        return self._under_min_isr.current

    @property
    def needed_replicas(self) -> tuple[NeededReplica, ...]:
        """The partitions that need the in-sync replica of a broker, or may need it, as sums."""
        return () if self._needed is None else self._needed.current

    @property
    def out_of_sync(self) -> tuple[OutOfSyncReplicas, ...]:
        """The partitions of which the replica of a broker is not in sync, as counts."""
        return self._out_of_sync.current

    @property
    def brokers_down(self) -> tuple[BrokerPartitions, ...]:
        """The partitions of the brokers that are not registered, fenced, or shutting down."""
        return self._brokers_down

    @property
    def min_isr(self) -> int | None:
        """The cluster's min.insync.replicas; None: the log has none, and the brokers use that of server.properties."""
        return self._min_isr

    @property
    def offline_directories(self) -> tuple[OfflineDirectory, ...]:
        """The directories that hold replicas and that their broker has not registered, ordered by broker and id."""
        if self._offline_directories is None:
            directories = self._restored().directories
            found = (
                OfflineDirectory(broker=broker, directory_id=directory, replicas=replicas)
                for (broker, number), replicas in self._offline_replicas.items()
                if replicas > 0 and (directory := directories.directory(broker, number)) is not None
            )
            self._offline_directories = tuple(sorted(found, key=lambda one: (one.broker, one.directory_id)))
        return self._offline_directories

    @property
    def topics(self) -> Mapping[TopicId, Topic]:
        """Every topic by its id."""
        return self._restored().by_id

    @property
    def directories(self) -> DirectoryNumbers:
        """The log directories that the numbers in the partitions mean."""
        return self._restored().directories

    def pack(self, pages: PageStore | None = None) -> bytes:
        """Returns the topics as bytes; the original bytes if nothing changed. Their pages are kept in `pages`."""
        if self._packed is None:
            self._packed = b"" if self._topics is None else self._topics.to_bytes(pages)
        return self._packed

    def create(self, topic_id: TopicId, name: str, offset: Offset, *, snapshot: bool = False) -> None:
        """Applies a TopicRecord: a topic has this name."""
        topics = self._restored()
        known, others = topics.by_id.get(topic_id), topics.named(name)
        if others and not (snapshot and others == [topic_id]):
            # A piece of a snapshot may be read twice.
            self._note("TopicRecord", Refusal.TOPIC_NAME, f"topic {name}", offset, snapshot=snapshot)
        if known is not None and known.name == name:
            return
        if len(topics.named(name)) >= MOST_OF_A_NAME:
            self._refuse(offset, f"{MOST_OF_A_NAME} topics have the name of topic {topic_id}, and no more are accepted")
        elif known is not None or self._has_room(offset):
            self._for_change().set_name(topic_id, name)
            if known is None and name in self._awaited_min_isr:
                topics.to_change(topic_id).min_isr = self._awaited_min_isr[name]
            if topic_id in self._recovering:
                self._renamed[topic_id] = name
                self._sorted_recovering = None

    def remove(self, topic_id: TopicId, at: RecordPosition) -> None:
        """Applies a RemoveTopicRecord: drops the topic and its partitions."""
        topics = self._for_change()
        topic = topics.by_id.get(topic_id)
        if topic is None:
            self._note(
                "RemoveTopicRecord", Refusal.TOPIC_REMOVED, f"topic id {topic_id}", at.offset, snapshot=at.snapshot
            )
        else:
            for number, held in topic.partitions.items():
                self._count((topic_id, number), topic, held, None, at)
                self._count_offline_replicas(held, None)
        topics.remove(topic_id)
        self.emptied.remove_topic(topic_id)
        if (moved := self._reassigned.pop(topic_id, None)) is not None:
            self._reassigned_count -= len(moved)
            self._sorted_reassigned = None
        if (recovered := self._recovering.pop(topic_id, None)) is not None:
            self._recovering_count -= len(recovered)
            self._sorted_recovering = None

    def end_observation(self, brokers: Mapping[NodeId, BrokerRegistration]) -> None:
        """Ends the lists of elections, which are in the history, and finds the offline directories."""
        if self._registered_changed or (self._topics is not None and self._topics.directories.added):
            self._find_offline_directories(brokers)
        if self._offline.overflowed_ms is not None or self._under_min_isr.overflowed_ms is not None:
            self._count_again()
        if self._brokers_changed or (self._counts is not None and self._counts.changed):
            self._brokers_changed = False
            self._brokers_down = self._restored_counts().down(brokers, lambda: self.topics)
        self.elected_recovered.clear()
        self._awaited_min_isr.clear()
        self.unclean.clear()
        self.rewrites.clear()
        self.emptied.found.clear()
        self._crashed.clear()

    def brokers_changed(self) -> None:
        """Notes that a broker's registration has changed, or is new or gone."""
        self._brokers_changed = True

    def set_min_isr(self, name: str | None, value: int | None, at: RecordPosition) -> None:
        """Applies a ConfigRecord of min.insync.replicas: of the topics with this name, or of the cluster if None."""
        topics, before = self._restored(), self._min_isr
        if name is None:
            self._min_isr = value
            for topic_id, topic in topics.by_id.items() if before != self._min_isr else ():
                if topic.min_isr is None:
                    self._count_with(topic_id, topic, before, self._min_isr, at)
            return
        if value is not None and not topics.named(name):
            self._awaited_min_isr[name] = value
        for topic_id in topics.named(name):
            self._for_change()
            topic = topics.to_change(topic_id)
            was, topic.min_isr = topic.min_isr, value
            self._count_with(topic_id, topic, was or before, value or before, at)

    def _count_with(
        self, topic_id: TopicId, topic: Topic, before: int | None, now: int | None, at: RecordPosition
    ) -> None:
        """Counts the partitions of a topic whose min.insync.replicas has changed."""
        directories, name, most = self.directories, topic.name, max(before or 1, now or 1)
        for number, held in topic.partitions.items() if before != now else ():
            key = (topic_id, number)
            if self._needed is not None and not (is_whole(held, before) and is_whole(held, now)):
                self._needed.changed(key, name, (need_of(held, before), held), (need_of(held, now), held))
            if _is_served(held, most):
                continue
            was, is_ = missing(held, before or 1, directories), missing(held, now or 1, directories)
            if was != is_:
                self._under_min_isr.changed(key, name, (was, held), (is_, held), at)

    def count_needed(self) -> None:
        """Counts all partitions, at the end of a snapshot."""
        self._needed, self._out_of_sync = NeededReplicas(), OutOfSync()
        undecided: Counter[tuple[NodeId, ...]] = Counter()
        for topic_id, topic in self.topics.items():
            min_isr = topic.min_isr or self._min_isr
            for number, held in topic.partitions.items():
                if min_isr is None and held.leader is not None and len(held.isr) == len(held.replicas) and not held.elr:
                    # Often all partitions of a cluster.
                    undecided[held.isr] += 1
                elif not is_whole(held, min_isr):
                    self._count_needed((topic_id, number), topic, None, held)
        self._needed.add_undecided(undecided)

    def directories_changed(self) -> None:
        """Notes that the directories that a broker has registered have changed, or its registration is new or gone."""
        self._registered_changed = True

    def _find_offline_directories(self, brokers: Mapping[NodeId, BrokerRegistration]) -> None:
        """Finds the directories that hold replicas and that their broker has not registered.

        Only if there is another one than before, all partitions are read: where nothing fails, nothing is counted.
        """
        topics = self._restored()
        self._registered_changed = topics.directories.added = False
        offline = {
            (node, number)
            for node, ids in topics.directories.of_broker.items()
            if node in brokers and (online := {*brokers[node].log_dirs})
            for directory, number in ids.items()
            if directory not in online
        }
        if new := offline - self._offline_replicas.keys():
            found = Counter(
                place
                for topic in topics.by_id.values()
                for held in topic.partitions.values()
                for place in zip(held.replicas, held.directories, strict=False)
                if place in new
            )
            self._offline_replicas |= {place: found[place] for place in new}
        for place in self._offline_replicas.keys() - offline:
            del self._offline_replicas[place]
        self._offline_directories = None

    def _count_again(self) -> None:
        """Counts all partitions in the sums that they belong to: some were counted in another one."""
        topics = self._restored()
        known = (*self._offline.current, *self._under_min_isr.current)
        since_ms = min((partition.since_timestamp_ms for partition in known), default=Millis(0))
        at = RecordPosition(offset=Offset(0), leader_epoch=Epoch(0), timestamp_ms=since_ms, snapshot=True)
        self._offline, self._under_min_isr = CountedPartitions(), CountedPartitions()
        for topic_id, topic in topics.by_id.items():
            for number, held in topic.partitions.items():
                self._count_sums((topic_id, number), topic, None, held, at)

    def _count(
        self,
        key: tuple[TopicId, int],
        topic: Topic,
        held: Assignment | None,
        now: Assignment | None,
        at: RecordPosition,
    ) -> None:
        """Counts a partition that has changed; None: it is unknown, or removed."""
        self._restored_counts().change(key, held, now)
        self._count_needed(key, topic, held, now)
        self._count_sums(key, topic, held, now, at)

    def _count_needed(
        self, key: tuple[TopicId, int], topic: Topic, held: Assignment | None, now: Assignment | None
    ) -> None:
        if self._needed is not None:
            min_isr = topic.min_isr or self._min_isr
            self._needed.changed(key, topic.name, (need_of(held, min_isr), held), (need_of(now, min_isr), now))
            self._out_of_sync.changed(key, topic.name, held, now)

    def _count_sums(
        self,
        key: tuple[TopicId, int],
        topic: Topic,
        held: Assignment | None,
        now: Assignment | None,
        at: RecordPosition,
    ) -> None:
        directories, name, min_isr = self.directories, topic.name, topic.min_isr or self._min_isr or 1
        if _is_served(now, min_isr) and _is_served(held, min_isr):
            return
        before, after = eligible(held, directories), eligible(now, directories)
        self._offline.changed(key, name, (before, held), (after, now), at)
        before, after = missing(held, min_isr, directories), missing(now, min_isr, directories)
        self._under_min_isr.changed(key, name, (before, held), (after, now), at)

    def _count_offline_replicas(self, before: Assignment | None, now: Assignment | None) -> None:
        if not self._offline_replicas:
            return
        for assignment, count in ((before, -1), (now, 1)):
            for place in (
                zip(assignment.replicas, assignment.directories, strict=False) if assignment is not None else ()
            ):
                if place in self._offline_replicas:
                    self._offline_replicas[place] += count
                    self._offline_directories = None

    def broker_registered(self, broker: NodeId, timestamp_ms: Millis) -> None:
        """Applies a RegisterBrokerRecord: it shows which elections just before it passed over no other replica."""
        for index in self._crashed.pop(broker, ()):
            one = self.unclean[index]
            shown = self.unclean[index] = without_crashed(one, broker, timestamp_ms)
            known = None if shown is one else self._recovering.get(one.topic_id, {}).get(one.partition)
            if (
                known is not None
                and not known.emptied
                and {*(known.previous_isr or ()), *(known.previous_elr or ())} == {broker}
            ):
                self._keep_recovery(replace(known, last_leader=True))

    def clear_elr(self, name: str | None, at: RecordPosition) -> None:
        """Applies a ClearElrRecord: clears the ELRs of the topic with this name, or of every topic if None (KIP-966).

        For a partition with an ELR it counts as a change (TopicDelta.maybeClearElr).
        """
        topics = self._for_change()
        by_id = topics.by_id
        if name is not None and not topics.named(name):
            self._note("ClearElrRecord", Refusal.TOPIC_CLEARED, f"topic {name}", at.offset, snapshot=at.snapshot)
        if self._with_elr is None:
            self._with_elr = {}
            for topic_id, topic in by_id.items():
                for number, held in topic.partitions.items():
                    self._note_elr(topic_id, number, held)
        for topic_id in [*self._with_elr] if name is None else topics.named(name):
            for number in sorted(self._with_elr.pop(topic_id, ())):
                # Unless the topic was removed, and perhaps created again.
                held = by_id[topic_id].partitions.get(number, UNKNOWN) if topic_id in by_id else UNKNOWN
                if held.elr or held.last_known_elr:
                    now = held._replace(elr=(), last_known_elr=(), partition_epoch=raised(held.partition_epoch))
                    topic = topics.to_change(topic_id)
                    topic.partitions[number] = now
                    self._count((topic_id, number), topic, held, now, at)
                    known = self._recovering.get(topic_id, {}).get(number)
                    if known is not None:
                        self._keep_recovery(replace(known, partition_epoch=now.partition_epoch))

    def apply_run(self, run: PartitionRun, origin: RecordPosition | None, image: Image) -> None:
        """Applies the records of a run; `origin`: of the snapshot that they are part of, `image`: of the log before.

        A record that concerns no recovery and no reassignment only replaces the partition, which is nearly all of the
        work of a large log.
        """
        recovering, reassigned, topics = self._recovering, self._reassigned, self._for_change()
        by_id, changed_pages, with_elr = topics.by_id, topics.changed, self._with_elr
        numbers_of, offline_replicas = topics.directories.numbers, self._offline_replicas
        change_counts = self._restored_counts().change
        # A record may add a topic and a partition.
        full = topics.count + 2 * len(run) > MOST_PARTITIONS
        for row in run.rows:
            delta, topic_id, partition, values, leader_epoch, partition_epoch, directories = row
            if isinstance(values, str):
                self.create(topic_id, values, Offset(run.base_offset + delta), snapshot=run.snapshot)
                continue
            followed = values.recovering or values.adding or values.removing
            if full or followed or topic_id in recovering or topic_id in reassigned:
                event = run.event(row)
                self.apply(event, origin or event.at, image)
                continue
            topic = by_id.get(topic_id)
            held = None if topic is None else topic.partitions.get(partition)
            if topic is None or held is None:
                topic = self._with_partition(topics, topic, run, row)
            changed_pages.add(topic.page)
            if leader_epoch is None:
                now = self._changed(topic, held, run, row, image)
            else:
                assert values.replicas is not None
                numbers = () if directories is None else numbers_of(values.replicas, directories)
                now = _assignment((*values[:5], leader_epoch, partition_epoch, numbers))
            topic.partitions[partition] = now
            listed = now.directories if directories is None else directories
            if listed and len(listed) != len(now.replicas):
                self._note_directories((topic_id, partition), topic, run.position(row), change=leader_epoch is None)
            if offline_replicas:
                self._count_offline_replicas(held, now)
            change_counts((topic_id, partition), held, now)
            min_isr = topic.min_isr or self._min_isr
            if not (is_whole(now, min_isr) and is_whole(held, min_isr)):
                self._count_needed((topic_id, partition), topic, held, now)
                self._count_sums((topic_id, partition), topic, held, now, origin or run.position(row))
            if with_elr is not None:
                self._note_elr(topic_id, partition, now)

    def apply(self, record: PartitionOrTopic, at: RecordPosition, image: Image) -> None:
        """Applies one record; `at`: its position, or that of the snapshot that it is part of."""
        match record:
            case PartitionSet() | PartitionChanged():
                self._apply_partition(record, at, image)
            case TopicCreated():
                self.create(record.topic_id, record.name, record.at.offset, snapshot=record.at.snapshot)
            case TopicRemoved():
                self.remove(record.topic_id, at)
            case ElrCleared():
                self.clear_elr(record.topic, at)
            case MinInSyncReplicasSet():
                self.set_min_isr(record.topic, record.value, at)

    def _apply_partition(self, event: PartitionSet | PartitionChanged, at: RecordPosition, image: Image) -> None:
        topics = self._for_change()
        known = topics.by_id.get(event.topic_id)
        before = None if known is None else known.partitions.get(event.partition)
        if before is None and not self._has_room(event.at.offset):
            return
        key, change = (event.topic_id, event.partition), isinstance(event, PartitionChanged)
        if known is None or (change and before is None):
            self._note_missing(key, known, event.at, change=change)
        topic = topics.to_change(event.topic_id)
        if isinstance(event, PartitionSet):
            now = _assignment((*_assigned(event), ()))
        else:
            now = changed(before or UNKNOWN, PartitionValues(*_values(event)))
        if (listed := event.directories or now.directories) and len(listed) != len(now.replicas):
            self._note_directories(key, topic, event.at, change=change)
        if event.directories:
            of_change = before if change else None
            now = self._with_directories(key, topic.name, of_change, now, event.directories, at, image)
        if before is None:
            topics.partition_added(topic)
        topic.partitions[event.partition] = now
        if before is not None and _moved(before, now) and isinstance(event, PartitionChanged):
            self._note_change((event.topic_id, event.partition), topic.name, before, now, event.at)
        self._count_offline_replicas(before, now)
        self._count((event.topic_id, event.partition), topic, before, now, at)
        self._note_elr(event.topic_id, event.partition, now)
        if event.recovering or event.topic_id in self._recovering:
            self._update_recovery(event, topic.name, before, now, at, image)
        if event.adding or event.removing or event.topic_id in self._reassigned:
            self._update_reassignment(event, topic.name, at)

    def _changed(
        self, topic: Topic, held: Assignment | None, run: PartitionRun, row: RunRow, image: Image
    ) -> Assignment:
        """Returns a partition after a PartitionChangeRecord of a run."""
        _, topic_id, partition, values, _, _, directories = row
        assert isinstance(values, PartitionValues)
        now = changed(held or UNKNOWN, values)
        if directories is not None:
            key, at = (topic_id, partition), run.position(row)
            now = self._with_directories(key, topic.name, held, now, directories, at, image)
        if held is not None and _moved(held, now):
            self._note_change((topic_id, partition), topic.name, held, now, run.position(row))
        return now

    def _with_partition(self, topics: StoredTopics, topic: Topic | None, run: PartitionRun, row: RunRow) -> Topic:
        """Returns the topic of a row whose partition is not known, with room for it."""
        _, topic_id, partition, _, leader_epoch, _, _ = row
        if topic is None or leader_epoch is None:
            self._note_missing((topic_id, partition), topic, run.position(row), change=leader_epoch is None)
        topic = topic or topics.add(topic_id)
        topics.partition_added(topic)
        return topic

    def _note_missing(self, key: tuple[TopicId, int], topic: Topic | None, at: RecordPosition, *, change: bool) -> None:
        """Notes a record of a topic, or a change of a partition, that does not exist."""
        refusal = Refusal.PARTITION_TOPIC if topic is None else Refusal.PARTITION
        self._note(_partition_record(change=change), refusal, _partition(key, topic), at.offset, snapshot=at.snapshot)

    def _note_directories(self, key: tuple[TopicId, int], topic: Topic, at: RecordPosition, *, change: bool) -> None:
        """Notes a record after which a partition has not one directory for each replica."""
        kind, what = _partition_record(change=change), _partition(key, topic)
        self._note(kind, Refusal.DIRECTORIES, what, at.offset, snapshot=at.snapshot)

    def _note(self, record: str, refusal: Refusal, about: str, offset: Offset, *, snapshot: bool) -> None:
        """Notes that Kafka cannot replay a record, which is then applied as far as it can be."""
        if len(self.unreplayable) < MOST_UNREPLAYABLE:
            self.unreplayable.append(
                UnreplayableRecord(offset=offset, snapshot=snapshot, record=record, refusal=refusal, about=about)
            )

    def _note_change(
        self, key: tuple[TopicId, int], topic: str | None, before: Assignment, now: Assignment, at: RecordPosition
    ) -> None:
        """Notes that the ISR or the leader of a partition has changed."""
        if len(self.rewrites) < MOST_CHANGES and not at.snapshot:
            of_leaders = {one for one in (before.leader, now.leader) if one is not None}
            brokers = tuple(sorted(({*before.isr} ^ {*now.isr}) or of_leaders))
            partition = TopicPartition(topic_id=key[0], topic=topic, partition=key[1])
            self.rewrites.append(Rewrite(RewriteCause.PARTITION, at.timestamp_ms, brokers, partition))

    def _update_recovery(
        self,
        event: PartitionSet | PartitionChanged,
        topic: str | None,
        before: Assignment | None,
        now: Assignment,
        origin: RecordPosition,
        image: Image,
    ) -> None:
        """Updates the recovering partitions after a partition changed."""
        key = (event.topic_id, event.partition)
        known = self._recovering.get(key[0], {}).get(key[1])
        if known is not None and known.topic != topic:
            known = replace(known, topic=topic)
        if event.recovering is False:
            self._end_recovery(key)
            if known is not None and isinstance(event, PartitionChanged):
                self._record_elected_recovered(known, event, origin)
        elif known is not None:
            self._keep_recovery(continued(known, before or UNKNOWN, now, origin))
            if before is not None and passed_over(before, now):
                self._add_unclean(unclean_election(event, topic, before, now, origin))
        elif event.recovering:
            began = recovery_began(event, topic, before, now, origin)
            if began.elected and began.leader is not None and self.emptied.contains(began.leader, key, image):
                began = replace(began, emptied=True, last_leader=False)
            if self._recovering_count < MOST_RECOVERING:
                self._recovering_count += 1
                self._keep_recovery(began)
            else:
                what = f"partition {event.partition} of topic {event.topic_id} is recovering beside {MOST_RECOVERING}"
                self._refuse(event.at.offset, f"{what} others: that is not kept")
            if began.elected:
                one = unclean_election(event, topic, before, now, origin)
                self._add_unclean(one._replace(last_leader=one.last_leader and not began.emptied))

    def _update_reassignment(
        self, event: PartitionSet | PartitionChanged, topic: str | None, origin: RecordPosition
    ) -> None:
        """Updates the reassignments after a partition changed: one ends when nothing is added and removed."""
        known = self._reassigned.get(event.topic_id, {}).get(event.partition)
        adding, removing = event.adding or (), event.removing or ()
        if known is not None:
            adding = known.adding if event.adding is None else adding
            removing = known.removing if event.removing is None else removing
        if not adding and not removing:
            self._end_reassignment(event.topic_id, event.partition)
        elif known is not None and (known.adding, known.removing) == (adding, removing):
            if known.topic != topic:
                self._keep_reassignment(replace(known, topic=topic))
        elif known is not None or self._reassigned_count < MOST_REASSIGNED:
            # Another target is another reassignment.
            self._reassigned_count += known is None
            self._keep_reassignment(
                Reassignment(
                    topic_id=event.topic_id,
                    topic=topic,
                    partition=event.partition,
                    adding=adding,
                    removing=removing,
                    since_timestamp_ms=origin.timestamp_ms,
                    at_least=origin.snapshot,
                )
            )

    def _keep_reassignment(self, one: Reassignment) -> None:
        self._reassigned.setdefault(one.topic_id, {})[one.partition] = one
        self._sorted_reassigned = None

    def _end_reassignment(self, topic_id: TopicId, partition: int) -> None:
        of_topic = self._reassigned.get(topic_id, {})
        if of_topic.pop(partition, None) is not None:
            self._reassigned_count -= 1
            self._sorted_reassigned = None
            if not of_topic:
                del self._reassigned[topic_id]

    def _add_unclean(self, one: UncleanElection) -> None:
        if one.last_leader and len(one.passed_over) == 1:
            self._crashed.setdefault(one.passed_over[0], []).append(len(self.unclean))
        self.unclean.append(one)

    def _with_directories(
        self,
        key: tuple[TopicId, int],
        topic: str | None,
        before: Assignment | None,
        now: Assignment,
        directories: Directories,
        at: RecordPosition,
        image: Image,
    ) -> Assignment:
        """Returns a partition in these directories, and notes a replica that was created again in one of them."""
        numbered = self.directories
        now = now._replace(directories=numbered.numbers(now.replicas, directories))
        if before is not None:
            self.emptied.note(key, topic, before, now, at, image, numbered)
        return now

    def _note_elr(self, topic_id: TopicId, partition: int, now: Assignment) -> None:
        if self._with_elr is not None and (now.elr or now.last_known_elr):
            self._with_elr.setdefault(topic_id, set()).add(partition)

    def _has_room(self, offset: Offset) -> bool:
        """Returns whether one more topic or partition is kept; otherwise the record at this offset is refused."""
        if self._restored().count < MOST_PARTITIONS:
            return True
        self._refuse(offset, f"{MOST_PARTITIONS} topics and partitions are known, and no more are accepted")
        return False

    def _refuse(self, offset: Offset, reason: str) -> None:
        self.refused.append(Undecodable(offset=offset, reason=reason, length=0))

    def _record_elected_recovered(self, known: Recovery, event: PartitionChanged, origin: RecordPosition) -> None:
        """Records the end of a recovery if an election ended it: only the leader itself may end it (KIP-704)."""
        if event.leader is None or event.leader == known.leader or event.replicas is not None:
            return
        self.elected_recovered.append(
            ElectedRecovered(
                topic_id=known.topic_id,
                topic=known.topic,
                partition=known.partition,
                leader=event.leader,
                previous_leader=known.leader,
                offset=origin.offset,
                timestamp_ms=origin.timestamp_ms,
            )
        )

    def _keep_recovery(self, one: Recovery) -> None:
        self._recovering.setdefault(one.topic_id, {})[one.partition] = one
        self._sorted_recovering = None

    def _end_recovery(self, key: tuple[TopicId, int]) -> None:
        of_topic = self._recovering.get(key[0], {})
        if of_topic.pop(key[1], None) is not None:
            self._recovering_count -= 1
            self._sorted_recovering = None
            if not of_topic:
                del self._recovering[key[0]]

    def _for_change(self) -> StoredTopics:
        self._packed, topics = None, self._restored()
        return topics

    def _restored_counts(self) -> BrokerSums:
        self._restored()
        assert self._counts is not None
        return self._counts

    def _restored(self) -> StoredTopics:
        if self._topics is None:
            self._topics = StoredTopics.restored(self._packed or b"", self._pages)
            numbers = self._topics.directories.of_broker
            for directory in self._offline_directories or ():
                self._offline_replicas[directory.broker, numbers[directory.broker][directory.directory_id]] = (
                    directory.replicas
                )
            self._counts = BrokerSums(self._topics.by_id.values(), self._brokers_down)
        return self._topics


def _partition_record(*, change: bool) -> str:
    return "PartitionChangeRecord" if change else "PartitionRecord"


def _partition(key: tuple[TopicId, int], topic: Topic | None) -> str:
    return f"partition {key[1]} of topic {topic.name if topic is not None and topic.name else f'id {key[0]}'}"


def _moved(before: Assignment, now: Assignment) -> bool:
    return before.isr != now.isr or before.leader != now.leader


def _is_served(one: Assignment | None, min_isr: int) -> bool:
    """Returns whether a partition has a leader and enough in-sync replicas, or is unknown or removed."""
    return one is None or (one.leader is not None and len(one.isr) >= min_isr)


def changed(before: Assignment, change: PartitionValues) -> Assignment:
    """Returns a partition after a change: absent values are unchanged, epochs rise (PartitionRegistration.merge)."""
    replicas, isr, elr, last_known_elr, leader, leader_epoch, partition_epoch, directories = before
    new_replicas, new_isr, new_elr, new_last_known_elr, new_leader, leader_set, *_ = change
    if leader_set:
        leader = new_leader
        leader_epoch = None if leader_epoch is None else leader_epoch + 1
    return _assignment(
        (
            replicas if new_replicas is None else new_replicas,
            isr if new_isr is None else new_isr,
            elr if new_elr is None else new_elr,
            last_known_elr if new_last_known_elr is None else new_last_known_elr,
            leader,
            leader_epoch,
            None if partition_epoch is None else partition_epoch + 1,
            directories,
        )
    )
