"""Committed metadata is missing from the metadata log.

What it means
    The log was truncated below an offset that a majority had already acknowledged, or was rewritten there in a newer
    epoch. Raft does not allow this (KIP-595), so something outside Kafka caused it: a controller's disk was restored
    from an older copy, a majority of the disks was wiped, or the quorum was rebuilt by hand. If it was
    `kraftwatch rescue apply --lost`, also of a static quorum, the leader's epoch shows it, and the alert says so. In a
    static quorum it is enough that new controllers, with empty disks, elect a leader by another
    `controller.quorum.voters` before the former controllers have it: scaling from one controller to three can do so.

    Topics, configurations and ACLs that were created since then may no longer exist, although Kafka confirmed them to
    the clients. The quorum looks healthy, and Kafka itself does not report the loss. The alert fires for an hour.

    If the log began after kraftwatch had observed the cluster, all controllers were formatted again with the old
    cluster id, or new ones of a static quorum elected a leader as above: the new quorum knows no topic. The brokers
    still have the former metadata, and nothing in Kafka tells them that it is another quorum:

    - A broker that runs ends with "The leader requested truncation to offset N, which is below the current high
      watermark".
    - A broker that starts truncates its metadata to the new log, and renames the directories of partitions that the new
      metadata lacks to NAME-stray. If the new log is already longer and has the same epoch, the broker appends it to
      the former one: it then works with topics that the controllers do not know.

What to do
    1. If the controllers were formatted again, stop every broker first, and start none.
    2. Leave every other node as it is, and copy the `__cluster_metadata-0` directory of each controller and broker.
    3. Find out which controller was restored or rebuilt, and who did it.
    4. Compare the copies: `kraftwatch rescue plan` prints where each log ends, which one is the most complete, and
       whether a broker has records that no controller has; `kraftwatch data decode` the records from the reported
       offset on. If newer disks of a majority of the controllers are left, put them back.
    5. If not, move `__cluster_metadata-0` of each broker away while the broker is stopped, and start it: it fetches the
       log again. The data of topics that are missing stays in directories that end in `-stray`.
    6. Create again what is missing, when every broker has the new log. A topic that is created again has another id: it
       does not use the data in `-stray`, and a broker with the former log refuses it.

What not to do
    Do not start a broker with the former metadata: it may take the new log for the end of its own. Do not restart or
    format any further node: a node that truncates its log to follow the new leader destroys a copy.
"""

import shlex
from collections.abc import Iterable, Sequence

