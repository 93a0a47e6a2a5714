"""Records of the metadata log are written again and again, from one cause.

What it means
    All controllers and brokers read and store each of these records; everything still works. Three causes are counted,
    and reported once they have gone on for ten minutes:

    - The ISR or the leader of a partition has changed 20 times, and no five minutes have passed between two changes. A
      follower falls behind for replica.lag.time.max.ms, the leader removes it from the ISR, it catches up, and the
      leader adds it again, every few seconds or minutes. Meanwhile producers with acks=all may get NOT_ENOUGH_REPLICAS,
      and a failure of the leader loses the partition if no other replica is in sync at that moment. Or a tool or script
      moves the leader to and fro, and with each move the clients have to find it again. A restart of a broker changes
      each ISR twice: neither up to three rolling restarts in a row, nor reassignments, nor new topics make that many
      changes.
    - Brokers ask for two blocks of 1,000 producer ids a minute or more. Each new producer takes an id (idempotence is
      the default of Kafka's clients), and brokers remember it for producer.id.expiration.ms, a day, in each partition
      that it wrote to, so their memory fills. It is often a client that makes a producer for each message. A broker
      needs one new block after a restart, which does not count.
    - A broker or controller has registered ten times with the same process, with less than five minutes between them.
      A process that starts again and again is `node-restarting`, two processes with one id are `duplicate-node-id`.

What to do
    1. ISR: find the broker that leaves and joins in most of the partitions: it is slow, or its path to the leaders is.
       Check its disk, its CPU, its garbage collection and its network. If it replicates more than it can, move
       partitions away from it, or limit the clients by quotas.
    2. Leaders: find what elects them. A balancer (Cruise Control) or a script with kafka-leader-election.sh names the
       partitions in its own log.
    3. Producer ids: find the client. The metric kafka.network:type=RequestMetrics,name=RequestsPerSec,
       request=InitProducerId of the brokers named counts its requests. Let it keep one producer.
    4. Registrations: read in the node's log why it registers again.

What not to do
    Do not raise replica.lag.time.max.ms first: the follower stays slow, and a leader waits longer for it with acks=all.
    Do not lower producer.id.expiration.ms below the time for which producers pause: those that go on after it lose
    what protects them from duplicates.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from rules.facts.needs import Need
from rules.facts.offline_partitions import named
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Thresholds, hold
from rules.formatting import and_join, numbered, plural, utc_text
from rules.model.history import NodeKind, RewriteCause, Rewrites
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_topic
from rules.remedies.step import restarts
from rules.rule import Rule

_MOST_LISTED = 8
_NODES = {RewriteCause.BROKER: NodeKind.BROKER, RewriteCause.CONTROLLER: NodeKind.CONTROLLER}


def evaluate(facts: Facts, _thresholds: Thresholds) -> Iterable[RuleResult]:
    """Yields one finding about all partitions, one about producer ids, and one for each node that registers."""
    quorum = facts.quorum
    now_ms = quorum.newest_timestamp_ms
    if now_ms is None:
        return
    written = [rewrite for rewrite in quorum.history.rewrites if rewrite.are_many and not rewrite.is_over(now_ms)]
    if churning := [rewrites for rewrites in written if rewrites.cause is RewriteCause.PARTITION]:
        yield _of_partitions(facts, sorted(churning, key=lambda one: one.since_timestamp_ms), now_ms)
    for one in written:
        if one.cause is RewriteCause.PRODUCER_IDS:
            yield _of_producer_ids(quorum, one, now_ms)
        elif one.cause in _NODES:
            yield _of_registration(_NODES[one.cause], one, now_ms)


def _of_partitions(facts: Facts, churning: Sequence[Rewrites], now_ms: Millis) -> Finding:
    oldest = churning[0]
    brokers = [node for node, _ in Counter(node for rewrites in churning for node in rewrites.nodes).most_common()]
    partitions = {named(rewrites.partition): rewrites for rewrites in churning if rewrites.partition is not None}
    topic = None if oldest.partition is None else oldest.partition.topic
    return Finding(
        subject=Subject("partitions"),
        severity=Severity.WARNING,
        summary=f"The ISR or leader of {plural(len(churning), 'partition')} has changed again and again since "
        f"{utc_text(oldest.since_timestamp_ms)}: {and_join(partitions)}. The newest changes are of "
        f"{numbered('broker', brokers)}.",
        evidence={
            "partitions": [
                f"{name}: {rewrites.records // 10 * 10} times or more, {numbered('broker', rewrites.nodes)}"
                for name, rewrites in [*partitions.items()][:_MOST_LISTED]
            ],
            "number_of_partitions": len(churning),
            "brokers": [*brokers[:_MOST_LISTED]],
            "since": utc_text(oldest.since_timestamp_ms),
        },
        remedy=(
            f"# Check the disk, the CPU, the garbage collection log and the network of {numbered('broker', brokers)}",
            "# Check in the logs of the partitions' leaders why they shrink the ISR (Shrinking ISR); if they do not, "
            "find the balancer or script that elects other leaders",
            *((describe_topic(facts, topic, ()),) if topic is not None else ()),
        ),
        condition_age_ms=Millis(now_ms - oldest.since_timestamp_ms),
    )


def _of_producer_ids(quorum: Quorum, one: Rewrites, now_ms: Millis) -> Finding:
    counts = {node: quorum.brokers[node].producer_id_blocks for node in one.nodes if node in quorum.brokers}
    brokers = sorted(one.nodes, key=lambda node: -counts.get(node, 0))
    return Finding(
        subject=Subject("producer ids"),
        severity=Severity.WARNING,
        summary=f"Clients have made new producers again and again since {utc_text(one.since_timestamp_ms)}, 2,000 a "
        f"minute or more: {numbered('broker', brokers)} {'asks' if len(brokers) == 1 else 'ask'} for blocks of 1,000 "
        "producer ids. Brokers remember each id for a day: their memory fills.",
        evidence={
            "brokers": [*brokers[:_MOST_LISTED]],
            "number_of_brokers": len(brokers),
            "blocks_since_each_registered": {str(node): counts.get(node) for node in brokers[:_MOST_LISTED]},
            "since": utc_text(one.since_timestamp_ms),
        },
        remedy=(
            "# Find the client that sends InitProducerId (broker metric kafka.network:type=RequestMetrics,"
            f"name=RequestsPerSec,request=InitProducerId, or the request log) to {numbered('broker', brokers)}",
            "# Let it keep one producer instead of one for each message or task",
            "# Until then limit how fast it connects, by a quota of connection_creation_rate for its address",
        ),
        condition_age_ms=Millis(now_ms - one.since_timestamp_ms),
    )


def _of_registration(kind: NodeKind, one: Rewrites, now_ms: Millis) -> Finding:
    node = one.nodes[0]
    return Finding(
        subject=Subject(kind, node),
        severity=Severity.WARNING,
        summary=f"{kind.capitalize()} {node} has registered again and again since {utc_text(one.since_timestamp_ms)}, "
        "ten times or more, without a restart.",
        evidence={"node": f"{kind} {node}", "since": utc_text(one.since_timestamp_ms)},
        remedy=(
            f"# Check in the log of {kind} {node} why it registers again",
            restarts(f"# If the log does not say it, restart {kind} {node}", node),
        ),
        condition_age_ms=Millis(now_ms - one.since_timestamp_ms),
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    if subject.kind == "partitions":
        return "No ISR or leader changes again and again any longer, or its partition was deleted."
    if subject.kind == "producer ids":
        return "Brokers ask for fewer than two blocks of producer ids a minute."
    return f"{str(subject).capitalize()} no longer registers again and again."


RULE = Rule(
    title="Records of the metadata log are written again and again",
    resolved=_resolved,
    hold=hold(600.0, "what a person repeats by hand is over sooner"),
    needs=(Need.CURRENT_LOG,),
    inhibited_by=("broker-flapping",),
    grouped_with=("node-restarting", "restarts-without-end"),
    without_leader=True,
)
