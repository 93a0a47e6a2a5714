"""What is true when an alert resolves: one sentence for each rule, from the quorum now and not from the past finding.

A rule's result may be "no finding" for several reasons: the fault was fixed, the subject was removed, or what is
remembered has expired. Each sentence says which one holds.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from rules.analysis.endpoint_status import endpoint_statuses
from rules.analysis.freshness import DEFAULT_AGES, fresh_poll
from rules.analysis.voter_status import (
    CAUGHT_UP_AGE,
    VoterActivity,
    VoterStatus,
    further_failures_text,
    in_sync_count,
    voter_statuses,
)
from rules.finding import Thresholds
from rules.formatting import and_join, plural, topic_text, utc_text, visible
from rules.model.identifiers import NodeId
from rules.model.membership import majority, tolerated_failures
from rules.model.monitoring import Reason
from rules.model.quorum import Quorum

ResolvedText: TypeAlias = Callable[[Quorum, str], str]
"""Takes the quorum now and the subject of the alert."""
_AGES = Thresholds(values={**DEFAULT_AGES.values, CAUGHT_UP_AGE.name: CAUGHT_UP_AGE.default})


def resolved_text(rule: str, subject: str, quorum: Quorum) -> str:
    """Returns one sentence or two that say what is true now of a subject whose condition is over."""
    text = RESOLVED.get(rule, _over)
    if not isinstance(text, str):
        return visible(text(quorum, subject))
    return visible(text.format(subject=subject, leads=_leads(quorum), voters=_voters(quorum)))


def _over(_quorum: Quorum, subject: str) -> str:
    return f"The condition is over: {subject}."


def _node(subject: str) -> NodeId:
    number = subject.rpartition(" ")[2].partition("-")[0]
    return NodeId(int(number) if number.isdigit() else -1)


def _leads(quorum: Quorum) -> str:
    if quorum.leader_id is None:
        return "No leader is known now"
    return f"Controller {quorum.leader_id} leads" + (
        "" if quorum.leader_epoch is None else f" in epoch {quorum.leader_epoch}"
    )


def _voters(quorum: Quorum) -> str:
    return and_join(sorted(quorum.voter_ids)) if quorum.committed else "not known"


def _no_leader(quorum: Quorum, _subject: str) -> str:
    leads = "A controller leads the metadata quorum" if quorum.leader_id is None else _leads(quorum)
    return f"{leads}: metadata changes are possible. {_in_sync(quorum)}".rstrip()


def _leader_clock_skew(quorum: Quorum, subject: str) -> str:
    if quorum.leader_id == _node(subject):
        return f"The clock of {subject} and that of kraftwatch's host agree."
    return f"{_leads(quorum)}. The clock of {subject} is not compared while it does not lead."


def _broker_fenced(quorum: Quorum, subject: str) -> str:
    broker = quorum.brokers.get(_node(subject))
    alive = sum(each.alive for each in quorum.brokers.values())
    now = "is no longer registered" if broker is None else "is not fenced: it serves clients"
    return f"Broker {_node(subject)} {now}. Brokers alive: {alive} of {len(quorum.brokers)} registered."


def _broker_flapping(quorum: Quorum, subject: str) -> str:
    broker = quorum.brokers.get(_node(subject))
    if broker is None:
        return f"Broker {_node(subject)} is no longer registered."
    now = "It is not fenced: it serves clients." if broker.alive else "It is fenced now."
    return f"Broker {_node(subject)} is no longer fenced too often. {now}"


def _certificate_expiring(quorum: Quorum, _subject: str) -> str:
    dates = [probe.certificate.expires_at_ms for probe in quorum.probes.values() if probe.certificate]
    first = min((at for at in dates if at is not None), default=None)
    if first is None:
        return "No controller presents a certificate that expires soon."
    return f"No controller presents a certificate that expires before {utc_text(first)}."


def _epoch_churn(quorum: Quorum, subject: str) -> str:
    if subject.startswith("epoch "):
        return f"The leader epoch has not jumped again since {subject}. {_leads(quorum)}."
    return f"Leader elections are no longer too frequent. {_leads(quorum)}."


def _statuses(quorum: Quorum) -> tuple[VoterStatus, ...]:
    """Returns the status of each voter; none without a fresh poll in which the leader has a row."""
    poll = fresh_poll(quorum, _AGES)
    return () if poll is None or poll.leader is None else voter_statuses(quorum, poll, _AGES)


def _in_sync(quorum: Quorum) -> str:
    """Returns how many voters are in sync, as a sentence; empty if it is not known."""
    statuses = _statuses(quorum)
    in_sync = in_sync_count(statuses)
    tolerated = further_failures_text(in_sync - majority(len(statuses)))
    text = f"{in_sync} of {plural(len(statuses), 'voter')} are in sync; the quorum tolerates {tolerated}."
    return text if statuses else ""


def _voters_in_sync(quorum: Quorum, _subject: str) -> str:
    return _in_sync(quorum) or _over(quorum, "enough voters are in sync")


def _ghost_registration(quorum: Quorum, subject: str) -> str:
    node = _node(subject)
    if node not in quorum.controllers:
        return f"Controller {node} is no longer registered."
    return f"Controller {node} {'is a voter' if quorum.voter(node) else 'fetches the metadata log'}."


def _high_watermark_stalled(quorum: Quorum, _subject: str) -> str:
    at = "" if quorum.high_watermark is None else f": the high watermark is {quorum.high_watermark}"
    return f"Records are committed{at}. {_leads(quorum)}."


def _monitor_blind(_quorum: Quorum, subject: str) -> str:
    if subject == "names":
        return "The resolver of the monitor's host answers: the names of all voters are observed."
    if subject.startswith("rule "):
        return f"Rule {subject.removeprefix('rule ')} is evaluated."
    return "kraftwatch observes the quorum: the controllers answer."


def _node_records_conflict(quorum: Quorum, subject: str) -> str:
    if subject.startswith("directory "):
        return f"At most one node has the {subject.replace('directory', 'directory id', 1)}."
    if quorum.committed and not quorum.voter(_node(subject)):
        return f"Controller {_node(subject)} is not a voter."
    return f"The recorded and the registered listener of {subject} agree."


def _node_restarting(quorum: Quorum, subject: str) -> str:
    known = quorum.controllers if subject.startswith("controller") else quorum.brokers
    if _node(subject) not in known:
        return f"{subject.capitalize()} is no longer registered."
    return f"{subject.capitalize()} has not started again within the window."


def _observer_could_be_voter(quorum: Quorum, subject: str) -> str:
    node = _node(subject)
    if quorum.voter(node):
        return f"Controller {node} is a voter. The voters are {_voters(quorum)}."
    poll = fresh_poll(quorum, _AGES)
    if poll and any(row.key.id == node for row in poll.voters):
        return f"Controller {node} is being added to the voters."
    if poll and node in poll.observers_by_id:
        return f"Controller {node} does not fetch with this directory any more."
    return f"Controller {node} is not a voter and does not fetch the metadata log."


def _observer_lagging(quorum: Quorum, subject: str) -> str:
    broker = quorum.brokers.get(_node(subject))
    if broker is None:
        return f"Broker {_node(subject)} is no longer registered."
    now = "follows the metadata log" if broker.alive else "is fenced: it leads no partition"
    return f"Broker {_node(subject)} {now}."


def _quorum_shape(quorum: Quorum, _subject: str) -> str:
    if quorum.committed is None:
        return "The number of voters is as it should be."
    n = len(quorum.committed.voters)
    return f"The quorum has {plural(n, 'voter')} and tolerates {plural(tolerated_failures(n), 'failure')}."


def _stale_voter_endpoint(quorum: Quorum, subject: str) -> str:
    node = _node(subject)
    statuses = {each.voter.key.id: each for each in endpoint_statuses(quorum, fresh_poll(quorum, _AGES), _AGES)}
    status = statuses.get(node)
    if status is None:
        return f"Controller {node} is not a voter."
    if status.refused:
        return f"Controller {node} is down. Its recorded endpoint {status.endpoint} is not known to be wrong."
    return f"Voter {node} can be reached at its recorded endpoint {status.endpoint}."


def _unclean_election(quorum: Quorum, subject: str) -> str:
    topic = subject.removeprefix("topic ")
    recovering = sum(topic in (each.topic, topic_text(None, each.topic_id)) for each in quorum.recovering)
    now = f"{plural(recovering, 'partition')} of it still RECOVERING" if recovering else "no partition of it RECOVERING"
    return f"No further unclean election of {subject}; {now}. Records that were lost are not restored."


def _version_drift(quorum: Quorum, subject: str) -> str:
    if subject == "nodes":
        return "All registered nodes support the same feature levels."
    levels = {**quorum.features, "metadata.version": quorum.metadata_version, "kraft.version": quorum.kraft_version}
    level = levels.get(subject)
    if level is not None:
        return f"{subject} is finalized at level {level}."
    return f"{subject.capitalize()} supports every finalized feature level, or is no longer registered."


def _views_disagree(quorum: Quorum, subject: str) -> str:
    if subject == "quorum":
        return f"Every controller agrees on the leader. {_leads(quorum)}."
    views = [
        one for one in quorum.leader_views.values() if subject in (f"controller {one.node}", f"endpoint {one.endpoint}")
    ]
    newest = max(views, key=lambda one: one.observed_at_ms, default=None)
    if newest is not None and newest.leader_id != quorum.leader_id:
        return f"{subject.capitalize()} has not reported its leader recently. {_leads(quorum)}."
    return f"{subject.capitalize()} agrees on the leader. {_leads(quorum)}."


def _voter_change_stuck(quorum: Quorum, subject: str) -> str:
    change = "No change of the voter set is pending"
    if subject != "quorum":
        change = f"{subject.capitalize()} is no longer removed from the voters again and again"
    return f"{change}. The voters are {_voters(quorum)}."


def _voter_disk_replaced(quorum: Quorum, subject: str) -> str:
    voter = quorum.voter(_node(subject))
    if voter is None:
        return f"Controller {_node(subject)} is not a voter."
    return f"Controller {_node(subject)} is a voter with directory id {voter.key.directory_id}."


def _voter_log_regressed(quorum: Quorum, subject: str) -> str:
    if quorum.committed and not quorum.voter(_node(subject)):
        return f"Controller {_node(subject)} is not a voter."
    if any(each.reason is Reason.METADATA_LOST for each in quorum.failures):
        return f"Committed metadata was lost: the quorum no longer has the records that {subject} lacked."
    return f"The log of {subject} has all records that were committed before it went back."


def _voter_lagging(quorum: Quorum, subject: str) -> str:
    statuses = {each.key.id: each for each in _statuses(quorum)}
    if not statuses:
        return _over(quorum, subject)
    status = statuses.get(_node(subject))
    if status is None:
        return f"Controller {_node(subject)} is not a voter."
    now = "is in sync" if status.activity is VoterActivity.IN_SYNC else "fetches"
    return f"Voter {status.key.id} {now}. {_in_sync(quorum)}"


RESOLVED: Mapping[str, ResolvedText | str] = {
    "broker-fenced": _broker_fenced,
    "broker-flapping": _broker_flapping,
    "certificate-expiring": _certificate_expiring,
    "committed-metadata-lost": "No further loss of committed metadata was observed. What was lost is not restored.",
    "data-contract-broken": "Contract {subject} was not found broken again.",
    "duplicate-node-id": "One process has the id of {subject}: one directory of it fetches, and registrations do not "
    "alternate.",
    "epoch-churn": _epoch_churn,
    "failure-tolerance": _voters_in_sync,
    "forced-reconfiguration": "No voter set was forced recently. The voters are {voters}.",
    "ghost-registration": _ghost_registration,
    "high-watermark-stalled": _high_watermark_stalled,
    "leader-clock-skew": _leader_clock_skew,
    "monitor-blind": _monitor_blind,
    "no-leader": _no_leader,
    "node-records-conflict": _node_records_conflict,
    "node-restarting": _node_restarting,
    "observer-could-be-voter": _observer_could_be_voter,
    "observer-lagging": _observer_lagging,
    "open-transaction": "No metadata transaction is open: controllers and brokers apply all committed records.",
    "partition-stuck-recovering": "No partition of {subject} is RECOVERING. "
    "Records that the unclean election lost are not restored.",
    "quorum-shape": _quorum_shape,
    "raft-invariant-broken": "No further violation was observed. {leads}. Which records are committed was not checked.",
    "recovery-invariant-broken": "No partition of {subject} violates KIP-704 during recovery.",
    "snapshot-stale": "The leader's newest metadata snapshot is recent enough.",
    "stale-voter-endpoint": _stale_voter_endpoint,
    "unclean-election": _unclean_election,
    "unknown-records": "Every record of the metadata log that was read is known.",
    "version-drift": _version_drift,
    "views-disagree": _views_disagree,
    "voter-change-stuck": _voter_change_stuck,
    "voter-disk-replaced": _voter_disk_replaced,
    "voter-lagging": _voter_lagging,
    "voter-log-regressed": _voter_log_regressed,
}
"""By rule id; a sentence that is always true is a text, in which `{subject}`, `{leads}` and `{voters}` are replaced."""