from rules.facts.new_quorum import begins_with_rescue, formatted_again_ms
from rules.facts.other_quorums import metadata_losses
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Thresholds, hold
from rules.formatting import utc_text
from rules.model.identifiers import Millis
from rules.model.monitoring import FailedObservation
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status, who_follows
from rules.remedies.start_conditions import COPY_METADATA_FIRST
from rules.rule import Rule


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the metadata log while a loss is remembered."""
    if losses := metadata_losses(facts.quorum):
        yield _finding(facts, losses, formatted_again_ms(facts.quorum))


def _finding(facts: Facts, losses: Sequence[FailedObservation], formatted_ms: Millis | None) -> Finding:
    """`formatted_ms`: when a quorum that was formatted again began; None if it was not, as far as known."""
    quorum = facts.quorum
    return Finding(
        subject=Subject("metadata log"),
        severity=Severity.CRITICAL,
        summary=_lost(losses[-1]) if formatted_ms is None else _formatted_again(quorum, formatted_ms),
        evidence={
            **(
                {}
                if formatted_ms is None
                else {"log_begins_at": utc_text(formatted_ms), "cluster_id": quorum.cluster_id}
            ),
            "losses": [
                {
                    "detail": loss.detail,
                    "reported_by": loss.endpoint or None,
                    "first_reported_at_ms": loss.first_at_ms,
                    "last_reported_at_ms": loss.last_at_ms,
                }
                for loss in losses
            ],
            "leader": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
            "last_committed_offset": quorum.last_offset,
            "high_watermark": quorum.high_watermark,
            "voters": [str(voter.key) for voter in quorum.voters],
            "voters_record_offset": quorum.committed.offset if quorum.committed else None,
        },
        remedy=tuple(_remedy(facts) if formatted_ms is None else _stop_brokers_first(facts)),
    )


def _lost(newest: FailedObservation) -> str:
    reporter = f" (reported by {newest.endpoint})" if newest.endpoint else ""
    return f"Committed metadata was lost: {newest.detail}{reporter}. Topics, configurations and ACLs may be missing."


def _formatted_again(quorum: Quorum, began_ms: Millis) -> str:
    # Without directory ids new voters look the same as those of the former quorum with their node ids.
    other = ", or new controllers elected a leader by another controller.quorum.voters" if _is_static(quorum) else ""
    return (
        f"The quorum was formatted again with the old cluster id{other}: its metadata log began at "
        f"{utc_text(began_ms)}. It lacks the former topics, configurations and ACLs, and brokers with the former "
        "metadata must not run in it."
    )


def _remedy(facts: Facts) -> Iterable[str]:
    yield from _rescued() if begins_with_rescue(facts.quorum) else _restored(facts)
    yield (
        "# Then compare topics, configurations and ACLs with what should exist, and create again what is missing: a "
        "topic that is created again has another topic id, and does not use the data in -stray"
    )
    yield from who_follows(facts)


def _rescued() -> Iterable[str]:
    yield COPY_METADATA_FIRST
    yield (
        "# If `kraftwatch rescue apply --lost`, which began this quorum as its epochs show, was run now, go on with "
        "its plan; if that was long ago, find out which controller's disk was restored, wiped or rebuilt since"
    )


def _restored(facts: Facts) -> Iterable[str]:
    yield (
        "# If all controllers were formatted again or restored from older copies, stop every broker first and start "
        "none: it has the former metadata, and sets its partitions aside or works with topics that the controllers do "
        "not know"
    )
    yield COPY_METADATA_FIRST
    yield "# Find out which controller's disk was restored, wiped or rebuilt, and stop the process that does it"
    yield from _compare_voters(facts.quorum)
    yield (
        "# If newer disks of a majority of the controllers are left, stop all controllers, put these disks back and "
        "start them: what was written since is lost instead"
    )
    yield (
        "# If not, move __cluster_metadata-0 of every broker away while the broker is stopped, then start it: it "
        "fetches the log again, and keeps the data of topics that are missing in directories that end in -stray"
    )


def _is_static(quorum: Quorum) -> bool:
    return quorum.kraft_version == 0


def _compare_voters(quorum: Quorum) -> Iterable[str]:
    if _is_static(quorum):
        yield (
            "# Compare controller.quorum.voters of all controllers: with different lists, new ones can elect a leader "
            "that lacks the records of the others"
        )


def _stop_brokers_first(facts: Facts) -> Iterable[str]:
    quorum = facts.quorum
    yield (
        "# Stop every broker first and start none: it has the former metadata, and ends, renames the directories of "
        "its partitions to NAME-stray, or works with topics that the controllers do not know"
    )
    yield COPY_METADATA_FIRST
    yield from _compare_voters(quorum)
    yield (
        "# If this was not intended, stop all controllers, put the former content of metadata.log.dir back "
        "(meta.properties with the former directory ids too), start them, rename what brokers have renamed to "
        "NAME-stray back, and start the brokers"
    )
    yield (
        "# If it was intended, move __cluster_metadata-0 and meta.properties of each broker away, and format its "
        "directories again: on the host of the broker, with its own configuration file as $NODE_PROPERTIES"
    )
    if quorum.cluster_id is not None:
        initial = "" if _is_static(quorum) else " --no-initial-controllers"
        known = shlex.quote(quorum.cluster_id)
        yield f"kafka-storage.sh format --config $NODE_PROPERTIES --cluster-id {known}{initial}"
    yield "# Keep the directories of the former partitions, also those renamed to NAME-stray, until nothing is missed"
    yield describe_status(facts)


RULE = Rule(
    title="Committed metadata was lost",
    resolved="No further loss of committed metadata was observed. What was lost is not restored.",
    hold=hold(0.0, "one observation is proof"),
    without_leader=True,
    records_at_risk=True,
)
